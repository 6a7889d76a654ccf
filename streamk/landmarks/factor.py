"""The factor F of a Nyström approximation ``F F^T`` of a matrix, growing by a column a landmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import select
from streamk.backends.threads import divide
from streamk.landmarks.matrices import Indices, Numbers, Rows

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
        self.rows, self.threads = rows, threads
        self.F: NDArray[Any] = np.empty((len(rows), capacity), dtype)
        """(n, capacity); columns that have not come yet are of no meaning."""
        self.schur: Numbers = np.array(rows.diagonal(), np.float64)
        """Schur complements of the rows, (n,)."""

    def __len__(self) -> int:
        return len(self.F)

    def extend(self, landmarks: Numbers, L: NDArray[Any], start: int) -> None:
        """Append a column for each landmark, from column `start` on.

        Parameters
        ----------
        landmarks : array of shape (b, numbers)
        L : array of shape (b, start + b), of the factor's dtype
            Rows of the factor of the landmarks themselves; what is right of the diagonal is not
            read.
        start : int
        """
        n, new, twin = len(self), len(landmarks), select()
        step = max(1, _ENTRIES // new)

        def work(some: slice) -> None:
            for first in range(some.start * step, min(some.stop * step, n), step):
                part = slice(first, min(first + step, n))
                K = np.empty((new, part.stop - first), self.F.dtype)
                self.rows.cross(landmarks, part, K)
                twin.extend(K, L, self.F[part], start, self.schur[part])

        divide(-(-n // step), n * new * (start + new + 64), work, self.threads)

    def take(self, indices: Indices, columns: int) -> Factor:
        """Return a factor of some rows, of which the first columns are known."""
        taken = Factor(self.rows.take(indices), self.F.shape[1], self.F.dtype, self.threads)
        taken.F[:, :columns] = self.F[indices, :columns]
        taken.schur[:] = self.schur[indices]
        return taken

    def trim(self, columns: int) -> None:
        """Give back the room for columns that will not come."""
        if columns < self.F.shape[1]:
            self.F = np.ascontiguousarray(self.F[:, :columns])

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.F.nbytes + self.schur.nbytes
