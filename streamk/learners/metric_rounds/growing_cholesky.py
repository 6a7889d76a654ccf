"""Cholesky factors that grow with their matrix, in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import GROUP, PANEL, loops
from streamk.backends.memory import room
from streamk.kernels import Kernel

Numbers = NDArray[Any]

_NARROW = 4
"""Outputs up to which their products are made one by one, and not in all lanes."""


class GrowingCholesky:
    """The lower Cholesky factor of a positive definite matrix that gets rows from time to time.

    Only the lower triangle is kept, 2 n^2 bytes. To append to n rows takes n^2 multiplications for
    each, so that all of them together take as many as a factorization at once. How rows come
    changes no bit of it.

    Parameters
    ----------
    capacity : int
        Rows at most. Their memory is asked for at once, used as they come, and all of it goes back
        to the system with the factor.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> points = np.arange(64.0)[:, None] * 99.0
    >>> factor = GrowingCholesky(64)
    >>> factor.append(kernel_rows(Gaussian(), points, 0, 32), 4.0)
    >>> factor.append(kernel_rows(Gaussian(), points, 32, 64), 4.0)
    >>> len(factor), factor.solved(np.ones((64, 1), np.float32))[0].tolist()
    (64, [0.25])
    """

    def __init__(self, capacity: int) -> None:
        self._room = room(nbytes_of(capacity) // 4)
        self.clear()

    def __len__(self) -> int:
        return self._count

    def clear(self) -> None:
        """Remove all rows, and keep their memory."""
        self._count = 0
        self._solved_for: tuple[Numbers, Numbers] | None = None
        """The last right-hand sides Y, and what ``L x = Y`` has for them."""

    def append(self, rows: Numbers, diagonal: float) -> None:
        """Take in the matrix's next rows.

        Parameters
        ----------
        rows : float32 array of shape (groups, n + 32 groups, 32)
            Of a matrix that had n rows, as of `kernel_rows`. They must not cross a multiple of 256.
        diagonal : float
            The number that the matrix has on its diagonal.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not positive definite, but for rounding. The factor stays as it was.
        """
        n, many = self._count, len(rows) * GROUP
        at, own = n % PANEL, self._panel(n // PANEL)
        first, stop = at // GROUP, (at + many) // GROUP
        own[first:stop, : n + many] = rows
        each = np.arange(many)
        own[first + each // GROUP, n + each, each % GROUP] = diagonal
        for place in range(n // PANEL):
            loops.cholesky.eliminate(own, first, stop, self._panel(place), place * PANEL)
        if not loops.cholesky.factor(own, first, stop, n - at):
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        self._count += many

    def _panel(self, place: int) -> Numbers:
        """Return a panel's array (groups, columns, 32)."""
        first, stop = (nbytes_of(rows) // 4 for rows in (place * PANEL, (place + 1) * PANEL))
        return self._room[first:stop].reshape(PANEL // GROUP, -1, GROUP)

    def solved(self, Y: Numbers) -> Numbers:
        """Return ``K^-1 Y``, float32 (n, c), of right-hand sides Y float32 (n, c).

        Where the first rows of Y are those of the last call, ``L x = Y`` is solved for the others
        alone: a half of the work.
        """
        n, c = Y.shape
        lanes = c if c <= _NARROW else GROUP
        parts = -(-c // lanes)
        A = np.zeros((self._count, parts * lanes), np.float32)
        A[:n, :c] = Y
        A = np.ascontiguousarray(A.reshape(-1, parts, lanes).transpose(1, 0, 2))
        known = self._take_known(Y, A)
        edges = range(0, self._count, PANEL)
        for at in edges[known * GROUP // PANEL :]:
            loops.cholesky.forward(self._panel(at // PANEL), at, A, max(0, known - at // GROUP))
        self._solved_for = Y.copy(), A.copy()
        for at in reversed(edges):
            loops.cholesky.backward(self._panel(at // PANEL), at, A)
        return A.transpose(1, 0, 2).reshape(self._count, -1)[:n, :c]

    def _take_known(self, Y: Numbers, A: Numbers) -> int:
        """Write what is known of ``L x = Y`` into A; return for how many groups of rows it is."""
        if self._solved_for is None:
            return 0
        right, halves = self._solved_for
        rows = min(len(right), len(Y)) // GROUP * GROUP
        if right.shape[1] != Y.shape[1] or not np.array_equal(right[:rows], Y[:rows]):
            return 0
        A[:, :rows] = halves[:, :rows]
        return rows // GROUP


def kernel_rows(kernel: Kernel, Z: Numbers, first: int, stop: int) -> Numbers:
    """Return rows of a kernel matrix, with their columns up to the diagonal.

    Parameters
    ----------
    kernel : Kernel
    Z : array of shape (n, d)
    first, stop : int
        Numbers of the rows. The first one is a multiple of 32.

    Returns
    -------
    float32 array of shape (groups, columns, 32)
        The rows in groups of 32. If they are no multiple of 32, there are rows and columns of zeros
        beside them.
    """
    groups = -(-(stop - first) // GROUP)
    rows = np.zeros((groups, first + groups * GROUP, GROUP), np.float32)
    for g in range(groups):
        some = slice(first + g * GROUP, min(first + (g + 1) * GROUP, stop))
        K = kernel.pairwise(Z[: some.stop], Z[some], dtype=np.float32)
        rows[g, : some.stop, : K.shape[1]] = K
    return rows


def nbytes_of(n: int) -> int:
    """Return the memory of a factor with n rows, in bytes.

    >>> nbytes_of(257)
    786432
    """
    panels = -(-n // PANEL)
    return 2 * PANEL**2 * panels * (panels + 1)
