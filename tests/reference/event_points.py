"""The map of events to points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import OUTERMOST, ColumnMap

Array = NDArray[Any]


def scale(X: Array, columns: ColumnMap, most: float) -> None:
    """Put events on a scale, bounded by `most`."""
    P = np.where(np.isnan(X), columns.medians, X)
    first = 0
    for j, end in enumerate(columns.ends.tolist()):
        if end > first:
            P[:, j] = np.interp(P[:, j], columns.values[first:end], columns.ranks[first:end])
        first = end
    with np.errstate(over="ignore", invalid="ignore"):
        np.clip((P - columns.means) * columns.factors, -most, most, out=X)


def bound(P: Array, factors: Array, most: float, out: Array) -> None:
    """Write numbers times factors, bounded by `most`, into `out`."""
    with np.errstate(over="ignore", invalid="ignore"):
        out[...] = np.clip(P * factors, -most, most)


def leaves(products: Array, thresholds: Array, children: Array, out: Array) -> None:
    """Write the leaves of points into `out`, by their products with directions."""
    out[...] = 0
    right, rows = (products > thresholds).astype(np.int64), np.arange(len(products))
    while len(rows):
        out[rows] = children[out[rows], right[rows, out[rows]]]
        rows = rows[out[rows] >= 0]
    out[...] = -1 - out


def leaf(point: Array, directions: Array, thresholds: Array, children: Array, out: Array) -> None:
    """Write the leaf of a point into `out`."""
    products = np.zeros((1, len(directions)))
    for x, column in zip(point.astype(float).T, directions.astype(float).T, strict=True):
        products += x[:, None] * column
    leaves(products, thresholds, children, out)


def standardize(X: Array, center: Array, inverse: Array, scale: float) -> None:
    """Center events and multiply them by the inverse, within bounds, and by the scale."""
    with np.errstate(over="ignore", invalid="ignore"):
        Z = np.minimum(np.maximum((X - center) * inverse, -OUTERMOST), OUTERMOST)
        X[...] = np.where(np.isnan(Z), 0.0, Z) * scale
