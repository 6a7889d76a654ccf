"""The factor F of a Nyström approximation ``F F^T`` of a matrix, growing by a column a landmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import LINE, select
from streamk.backends.threads import divide
from streamk.errors import InvalidInput
from streamk.landmarks.checks import check_count
from streamk.landmarks.matrices import Indices, Numbers, Rows

_ENTRIES = 1 << 15
"""Entries of the matrix that are evaluated before they are used: they stay in the second cache."""
_ROWS = 64
"""Rows that are copied at a time."""
_NEGATIVE = 1e-5
"""Schur complement below 0, relative to the largest diagonal entry, that is let pass: it may come
from rounding of a matrix given in single precision, say."""
_ERROR = 16.0
"""Error of an entry, in units of rounding of the largest, that is not beyond belief: of matrices
that are positive semidefinite none came up as more than 1, of others as less than 78."""
_BLOCK = 128
"""Landmarks that come to all rows together: their rows of the factor stay in the caches."""

Row = NDArray[Any]


def room(rows: int, columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of at least so many columns, whose rows begin where a line of memory does.

    Vectors that lie across two lines take twice as long to load.
    """
    item = np.dtype(dtype).itemsize
    wide = -(-columns * item // LINE) * (LINE // item)
    memory = np.empty(rows * wide + LINE // item, dtype)
    start = -memory.ctypes.data % LINE // item
    return memory[start : start + rows * wide].reshape(rows, wide)


def lower(rows: Sequence[Row], columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return rows of a lower triangular matrix as a matrix of at least so many columns."""
    L = room(len(rows), columns, dtype)
    L[:] = 0.0
    for place, row in enumerate(rows):
        L[place, : len(row)] = row
    return L


def check_range(largest: float, dtype: np.dtype[Any]) -> None:
    """Check that a factor of that type can hold a matrix of that largest diagonal entry.

    It is asked of the whole matrix: single rows of it may well be next to nothing.

    Raises
    ------
    InvalidInput
        If it is too large or too small.
    """
    limits = np.finfo(dtype)
    least, most = float(limits.tiny) / float(limits.eps), float(limits.max)
    if largest and not least < largest < most:
        raise InvalidInput(
            f"the largest diagonal entry of the matrix is {largest:.3g}, too far from 1 "
            f"for {np.dtype(dtype)}; scale the matrix"
        )


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

    Raises
    ------
    InvalidInput
        If a diagonal entry is not finite, or `threads` is no number of them.
    """

    def __init__(
        self, rows: Rows, capacity: int, dtype: np.dtype[Any], threads: int | None = None
    ) -> None:
        if threads is not None:
            check_count("threads", threads)
        self.rows, self.threads = rows, threads
        self.F = room(len(rows), capacity, dtype)
        """(n, at least capacity); columns that have not come yet are of no meaning."""
        self.schur: Numbers = np.array(rows.diagonal(), np.float64)
        """Schur complements of the rows, (n,); -inf where a row is not to be chosen."""
        if not np.isfinite(self.schur).all():
            i = int(np.argmax(~np.isfinite(self.schur)))
            raise InvalidInput(
                f"the kernel of row {i} with itself is {self.schur[i]}; scale the points"
            )
        self.largest = float(np.max(self.schur, initial=0.0))
        """The largest diagonal entry of the matrix in these rows."""

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
        for first in range(0, len(landmarks), _BLOCK):
            some = slice(first, first + _BLOCK)
            self._extend(landmarks[some], L[some], start + first)

    def _extend(self, landmarks: Numbers, L: NDArray[Any], start: int) -> None:
        n, new = len(self.F), len(landmarks)
        step = max(1, _ENTRIES // new)

        def work(some: slice) -> None:
            for first in range(some.start * step, min(some.stop * step, n), step):
                part = slice(first, min(first + step, n))
                K = np.empty((new, part.stop - first), self.F.dtype)
                self.rows.cross(landmarks, part, K)
                select().extend(K, L, self.F[part], start, self.schur[part])

        if n <= step:
            work(slice(0, 1))
        else:
            divide(-(-n // step), n * new * (start + new + 64), work, self.threads)

    def check(self, rows: Sequence[Row]) -> None:
        """Check that what is left of the diagonal is not negative.

        Parameters
        ----------
        rows : sequence of array
            Of each landmark its row of the factor, up to the diagonal.

        Raises
        ------
        InvalidInput
            If a Schur complement is below 0 by more than rounding: the matrix is not positive
            semidefinite.
        """
        columns, precision = len(rows), float(np.finfo(self.F.dtype).eps)
        wrong = np.isnan(self.schur)
        limit = -max(_NEGATIVE, precision**0.5) * self.largest
        low = np.flatnonzero((self.schur < limit) & (self.schur > -np.inf))
        if len(low):
            error = _ERROR * precision * self.largest
            wrong[low] = self.schur[low] < -error * self._squares(low, rows)
        if np.count_nonzero(self.schur == -np.inf) > columns:  # squares overflowed
            wrong |= self.schur == -np.inf
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidInput(
                f"the Schur complement of row {i} is {self.schur[i]:.3g} after {columns} "
                "landmarks, so the matrix is not positive semidefinite; take a kernel that is, or "
                "add a multiple of the identity"
            )

    def _squares(self, indices: Indices, rows: Sequence[Row]) -> Numbers:
        """Return by which factor errors of entries may come up in Schur complements of some rows.

        The factor is the exact one of a matrix whose entries are off by rounding, and a Schur
        complement there is ``v^T K v``: in v are 1 for the row and, with signs turned, the
        coefficients of its projection on the landmarks. So errors count by ``|v|^2``. That is huge
        where a landmark was all but spanned by those before, as one drawn at random may be, and the
        row is not.
        """
        r, found = len(rows), np.empty(len(indices))
        L = lower(rows, r, np.dtype(np.float64))[:, :r]
        for first in range(0, len(indices), _ROWS):
            some = slice(first, first + _ROWS)
            F = self.F[indices[some], :r].astype(np.float64)
            q = scipy.linalg.solve_triangular(L, F.T, lower=True, trans="T", check_finite=False)
            found[some] = 1.0 + np.einsum("ij,ij->j", q, q)
        return found

    def take(self, indices: Indices, columns: int) -> Factor:
        """Return a factor of some rows, of which the first columns are known."""
        taken = Factor(self.rows.take(indices), self.F.shape[1], self.F.dtype, self.threads)
        for first in range(0, len(indices), _ROWS):
            some = slice(first, first + _ROWS)
            taken.F[some, :columns] = self.F[indices[some], :columns]
        taken.schur[:] = self.schur[indices]
        return taken

    def trim(self, columns: int) -> None:
        """Give back the room for columns that will not come, where it is more than half."""
        if 2 * columns < self.F.shape[1]:
            trimmed = room(len(self), columns, self.F.dtype)
            trimmed[:, :columns] = self.F[:, :columns]
            self.F = trimmed

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.F.nbytes + self.schur.nbytes
