"""Shards of points: where each part of the data is, and one worker's landmarks on its part."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.factor import Factor
from streamk.landmarks.matrices import KernelMatrix, Numbers
from streamk.landmarks.matrices.points import checked_points
from streamk.landmarks.selection import Selection

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

    Raises
    ------
    InvalidInput
        If there is no such file, it is no array, or the points are no matrix of finite numbers.
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
    """Landmarks and their rows of the factor: what it takes to find the row of any other point.

    A row has the bits that it has anywhere else, see `streamk.landmarks.factor.Factor`.

    Parameters
    ----------
    kernel : Kernel
    capacity, columns : int
        Most landmarks, and the numbers of each.
    dtype : float32 or float64
        Of the factor.
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

        Returns
        -------
        the landmark and its row of the factor, up to the diagonal, as they are kept here, and its
        Schur complement
        """
        k, delta = len(self), float(factor.schur[place])
        row = factor.F[place, :k]
        self._points[k], self._L[k, :k], self._L[k, k] = point, row, math.sqrt(delta)
        self.schur.append(delta)
        factor.extend(point[None], self._L[k : k + 1], k)
        factor.schur[place] = -np.inf
        return self._points[k], self._L[k, : k + 1], delta


class Worker:
    """One shard's rows of the factor, up to date with the landmarks it was told of.

    Parameters
    ----------
    shard : Shard
    kernel : Kernel
    dtype : float32 or float64
    threads : int
    """

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
        """Append landmarks, and name the rows that could come next.

        Parameters
        ----------
        points : array of shape (b, d)
            May have no rows.
        rows : list of int or None
            Which rows of this shard they are.
        count : int
            Rows to name at most.

        Returns
        -------
        list of (Schur complement, row), the largest first
            Of several each is what is left of it after those before. Empty where all rows are
            landmarks already.
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
