"""oASIS-P: landmarks of points that are spread over machines (Patel et al., Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk.distributed.actors import Actors, Closing, import_ray
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.kernels.base import check_dtype
from streamk.landmarks.matrices import Indices, KernelMatrix, Numbers, checked_points
from streamk.landmarks.methods import check_options, least_of_start
from streamk.landmarks.selection import Factor, Selection, check_count, check_range

_FEWEST, _TIMES = 256, 8
"""Rows that a block is chosen among: at least so many, or so many times its size."""

Shard = str | PathLike[str] | Callable[[], Any] | Any
"""Points (n, d): a file written by `numpy.save`, a function that returns them, or an array."""


class Size(NamedTuple):
    """The contents of a shard."""

    rows: int
    columns: int
    largest: float
    """Largest diagonal entry of its kernel matrix."""


def read(shard: Shard) -> Numbers:
    """Return a shard's points.

    Raises `InvalidInput` if there is no such file, it is not an array, or the points are not a
    matrix of finite numbers.
    """
    if isinstance(shard, str | PathLike):
        path = Path(shard)
        try:
            found: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{path} cannot be read where its worker runs: {error}. A shard's file is written "
                "by numpy.save; pass a function that returns the points to read other formats"
            ) from None
        return checked_points(found, str(path))
    return checked_points(shard() if callable(shard) else shard, "the shard")


class LandmarkFactor:
    """Landmarks and their rows of the factor, from which the row of any other point follows.

    A row has the bits that it has anywhere else, see `streamk.landmarks.selection.Factor`. There
    may be `capacity` landmarks of so many columns.
    """

    def __init__(self, kernel: Kernel, capacity: int, columns: int, dtype: np.dtype[Any]) -> None:
        self._kernel = kernel
        self._points = np.empty((capacity, columns))
        self._L = np.zeros((capacity, capacity), dtype)
        self.schur: list[float] = []
        """Schur complement of each landmark when it was chosen."""

    def __len__(self) -> int:
        return len(self.schur)

    @property
    def points(self) -> Numbers:
        """The landmarks, (landmarks, columns)."""
        return self._points[: len(self)]

    @property
    def L(self) -> NDArray[Any]:  # noqa: N802
        """Their rows of the factor, lower triangular (landmarks, landmarks)."""
        return self._L[: len(self), : len(self)]

    def factor(self, points: Numbers) -> Factor:
        """Return the factor of some points."""
        k, dtype = len(self), self._L.dtype
        found = Factor(KernelMatrix(self._kernel, points).rows(dtype), len(self._L), dtype, 1)
        found.extend(self.points, self._L[:k], 0)
        return found

    def append(
        self, point: Numbers, factor: Factor, place: int
    ) -> tuple[Numbers, NDArray[Any], float]:
        """Append one of the points of a factor as a landmark, in that factor too.

        Returns the landmark, its row of the factor up to the diagonal, as they are kept here, and
        its Schur complement.
        """
        k, delta = len(self), float(factor.schur[place])
        row = factor.F[place, :k]
        self._points[k], self._L[k, :k], self._L[k, k] = point, row, math.sqrt(delta)
        self.schur.append(delta)
        factor.extend(point[None], self._L[k : k + 1], k)
        factor.schur[place] = -np.inf
        return self._points[k], self._L[k, : k + 1], delta


class Worker:
    """One shard's rows of the factor, up to date with the landmarks it was told of."""

    def __init__(self, shard: Shard, kernel: Kernel, dtype: np.dtype[Any], threads: int) -> None:
        self._shard, self._kernel = shard, kernel
        self._dtype, self._threads = dtype, threads
        self._matrix: KernelMatrix
        self._selection: Selection
        self._known: LandmarkFactor
        self._capacity = self._left = 0

    def load(self) -> Size:
        """Read the points."""
        self._matrix = matrix = KernelMatrix(self._kernel, read(self._shard))
        self._shard = None
        return Size(matrix.n, matrix.points.shape[1], float(matrix.diagonal().max()))

    def begin(self, capacity: int) -> None:
        """Have no landmarks yet, and room for so many."""
        matrix, dtype = self._matrix, self._dtype
        self._selection = Selection(matrix.rows(dtype), capacity, dtype, self._threads)
        self._known = LandmarkFactor(self._kernel, capacity, matrix.points.shape[1], dtype)
        self._capacity, self._left = capacity, matrix.n

    def points(self, rows: list[int]) -> Numbers:
        """Return some of the points."""
        return self._matrix.points[rows]

    def extend(
        self, points: Numbers, rows: list[int | None], count: int
    ) -> list[tuple[float, int]]:
        """Append landmarks (b, d), perhaps none, and name the rows that could come next.

        `rows` tells which of this shard's the landmarks are. Returns complements and rows, so many
        at most, the largest first: of each what is left of it after those before. None are there
        where all rows are landmarks already.
        """
        factor = self._known.factor(points)
        for place, (point, row) in enumerate(zip(points, rows, strict=True)):
            self._selection.add_foreign(*self._known.append(point, factor, place), row)
            self._left -= row is not None
        if not self._left:
            return []
        return [self._selection.best()] if count == 1 else self._propose(min(count, self._left))

    def _propose(self, count: int) -> list[tuple[float, int]]:
        """Choose rows greedily among those of the largest complements, and forget the choice."""
        selection, points = self._selection, self._matrix.points
        selection.flush()
        rows = np.argsort(-selection.factor.schur, kind="stable")
        rows = np.sort(rows[: max(_FEWEST, _TIMES * count)])
        first = len(selection)
        few = selection.factor.take(rows, first)
        found: list[tuple[float, int]] = []
        for k in range(first, min(first + count, self._capacity)):
            place = int(np.argmax(few.schur))
            delta = float(few.schur[place])
            found.append((delta, int(rows[place])))
            if delta <= 0.0:
                break
            row = np.append(few.F[place, :k], few.F.dtype.type(math.sqrt(delta)))
            few.extend(points[rows[place]][None], row[None], k)
            few.schur[place] = -np.inf
        return found

    def factor(self) -> NDArray[Any]:
        """Return this shard's rows of the factor, (n, landmarks)."""
        self._selection.flush()
        return self._selection.factor.F[:, : len(self._selection)]


