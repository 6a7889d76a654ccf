"""Cholesky factors that grow with their matrix, in single precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Numbers = NDArray[Any]

_PANEL = 256
"""Rows that lie in one array. Products of whole panels are what takes the time."""


class GrowingCholesky:
    """The lower Cholesky factor of a positive definite matrix that gets rows from time to time.

    Only the lower triangle is kept, 2 n^2 bytes. To append to n rows takes n^2 multiplications for
    each, so that all of them together take as many as a factorization at once.

    Examples
    --------
    >>> factor = GrowingCholesky()
    >>> factor.append(np.array([[4.0]], np.float32))
    >>> factor.append(np.array([[2.0, 5.0]], np.float32))
    >>> len(factor), factor.solved(np.array([[8.0], [8.0]], np.float32)).ravel().tolist()
    (2, [1.5, 1.0])
    """

    def __init__(self) -> None:
        self._panels: list[Numbers] = []
        self._count = 0

    @classmethod
    def of(cls, K: Numbers) -> GrowingCholesky:
        """Return the factor of a matrix K float32 (n, n), of which the lower triangle is read.

        Raises
        ------
        numpy.linalg.LinAlgError
            If it is not positive definite, but for rounding.
        """
        factor = cls()
        for first in range(0, len(K), _PANEL):
            stop = min(first + _PANEL, len(K))
            factor.append(K[first:stop, :stop])
        return factor

    def __len__(self) -> int:
        return self._count

    def append(self, K: Numbers) -> None:
        """Take in the matrix's next rows, with their columns up to the diagonal.

        Parameters
        ----------
        K : float32 array of shape (m, n + m)
            Of a matrix that had n rows. Its rows must not cross a multiple of 256.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not positive definite, but for rounding. The factor stays as it was.
        """
        n, m = self._count, len(K)
        X = np.empty((m, n), np.float32)
        for some, panel in self._parts():
            rest = K[:, some] - X[:, : some.start] @ panel[:, : some.start].T
            X[:, some] = _solved(panel[:, some], rest.T).T
        own = np.linalg.cholesky(K[:, n:] - X @ X.T)
        at = n % _PANEL
        if at == 0:
            self._panels.append(np.zeros((_PANEL, n + _PANEL), np.float32))
        self._panels[-1][at : at + m, :n] = X
        self._panels[-1][at : at + m, n : n + m] = own
        self._count += m

    def _parts(self) -> Iterator[tuple[slice, Numbers]]:
        """Yield the rows of each panel, and the factor's numbers up to the diagonal there."""
        for place, panel in enumerate(self._panels):
            first = place * _PANEL
            stop = min(first + _PANEL, self._count)
            yield slice(first, stop), panel[: stop - first, :stop]

    def solved(self, Y: Numbers) -> Numbers:
        """Return ``K^-1 Y``, float32 (n, c), of right-hand sides Y float32 (n, c)."""
        A = np.array(Y, np.float32)
        for some, panel in self._parts():
            A[some] -= panel[:, : some.start] @ A[: some.start]
            A[some] = _solved(panel[:, some], A[some])
        for some, panel in reversed(list(self._parts())):
            A[some] = _solved(panel[:, some], A[some], transposed=True)
            A[: some.start] -= panel[:, : some.start].T @ A[some]
        return A


def nbytes_of(n: int) -> int:
    """Return the memory of a factor with n rows, in bytes.

    >>> nbytes_of(257)
    786432
    """
    panels = -(-n // _PANEL)
    return 2 * _PANEL**2 * panels * (panels + 1)


def _solved(L: Numbers, Y: Numbers, *, transposed: bool = False) -> Numbers:
    return np.asarray(
        scipy.linalg.solve_triangular(L, Y, lower=True, trans=int(transposed), check_finite=False)
    )
