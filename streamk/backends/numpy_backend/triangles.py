"""Triangular solves for many rows at once, and a Cholesky factor that loses a row.

The factor L of W = L L' lies in the lower triangle of a square S and L' in the upper one, so that a
row of L and a column of L are both consecutive numbers, and S is symmetric. Each entry of a
solution is what remains of its right-hand side after the terms have been taken off one after the
other, in the order of elimination: the same, bit for bit, whichever rows are solved for together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def substitute(S: NDArray[Any], K: NDArray[Any], schur: NDArray[Any]) -> None:
    """Turn the rows of `K` (n, l) into ``L^-1 k`` and take their squares off `schur` (n,)."""
    for m in range(K.shape[1]):
        K[:, m] /= S[m, m]
        K[:, m + 1 :] -= K[:, m, None] * S[m, m + 1 : K.shape[1]]
        schur -= K[:, m] * K[:, m]


def substitute_back(S: NDArray[Any], K: NDArray[Any]) -> None:
    """Turn the rows of `K` (n, l) into ``L^-T k``."""
    for m in range(K.shape[1] - 1, -1, -1):
        K[:, m] /= S[m, m]
        K[:, :m] -= K[:, m, None] * S[m, :m]


def remove_row(
    S: NDArray[Any], size: int, j: int, cosines: NDArray[Any], sines: NDArray[Any]
) -> None:
    """Make of the factor of W, of that size, that of W without row and column j.

    Deleting row j of L leaves a number beyond the diagonal in each row after it; rotations of
    neighbouring columns, written into `cosines` and `sines` (size - 1 - j,), put it away.
    """
    T = np.triu(S[:size, :size])
    T = np.delete(T, j, axis=1)
    for i in range(j, size - 1):
        a, b = T[i, i], T[i + 1, i]
        r = math.hypot(a, b)
        c, s = a / r, b / r
        T[i, i:], T[i + 1, i:] = c * T[i, i:] + s * T[i + 1, i:], c * T[i + 1, i:] - s * T[i, i:]
        T[i, i], T[i + 1, i] = r, 0.0
        cosines[i - j], sines[i - j] = c, s
    S[: size - 1, : size - 1] = T[: size - 1] + np.triu(T[: size - 1], 1).T