@dataclass(frozen=True, eq=False, repr=False)
class ShardedLandmarks(Closing):
    """Landmarks of points that stay on their machines, as does each shard's part of the factor.

    Made by `oasis_parallel`. The workers live as long as it does; `close` it, or use it in a
    ``with`` statement, to dismiss them sooner.
    """

    kernel: Kernel
    points: Numbers
    """The landmarks (landmarks, d)."""
    indices: Indices
    """Rows of the landmarks in all shards put one after the other, in the order chosen."""
    schur: Numbers
    """Schur complement of each landmark when it was chosen (landmarks,)."""
    stopped: str
    """"count", "tolerance", "rounding" (what was left may be rounding) or "all"."""
    offsets: Indices
    """Beginnings of each shard's rows, and how many there are in all (shards + 1,)."""
    L: Numbers
    """Lower triangular factor of the kernel matrix between them (landmarks, landmarks)."""
    _workers: Actors

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        shards = len(self.offsets) - 1
        return f"<{len(self)} landmarks of {self.n} rows in {shards} shards, {self.stopped!r}>"

    @property
    def n(self) -> int:
        """Points in all shards."""
        return int(self.offsets[-1])

    @property
    def restarts(self) -> int:
        """Workers that died and were replaced so far."""
        return self._workers.restarts

    @property
    def W_inverse(self) -> Numbers:  # noqa: N802 (as the paper writes it)
        """Inverse of the kernel matrix between the landmarks, (landmarks, landmarks)."""
        inverse = scipy.linalg.solve_triangular(self.L, np.eye(len(self)), lower=True)
        return np.asarray(inverse.T @ inverse)

    def transform(self, Y: ArrayLike) -> Numbers:
        """Return the Nyström features ``L^-1 k(landmarks, y)``, whose products give the kernel.

        They need the landmarks alone. A row's features have the same bits in whatever batch it
        comes. Raises `InvalidInput` if `Y` does not fit or a value is not finite.

        Parameters
        ----------
        Y : array of shape (m, d)

        Returns
        -------
        float64 array of shape (m, landmarks)
        """
        rows = KernelMatrix(self.kernel, self.points).new_rows(Y, self.points)
        factor = Factor(rows, len(self), np.dtype(np.float64))
        factor.extend(self.points, self.L, 0)
        F: Numbers = factor.F[:, : len(self)]
        return F

    def factor(self, shard: int) -> NDArray[Any]:
        """Fetch one shard's rows of the factor F, (rows, landmarks).

        Raises `InvalidInput` if there is no such shard, or the workers are dismissed.
        """
        if not 0 <= shard < len(self._workers):
            raise InvalidInput(f"shard={shard!r} must be from 0 to {len(self._workers) - 1}")
        if not self._workers.is_open:
            raise InvalidInput(
                f"the factor of shard {shard} is gone with its worker; fetch it before close(), or "
                "inside the with statement"
            )
        found: NDArray[Any] = self._workers.ask_one(shard, "factor", ())
        return found

    def close(self) -> None:
        """Dismiss the workers: their parts of the factor are gone, all else stays."""
        self._workers.close()


