"""Gradients of functions on centers by kernels that are products over the columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends.jit.compiling import compiled, part

SIGNS, ROOTS, FRACTIONS = range(3)
"""Slopes of a column's difference t: its sign, ``t (t^2 + h^2)^(-3/4)`` and ``t / (t^2 + h^2)``."""


_TINY = 1e-200
_LANES = 32
"""Centers whose terms are added side by side."""


@part
def _slopes(kind: Any, h: Any, t: Any) -> None:
    """Put slopes in the place of differences t (p,)."""
    if kind == SIGNS:
        for c in range(len(t)):
            t[c] = 1.0 if t[c] > 0.0 else (-1.0 if t[c] < 0.0 else 0.0)
    elif kind == ROOTS:
        for c in range(len(t)):
            # Squares may be 0 where the numbers are not.
            size = max(math.sqrt(t[c] * t[c] + h * h), abs(t[c]), h, _TINY)
            t[c] /= size * math.sqrt(size)
    else:
        for c in range(len(t)):
            t[c] /= t[c] * t[c] + h * h


@compiled
def _sum_slopes(kind: Any, h: Any, K: Any, A: Any, X: Any, Z: Any, out: Any) -> None:
    (n, outputs, d), (p, _) = out.shape, Z.shape
    padded = (p + _LANES - 1) // _LANES * _LANES
    C, W = np.zeros((d, padded)), np.zeros((outputs, padded))
    t, lanes = np.empty(padded), np.empty(_LANES)
    for c in range(p):
        for j in range(d):
            C[j, c] = Z[c, j]
    for i in range(n):
        for o in range(outputs):
            for c in range(p):
                W[o, c] = K[i, c] * A[c, o]
        for j in range(d):
            x, z = np.float64(X[i, j]), C[j]
            for c in range(padded):
                t[c] = x - z[c]
            _slopes(kind, h[j], t)
            for o in range(outputs):
                w = W[o]
                lanes[:] = 0.0
                for c in range(0, padded, _LANES):
                    for lane in range(_LANES):
                        lanes[lane] += w[c + lane] * t[c + lane]
                total = 0.0
                for lane in range(_LANES):
                    total += lanes[lane]
                out[i, o, j] = total


def sum_slopes(kind: int, h: Any, K: Any, A: Any, X: Any, Z: Any, out: Any) -> None:
    """Write ``sum of K_ic A_co slope(X_ij - Z_cj)`` over centers c into `out` (n, outputs, d).

    The bounds h are float64 (d,), `out` is float64, and the others are of one type: kernels K
    (n, p), coefficients A (p, outputs), points X (n, d) and centers Z (p, d).
    """
    _sum_slopes(kind, h, *map(np.ascontiguousarray, (K, A, X, Z)), out)
