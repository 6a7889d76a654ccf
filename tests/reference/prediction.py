"""The oracles of fast prediction: the paper's formulas as plainly as it states them.

Nothing here imports streamk. One number at a time where that is possible: speed is no concern, what
is written here is meant to be checked by reading. What the paper draws at random is handed over.

Hsieh, Si, Dhillon, "Fast prediction for large-scale kernel machines" (NIPS 2014), section 4, whose
equations the names below carry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from . import naive

Point = Sequence[float]
CUTOFF = 1e-12
"""Singular value, relative to the largest, that is nothing but rounding."""


def distance(x: Point, y: Point) -> float:
    return math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)))


def kernel_values(k: naive.Kernel, X: Sequence[Point], U: Sequence[Point]) -> np.ndarray:
    """C_ij = K(x_i, u_j)."""
    return np.array([[naive.kernel(k, x, u) for u in U] for x in X]).reshape(len(X), len(U))


# --- Nyström (equation 3) -------------------------------------------------------------------------


def pseudo_inverse(M: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(M, rcond=CUTOFF)


# --- pseudo landmarks (equations 4 and 5) ---------------------------------------------------------


def weights(C: np.ndarray, G: np.ndarray, rows: Sequence[int] | None = None) -> np.ndarray:
    """Equation 5: C^+ G (C^+)', or that of a submatrix of G and the same rows of C."""
    if rows is not None:
        C, G = C[list(rows)], G[np.ix_(list(rows), list(rows))]
    inverse = pseudo_inverse(C)
    return inverse @ G @ inverse.T


def decision_values(C: np.ndarray, W: np.ndarray, alpha: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Algorithm 1: beta = W C' alpha of the training rows, and c beta of each new row."""
    beta = W @ C.T @ alpha
    return new @ beta


# --- bounds of the triangle inequality (equation 6) -----------------------------------------------


def lower_bound(to_landmarks: Sequence[float], v_to_landmarks: Sequence[float]) -> float:
    """Of |x - v|, by |x - u_j| and |v - u_j|."""
    return max(abs(a - b) for a, b in zip(to_landmarks, v_to_landmarks, strict=True))


def upper_bound(to_landmarks: Sequence[float], v_to_landmarks: Sequence[float]) -> float:
    return min(a + b for a, b in zip(to_landmarks, v_to_landmarks, strict=True))


def by_bounds(
    k: naive.Kernel,
    X: Sequence[Point],
    U: Sequence[Point],
    V: Sequence[Point],
    bound: Callable[[Sequence[float], Sequence[float]], float],
) -> np.ndarray:
    """Equation 4 with the kernel at a bound of the distance, kappa(r) = K(r, 0) in one column."""
    rows = []
    for x in X:
        own = [distance(x, u) for u in U]
        row = [naive.kernel(k, [r], [0.0]) for r in own]
        for v in V:
            r = bound(own, [distance(v, u) for u in U])
            row.append(naive.kernel(k, [r], [0.0]))
        rows.append(row)
    return np.array(rows)


# --- polynomials of degree 2 (equation 7) ---------------------------------------------------------


def every_pair(m: int) -> list[tuple[int, int]]:
    """Z for D = 2, each monomial c_i c_j once."""
    return [(i, j) for i in range(m) for j in range(i, m)]


def monomials(C: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Equation 7: C with a column for each of some monomials."""
    return np.array([[*c, *(c[i] * c[j] for i, j in pairs)] for c in C.tolist()])