def oasis_parallel(
    shards: Sequence[Shard],
    kernel: Kernel,
    *,
    max_landmarks: int,
    tol: float = 0.0,
    n_init: int = 1,
    seed: int = 0,
    block_size: int = 1,
    dtype: DTypeLike = "float64",
    threads: int = 1,
    max_restarts: int = 3,
    options: Mapping[str, Any] | Sequence[Mapping[str, Any]] = {},
) -> ShardedLandmarks:
    """Choose landmarks among points that are spread over machines (oASIS-P, Patel et al., §III-C).

    Each shard has a worker, a Ray actor that reads the shard itself and keeps that shard's rows of
    the factor. For a landmark, each worker sends its largest Schur complement and that row's
    number, the worker that has the largest of all sends the point, and the point goes to all, who
    find its row of the factor from their own copies of the landmarks and of L. Nothing else
    travels. The landmarks are those of `streamk.landmarks.oasis` on the shards put one after the
    other, to the last bit where the machines' processors are alike.

    A worker that dies, with its machine or alone, is replaced by one that reads the shard again and
    takes up all landmarks at once; the result is the same.

    Parameters
    ----------
    shards : sequence of path, function or array
        Points (n, d), all with the same columns: files written by `numpy.save`, found where the
        worker runs; functions without arguments that return the points; or arrays, which are sent
        from here. Each must read the same every time.
    kernel : Kernel
    max_landmarks : int
        Most landmarks.
    tol : float, default 0
        The paper's epsilon, see `streamk.landmarks.oasis`.
    n_init : int, default 1
        Landmarks drawn at random to start with.
    seed : int, default 0
        Of that draw.
    block_size : int, default 1
        An approximation if more than 1: so many landmarks are chosen a round, of which each had at
        least half of the largest Schur complement of the round's beginning when it was chosen,
        where `oasis` always takes the largest. Saves round trips, for small shards and slow
        networks.
    dtype : {"float64", "float32"}
        Of the factor.
    threads : int, default 1
        Of each worker; results do not depend on it.
    max_restarts : int, default 3
        Times that the worker of one shard is replaced before it answers again. A machine that is
        lost can take two: Ray may place a successor there before it has missed the machine.
    options : mapping, or sequence of one for each shard
        Options of the Ray actors, such as ``{"num_cpus": 4, "resources": {"disk-7": 1}}`` for a
        worker where the shard's disk is.

    Returns
    -------
    ShardedLandmarks

    Raises
    ------
    InvalidInput
        If an argument or a shard cannot be used, naming it.
    WorkerLost
        If a worker dies more often than `max_restarts`.
    BackendUnavailable
        If Ray is not installed.

    Notes
    -----
    Ray is used as it is connected; where it is not, Ray starts itself on this machine. A worker
    takes ``8 rows max_landmarks`` bytes for its part of the factor and ``8 max_landmarks^2`` for
    L, half of either in float32. It finds a landmark's row of the factor with as much arithmetic
    as half as many of its own rows as there are landmarks take.
    """
    check_options(max_landmarks, tol, n_init, seed)
    real = check_dtype(dtype)
    check_count("block_size", block_size)
    check_count("threads", threads)
    check_count("max_restarts", max_restarts, least=0)
    if not isinstance(kernel, Kernel):
        raise InvalidInput(
            f"kernel={kernel!r} must be a streamk Kernel; a diffusion kernel or a given matrix "
            "would need rows of other shards: take streamk.landmarks.oasis"
        )
    if isinstance(shards, str | np.ndarray) or not len(shards):
        raise InvalidInput("shards must be a list of at least one shard, such as [X] for one array")
    run = OasisRun(
        shards, kernel, max_landmarks, tol, block_size, real, threads, max_restarts, options
    )
    try:
        run.start(n_init, seed)
        while not run.stopped:
            run.step()
    except BaseException:
        run.close()
        raise
    return run.result()


