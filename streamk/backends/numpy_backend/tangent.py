"""The neural tangent kernel of points on the unit sphere.

It is a function of the angle between two points. Of the angle ``theta`` before a layer the next one
has the cosine ``(sin(theta) + (pi - theta) cos(theta)) / pi``, the arc-cosine kernel of degree 1,
and the kernel is multiplied with ``1 - theta / pi``, that of degree 0 (Cho and Saul 2009). All of
it is written by the part that cosines and kernel lack of their values at angle 0: of two points
that are near each other nothing cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LANES = 16
"""Sums of squares of a row that are added up side by side: each of every 16th column."""
_ROWS = 256
"""Rows whose few temporaries stay in the second cache."""
LEAST, MOST = 1e-250, 1e300
"""Squared lengths between which no digit is lost."""


def neural_tangent(half: NDArray[Any], depth: int) -> NDArray[Any]:
    """Return the kernel from ``sin(theta / 2)^2``, a quarter of the squared distance.

    It is that of a network of `depth` hidden layers, divided by its value at angle 0, which is
    depth + 1.
    """
    half = np.minimum(half, 1.0)
    return np.asarray(1.0 - lacking(2.0 * np.arctan2(np.sqrt(half), np.sqrt(1.0 - half)), depth))


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


def to_sphere(X: NDArray[Any], bandwidth: float, out: NDArray[Any]) -> None:
    """Write the unit vector of ``(bandwidth, x)`` of each row x of `X` (n, d) into `out`.

    Sums are in float64, in an order in which further columns of zeros change nothing.

    Parameters
    ----------
    X : float32 or float64 array of shape (n, d)
    bandwidth : float
    out : array of shape (n, d + 1)
        Of the type of `X`.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        for first in range(0, len(X), _ROWS):
            x, u = X[first : first + _ROWS].astype(np.float64), out[first : first + _ROWS]
            squares = _squares(x) + bandwidth * bandwidth
            bias = np.full(len(x), float(bandwidth))
            for i in np.flatnonzero(~((squares > LEAST) & (squares < MOST))):
                # Digits of the squares are beyond the range of numbers.
                size = np.maximum(bandwidth, np.abs(x[i]).max(initial=0.0))
                x[i], bias[i] = x[i] / size, bandwidth / size
                squares[i] = _squares(x[i : i + 1])[0] + bias[i] * bias[i]
            inverse = 1.0 / np.sqrt(squares)
            u[:, 0] = bias * inverse
            u[:, 1:] = x * inverse[:, None]


def _squares(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared length of each row."""
    lanes = np.zeros((len(x), _LANES))
    for j in range(0, x.shape[1], _LANES):
        part = x[:, j : j + _LANES]
        lanes[:, : part.shape[1]] += part * part
    while lanes.shape[1] > 1:
        middle = lanes.shape[1] // 2
        lanes = lanes[:, :middle] + lanes[:, middle:]
    return lanes[:, 0]
