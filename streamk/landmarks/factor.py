"""The factor F of a Nyström approximation ``F F^T`` of a matrix, growing by a column a landmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import GROUP, select
from streamk.backends.threads import divide
from streamk.landmarks.matrices import Indices, Numbers, Rows, groups_of

_ENTRIES = 1 << 15
"""Entries of the matrix that are evaluated before they are used: they stay in the second cache."""


class Factor:
    """Rows of the factor, and how far each row's diagonal entry is from being reproduced.

    Row x of the factor is ``L^-1 k(landmarks, x)`` with L the lower triangular factor of the matrix
    between the landmarks; what is left of ``k(x, x)`` is the Schur complement of x. Both have the
    same bits however the rows are divided among factors, calls and threads.

    Parameters
    ----------
    rows : Rows
    capacity : int
        Most columns.
    dtype : float32 or float64
        Of the factor; Schur complements are float64.
    threads : int, optional
        All cores by default.
    """

    def __init__(
        self, rows: Rows, capacity: int, dtype: np.dtype[Any], threads: int | None = None
    ) -> None:
        groups = groups_of(len(rows))
        self.rows, self.threads = rows, threads
        self._F: NDArray[Any] = np.empty((groups, capacity, GROUP), dtype)
        self._delta = np.full((groups, GROUP), -np.inf)
        self.schur[:] = rows.diagonal()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def schur(self) -> Numbers:
        """Schur complements of the rows, (n,); they may be written."""
        return self._delta.reshape(-1)[: len(self.rows)]

    def extend(self, landmarks: Numbers, L: NDArray[Any], start: int) -> None:
        """Append a column for each landmark, from column `start` on.

        Parameters
        ----------
        landmarks : array of shape (b, numbers)
        L : array of the factor's dtype, at least start + b rows and columns
            Rows of the factor of the landmarks themselves.
        start : int
        """
        groups, new, twin = len(self._F), len(landmarks), select()
        step = max(1, _ENTRIES // (new * GROUP))
        chunks = -(-groups // step)

        def work(some: slice) -> None:
            K = np.empty((step, new, GROUP), self._F.dtype)
            for first in range(some.start * step, min(some.stop * step, groups), step):
                part = slice(first, min(first + step, groups))
                entries = K[: part.stop - first]
                self.rows.cross(landmarks, part, entries)
                twin.extend(entries, L, self._F[part], start, self._delta[part])

        divide(chunks, groups * GROUP * new * (start + new + 64), work, self.threads)

    def take(self, indices: Indices, columns: int) -> Factor:
        """Return a factor of some rows, of which the first columns are known."""
        taken = Factor(self.rows.take(indices), self._F.shape[1], self._F.dtype, self.threads)
        select().gather(self._F, columns, indices, taken._F)
        taken.schur[:] = self.schur[indices]
        return taken

    def row(self, i: int, columns: int) -> NDArray[Any]:
        """Return the first columns of one row."""
        group, lane = divmod(i, GROUP)
        return self._F[group, :columns, lane]

    def dense(self, columns: int, rows: slice = slice(None)) -> NDArray[Any]:
        """Return the first columns of a range of rows as a matrix, a copy."""
        first, stop, _ = rows.indices(len(self))
        low, high = first // GROUP, groups_of(stop)
        block = self._F[low:high, :columns].swapaxes(1, 2).reshape(-1, columns)
        return block[first - low * GROUP : stop - low * GROUP]

    def some(self, indices: Indices, columns: int) -> NDArray[Any]:
        """Return the first columns of some rows as a matrix."""
        return self._F[indices // GROUP, :columns, indices % GROUP]

    def squares(self, columns: int) -> Numbers:
        """Return the sum of the squares of each row's first columns, (n,)."""
        total = np.zeros(self._delta.shape)
        for q in range(columns):
            total += np.square(self._F[:, q], dtype=np.float64)
        return total.reshape(-1)[: len(self)]

    def trim(self, columns: int) -> None:
        """Give back the room for columns that will not come."""
        if columns < self._F.shape[1]:
            self._F = np.ascontiguousarray(self._F[:, :columns])

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._F.nbytes + self._delta.nbytes