class OasisRun(Actors):
    """A selection under way: the knowledge of the paper's central node, and a worker per shard.

    What a worker knows is its shard and the landmarks, so one that dies is replaced by another,
    anywhere in the cluster, that reads the shard again and is told all landmarks at once.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        kernel: Kernel,
        max_landmarks: int,
        tol: float,
        block_size: int,
        dtype: np.dtype[Any],
        threads: int,
        max_restarts: int,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    ) -> None:
        ray = import_ray()
        # An array goes once into Ray's object store, from where every worker of its shard has it.
        sent = [ray.put(s) if isinstance(s, np.ndarray) else s for s in shards]
        self._kernel, self._max_landmarks = kernel, max_landmarks
        self._tol, self._block, self._dtype = tol, block_size, dtype
        self._eps = 4.0 * float(np.finfo(dtype).eps)
        self._sizes: list[Size] = []
        self._told: list[tuple[Numbers, list[list[int | None]]]] = []
        """Landmarks, and which rows of each shard they are."""
        self._indices: list[int] = []
        self._named: list[tuple[float, int]] = []
        self._most = 0
        self.stopped = ""
        each = [(shard, kernel, dtype, threads) for shard in sent]
        super().__init__(Worker, each, options=options, max_restarts=max_restarts)

    @property
    def _rounding(self) -> float:
        """The rounding of all rows, see `Selection.rounding`."""
        least = float(np.finfo(self._dtype).tiny)
        return max(self._eps * (len(self._known) + 1) * self._largest, least)

    def start(self, n_init: int, seed: int) -> None:
        """Have the workers read their shards, and take the landmarks that are drawn at random."""
        self._sizes = self.ask("load", [()] * len(self))
        columns = [size.columns for size in self._sizes]
        if set(columns) != {columns[0]}:
            other = next(s for s, c in enumerate(columns) if c != columns[0])
            raise InvalidInput(
                f"shard {other} has {columns[other]} columns and shard 0 has {columns[0]}; all "
                "must have the same"
            )
        self.offsets = np.cumsum([0, *(size.rows for size in self._sizes)], dtype=np.int64)
        n = int(self.offsets[-1])
        most = min(self._max_landmarks, n)
        self._largest = max(size.largest for size in self._sizes)
        check_range(self._largest, self._dtype)
        self._known = LandmarkFactor(self._kernel, most, columns[0], self._dtype)
        self.ask("begin", [(most,)] * len(self))
        self._most = most
        random = np.random.Generator(np.random.Philox(seed))
        drawn = random.choice(n, size=min(n_init, most), replace=False)
        drawn.sort()  # of equal complements the first row's counts
        points = self._fetch(drawn.tolist())
        least = least_of_start(self._kernel.diagonal(points), self._dtype)
        order = self._take(points, least, sure=0)
        self._broadcast(points[order], drawn[order].tolist())

    def step(self) -> None:
        """Take the next landmark or block of landmarks, or stop."""
        top = self._named[0][0] if self._named else -np.inf
        if len(self._indices) == self._most:
            self.stopped = "count" if self._most == self._max_landmarks else "all"
        elif top <= self._rounding:
            self.stopped = "rounding"
        elif top <= self._tol:
            self.stopped = "tolerance"
        else:
            indices = [i for _, i in self._named]
            points = self._fetch(indices)
            # The first is above all bounds where its worker is; the last bits may differ here.
            order = self._take(points, max(self._tol, top / 2.0), sure=1)
            self._broadcast(points[order], [indices[place] for place in order])

    def _take(self, points: Numbers, least: float, sure: int) -> list[int]:
        """Append points in the order of what is left of them, while that is more than `least`.

        The first `sure` ones are appended in any case.
        """
        known, order = self._known, list[int]()
        factor = known.factor(points)
        while len(known) < self._most and len(order) < len(points):
            place = int(np.argmax(factor.schur))
            if len(order) >= sure and factor.schur[place] <= max(least, self._rounding):
                break
            known.append(points[place], factor, place)
            order.append(place)
        return order

    def _fetch(self, indices: list[int]) -> Numbers:
        """Return points by their rows in all shards, in that order."""
        found = np.empty((len(indices), self._sizes[0].columns))
        refs = {}
        for s, rows in enumerate(self._local(indices)):
            own = [row for row in rows if row is not None]
            if own:
                refs[s] = rows, own, self._workers[s].points.remote(own)
        for s, (rows, own, ref) in refs.items():
            found[[row is not None for row in rows]] = self._get(s, ref, "points", (own,))
        return found

    def _local(self, indices: list[int]) -> list[list[int | None]]:
        """Return for each shard which of its rows some rows are, None where they are others'."""
        edges = self.offsets.tolist()
        return [[i - a if a <= i < b else None for i in indices] for a, b in pairwise(edges)]

    def _broadcast(self, points: Numbers, indices: list[int]) -> None:
        """Tell the workers of new landmarks, and hear what could come next."""
        local = self._local(indices)
        named = self.ask("extend", [(points, own, self._block) for own in local])
        self._told.append((points, local))
        offsets = self.offsets.tolist()
        every = [(delta, offsets[s] + row) for s, some in enumerate(named) for delta, row in some]
        # Of equal complements the first row's counts.
        self._named = sorted(every, key=lambda pair: (-pair[0], pair[1]))[: self._block]
        self._indices += indices

    def result(self) -> ShardedLandmarks:
        """Return the landmarks chosen."""
        return ShardedLandmarks(
            kernel=self._kernel,
            points=self._known.points,
            indices=np.array(self._indices, np.int64),
            schur=np.array(self._known.schur),
            stopped=self.stopped,
            offsets=self.offsets,
            L=self._known.L.astype(np.float64),
            _workers=self,
        )

    def _restore(self, s: int, worker: Any) -> None:
        """Have a worker read the shard again, and tell it all landmarks."""
        if not self._sizes:
            return
        size = self._ray.get(worker.load.remote())
        if size != self._sizes[s]:
            raise InvalidInput(
                f"shard {s} has changed: {size} instead of {self._sizes[s]}; a shard must read "
                "the same every time"
            )
        if not self._most:
            return
        worker.begin.remote(self._most)
        known = np.concatenate([np.empty((0, size.columns)), *(points for points, _ in self._told)])
        own = [row for _, rows in self._told for row in rows[s]]
        self._ray.get(worker.extend.remote(known, own, 1))
