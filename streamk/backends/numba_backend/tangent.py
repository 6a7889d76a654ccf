"""The neural tangent kernel of points on the unit sphere, as polynomials.

It is a function of the angle between two points. Of the angle ``theta`` before a layer the next one
has the cosine ``(sin(theta) + (pi - theta) cos(theta)) / pi``, the arc-cosine kernel of degree 1,
and the kernel is multiplied with ``1 - theta / pi``, that of degree 0 (Cho and Saul 2009). All of
it is written by the part that cosines and kernel lack of their values at angle 0: of two points
that are near each other nothing cancels.

It is ``1 - v g(v)`` with ``v = tan(theta / 4)``, which a division and two roots give of the squared
distance, and g is analytic: for each depth it is a polynomial that interpolates `lacking`, whatever
the number of layers. The type of numbers decides on its degree.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import DEEPEST
from streamk.backends.jit.compiling import exact, exact_part, part

__all__ = ["neural_tangent", "to_sphere"]

_LANES = 16
"""Sums of squares of a row that are added up side by side: each of every 16th column."""
LEAST, MOST = 1e-250, 1e300
"""Squared lengths between which no digit is lost."""
_BLOCK = 8
"""Coefficients of a polynomial that one loop over kernels takes."""
_SHALLOW = 8
"""Depth up to which the smaller degree is enough."""
_BLOCKS = ((2, 3), (5, 6))
"""Blocks of coefficients in single and in double precision, up to that depth and beyond."""


def lacking(theta: NDArray[Any], depth: int) -> NDArray[Any]:
    """Return 1 less the kernel, from the angle."""
    pi = 4.0 * np.arctan(theta.dtype.type(1.0))
    below = 2.0 * np.sin(0.5 * theta) ** 2  # 1 less the cosine
    missing = below
    for layer in range(1, depth + 1):
        below = below - (np.sin(theta) - theta * (1.0 - below)) / pi
        missing = missing + (layer - missing) * theta / pi + below
        theta = 2.0 * np.arcsin(np.sqrt(0.5 * below))
    return np.asarray(missing / (depth + 1))


def _coefficients(depths: Any, count: int) -> Any:
    """Return the polynomials g of x = 2 v - 1 by their coefficients (depths, count), 1's first.

    They interpolate at Chebyshev's points, in extended precision: as powers of x, the terms of high
    degree have some 1e15 times the errors of Chebyshev's.
    """
    numbers = np.arange(count)
    turn = np.arctan(np.longdouble(1.0)) * (2 * numbers + 1) / count  # a half of Chebyshev's
    v = np.cos(turn) ** 2
    values = np.array([lacking(4.0 * np.arctan(v), depth) / v for depth in depths])
    terms = values @ np.cos(2.0 * turn[:, None] * numbers) * 2.0 / count
    terms[:, 0] /= 2.0
    powers = np.eye(count, dtype=np.longdouble)  # of Chebyshev's polynomials, by their recurrence
    for n in range(2, count):
        powers[n] = -powers[n - 2]
        powers[n, 1:] += 2.0 * powers[n - 1, :-1]
    return terms @ powers


def _table() -> Any:
    table = np.zeros((2, DEEPEST + 1, _BLOCK * max(max(_BLOCKS))))
    for kind, blocks in enumerate(_BLOCKS):
        for count, depths in zip(
            blocks, (range(1, _SHALLOW + 1), range(_SHALLOW + 1, DEEPEST + 1)), strict=True
        ):
            found = _coefficients(depths, _BLOCK * count)
            table[kind, depths, : _BLOCK * count] = found
    return table


_TABLE = _table()


@part
def neural_tangent(f: Any, depth: Any, K: Any, v: Any) -> None:
    """Turn squared distances into kernels; `f` is 1/4, `v` room for as many numbers."""
    real = K.dtype.type
    zero, one, two = real(0.0), real(1.0), real(2.0)
    kind = 0 if K.itemsize == 4 else 1
    for i in range(K.shape[0]):
        square = f * K[i]
        square = one if square > one else square
        v[i] = math.sqrt(square) / (one + math.sqrt(one - square))
        K[i] = zero
    for block in range(_BLOCKS[kind][int(depth > _SHALLOW)] - 1, -1, -1):
        c = _TABLE[kind, depth, block * _BLOCK : (block + 1) * _BLOCK]
        c0, c1, c2, c3 = real(c[0]), real(c[1]), real(c[2]), real(c[3])
        c4, c5, c6, c7 = real(c[4]), real(c[5]), real(c[6]), real(c[7])
        for i in range(K.shape[0]):
            x = two * v[i] - one
            high = ((K[i] * x + c7) * x + c6) * x + c5
            high = ((high * x + c4) * x + c3) * x + c2
            K[i] = (high * x + c1) * x + c0
    for i in range(K.shape[0]):
        K[i] = one - v[i] * K[i]


@exact
def _squares(x: Any, lanes: Any) -> Any:
    """Return the squared length of x; `lanes` is room."""
    d = x.shape[0]
    whole = d - d % _LANES
    lanes[:] = 0.0
    for j in range(0, whole, _LANES):
        for lane in range(_LANES):
            value = np.float64(x[j + lane])
            lanes[lane] += value * value
    for j in range(whole, d):
        value = np.float64(x[j])
        lanes[j - whole] += value * value
    width = _LANES
    while width > 1:
        width //= 2
        for lane in range(width):
            lanes[lane] += lanes[width + lane]
    return lanes[0]


@exact_part
def _largest(x: Any, least: Any) -> Any:
    """Return the largest of `least` and all |x|."""
    for value in x:
        least = max(least, np.float64(abs(value)))
    return least


@exact
def _to_sphere(X: Any, bandwidth: Any, out: Any) -> None:
    d, lanes, scaled = X.shape[1], np.empty(_LANES), np.empty(0)
    for i in range(X.shape[0]):
        x, u = X[i], out[i]
        squares = _squares(x, lanes) + bandwidth * bandwidth
        if squares > LEAST and squares < MOST:
            inverse = 1.0 / math.sqrt(squares)
            u[0] = bandwidth * inverse
            for j in range(d):
                u[1 + j] = x[j] * inverse
        else:
            if len(scaled) == 0:
                scaled = np.empty(d)
            size = _largest(x, bandwidth)
            for j in range(d):
                scaled[j] = x[j] / size
            bias = bandwidth / size
            inverse = 1.0 / math.sqrt(_squares(scaled, lanes) + bias * bias)
            u[0] = bias * inverse
            for j in range(d):
                u[1 + j] = scaled[j] * inverse


def to_sphere(X: Any, bandwidth: float, out: Any) -> None:
    """Write the unit vector of ``(bandwidth, x)`` of each row x of `X` (n, d) into `out`.

    Sums are in float64, in an order in which further columns of zeros change nothing.

    Parameters
    ----------
    X : float32 or float64 array of shape (n, d)
    bandwidth : float
    out : array of shape (n, d + 1)
        Of the type of `X`.
    """
    _to_sphere(X, float(bandwidth), out)
