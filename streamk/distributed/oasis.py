"""oASIS-P: landmarks of points that are spread over machines (Patel et al., Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk.distributed.actors import Closing
from streamk.distributed.shards import LandmarkFactor, Shard
from streamk.distributed.worker_pool import WorkerPool
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.checks import check_count
from streamk.landmarks.factor import Factor, check_range
from streamk.landmarks.matrices import Indices, KernelMatrix, Numbers
from streamk.landmarks.nystrom import checked_dtype
from streamk.landmarks.oasis import check_options, least_of_start


@dataclass(frozen=True, eq=False, repr=False)
class ShardedLandmarks(Closing):
    """Landmarks of points that stay on their machines, as does each shard's part of the factor.

    Made by `oasis_parallel`. The workers live as long as it does; `close` it, or use it in a
    ``with`` statement, to dismiss them sooner.

    Attributes
    ----------
    kernel : Kernel
    points : float64 array of shape (landmarks, d)
    indices : int64 array of shape (landmarks,)
        Rows of the landmarks in all shards put one after the other, in the order chosen.
    schur : float64 array of shape (landmarks,)
        Schur complement of each landmark when it was chosen.
    stopped : str
        "count", "tolerance", "rounding" (what was left may be rounding) or "all".
    offsets : int64 array of shape (shards + 1,)
        Where each shard's rows begin, and how many there are in all.
    L : float64 array of shape (landmarks, landmarks)
        Lower triangular factor of the kernel matrix between the landmarks.
    """

    kernel: Kernel
    points: Numbers
    indices: Indices
    schur: Numbers
    stopped: str
    offsets: Indices
    L: Numbers
    _workers: WorkerPool

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
        """Return the Nyström features ``L^-1 k(landmarks, y)``, whose products are the kernel's.

        They need the landmarks alone. A row's features have the same bits in whatever batch it
        comes.

        Parameters
        ----------
        Y : array of shape (m, d)

        Returns
        -------
        float64 array of shape (m, landmarks)

        Raises
        ------
        InvalidInput
            If `Y` does not fit or a value is not finite.
        """
        rows = KernelMatrix(self.kernel, self.points).new_rows(Y, self.points)
        factor = Factor(rows, len(self), np.dtype(np.float64))
        factor.extend(self.points, self.L, 0)
        F: Numbers = factor.F[:, : len(self)]
        return F

    def factor(self, shard: int) -> NDArray[Any]:
        """Fetch one shard's rows of the factor F, (rows, landmarks).

        Raises
        ------
        InvalidInput
            If there is no such shard, or the workers are dismissed.
        """
        if not 0 <= shard < len(self._workers):
            raise InvalidInput(f"shard={shard!r} must be from 0 to {len(self._workers) - 1}")
        found: NDArray[Any] = self._workers.one(shard, "factor")
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
    real = checked_dtype(dtype)
    for name, value, least in (
        ("block_size", block_size, 1),
        ("threads", threads, 1),
        ("max_restarts", max_restarts, 0),
    ):
        check_count(name, value, least)
    if not isinstance(kernel, Kernel):
        raise InvalidInput(
            f"kernel={kernel!r} must be a streamk Kernel; a diffusion kernel or a given matrix "
            "would need rows of other shards: take streamk.landmarks.oasis"
        )
    if isinstance(shards, str | np.ndarray) or not len(shards):
        raise InvalidInput("shards must be a list of at least one shard, such as [X] for one array")
    workers = WorkerPool(
        shards, kernel, dtype=real, threads=threads, options=options, max_restarts=max_restarts
    )
    try:
        run = Run(workers, kernel, max_landmarks, tol, block_size, real)
        run.start(n_init, seed)
        while not run.stopped:
            run.step()
    except BaseException:
        workers.close()
        raise
    return run.result()


class Run:
    """The choice as it goes on: what the paper's central node knows."""

    def __init__(
        self,
        workers: WorkerPool,
        kernel: Kernel,
        max_landmarks: int,
        tol: float,
        block_size: int,
        dtype: np.dtype[Any],
    ) -> None:
        self._workers, self._kernel = workers, kernel
        self._tol, self._block, self._dtype = tol, block_size, dtype
        workers.load()
        columns = [size.columns for size in workers.sizes]
        if set(columns) != {columns[0]}:
            other = next(s for s, c in enumerate(columns) if c != columns[0])
            raise InvalidInput(
                f"shard {other} has {columns[other]} columns and shard 0 has {columns[0]}; all "
                "must have the same"
            )
        self.offsets = np.cumsum([0, *(size.rows for size in workers.sizes)], dtype=np.int64)
        n = int(self.offsets[-1])
        self._most = min(max_landmarks, n)
        self._when_full = "count" if self._most == max_landmarks else "all"
        self._eps = 4.0 * float(np.finfo(dtype).eps)
        self._largest = max(size.largest for size in workers.sizes)
        check_range(self._largest, dtype)
        self._known = LandmarkFactor(kernel, self._most, columns[0], dtype)
        self._indices: list[int] = []
        self._named: list[tuple[float, int]] = []
        self.stopped = ""

    @property
    def _rounding(self) -> float:
        """As `Selection.rounding` of all rows."""
        least = float(np.finfo(self._dtype).tiny)
        return max(self._eps * (len(self._known) + 1) * self._largest, least)

    def start(self, n_init: int, seed: int) -> None:
        """Take the landmarks that are drawn at random."""
        self._workers.begin(self._most)
        random = np.random.Generator(np.random.Philox(seed))
        drawn = random.choice(int(self.offsets[-1]), size=min(n_init, self._most), replace=False)
        drawn.sort()  # of equal complements the first row's counts
        points = self._fetch(drawn.tolist())
        least = least_of_start(self._kernel.diagonal(points), self._dtype)
        order = self._take(points, least, sure=0)
        self._broadcast(points[order], drawn[order].tolist())

    def step(self) -> None:
        """Take the next landmark or block of landmarks, or stop."""
        top = self._named[0][0] if self._named else -np.inf
        if len(self._indices) == self._most:
            self.stopped = self._when_full
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
        found = np.empty((len(indices), self._workers.sizes[0].columns))
        local = self._local(indices)
        parts = self._workers.points([[row for row in rows if row is not None] for rows in local])
        for rows, part in zip(local, parts, strict=True):
            found[[row is not None for row in rows]] = part
        return found

    def _local(self, indices: list[int]) -> list[list[int | None]]:
        """Return for each shard which of its rows some rows are, None where they are others'."""
        edges = self.offsets.tolist()
        return [[i - a if a <= i < b else None for i in indices] for a, b in pairwise(edges)]

    def _broadcast(self, points: Numbers, indices: list[int]) -> None:
        """Tell the workers of new landmarks, and hear what could come next."""
        named = self._workers.extend(points, self._local(indices), self._block)
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
            _workers=self._workers,
        )
