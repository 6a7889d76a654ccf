"""Sums of Gaussian kernels at centers, which grow, in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

BLOCK = 256
"""Events whose kernel values with all centers are one product of matrices."""
_CENTERS = 4096
"""Centers of a product: its values then stay in the cache for the exponential."""


def gaussian(X: Numbers, Z: Numbers, gamma: float) -> Numbers:
    """Kernel values (n, m) of rows X (n, d) and Z (m, d)."""
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Z, Z)
    squares -= 2.0 * (X @ Z.T)
    np.maximum(squares, 0.0, out=squares)
    squares *= -gamma
    np.exp(squares, out=squares)
    return np.asarray(squares)


class Expansion:
    """``f(x) = sum_j a_j k(z_j, x)``; arrays double as centers are added.

    Parameters
    ----------
    gamma : float
    """

    def __init__(self, gamma: float) -> None:
        self.gamma, self.size = gamma, 0
        self._centers = np.zeros((0, 0), np.float32)
        self._coefficients = np.zeros(0, np.float64)

    @property
    def coefficients(self) -> Numbers:
        """The a_j, float64 (size,), to be changed in place."""
        return self._coefficients[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of the centers and coefficients in use."""
        return self.size * (4 * self._centers.shape[1] + 8)

    def add(self, X: Numbers, coefficients: Numbers) -> None:
        """Append centers (m, d) with their coefficients (m,)."""
        stop = self.size + len(X)
        if stop > len(self._centers):
            room = max(BLOCK, 2 * len(self._centers), stop)
            centers, numbers = np.zeros((room, X.shape[1]), np.float32), np.zeros(room)
            if self.size:
                centers[: self.size] = self._centers[: self.size]
                numbers[: self.size] = self.coefficients
            self._centers, self._coefficients = centers, numbers
        self._centers[self.size : stop] = X
        self._coefficients[self.size : stop] = coefficients
        self.size = stop

    def scores(self, X: Numbers) -> Numbers:
        """f(x) of rows (n, d), float64 (n,)."""
        found = np.zeros(len(X))
        for at in range(0, len(X), BLOCK):
            rows = X[at : at + BLOCK]
            for begin in range(0, self.size, _CENTERS):
                some = slice(begin, min(begin + _CENTERS, self.size))
                numbers = self._coefficients[some].astype(np.float32)
                K = gaussian(rows, self._centers[some], self.gamma)
                found[at : at + len(rows)] += K @ numbers
        return found
