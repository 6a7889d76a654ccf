"""The map of events to points, in loops that make no arrays between events and points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import GROUP, OUTERMOST
from streamk.backends.event_points import ColumnMap
from streamk.backends.numba_backend.compilation.compiling import exact_part, short
from streamk.backends.numba_backend.pairwise import dot, lay

__all__ = ["bound", "leaves", "scale", "standardize"]


@exact_part
def _rank(x: Any, values: Any, ranks: Any, first: Any, end: Any) -> Any:
    """Interpolate between the knots from `first` to `end`, as `numpy.interp` does."""
    if x < values[first]:
        return ranks[first]
    low, high = first, end  # values[low] <= x < values[high]
    while high - low > 1:
        middle = (low + high) // 2
        if values[middle] <= x:
            low = middle
        else:
            high = middle
    if low == end - 1 or values[low] == x:
        return ranks[low]
    slope = (ranks[low + 1] - ranks[low]) / (values[low + 1] - values[low])
    found = slope * (x - values[low]) + ranks[low]
    if math.isnan(found):  # a difference overflowed
        found = slope * (x - values[low + 1]) + ranks[low + 1]
        if math.isnan(found) and ranks[low] == ranks[low + 1]:
            found = ranks[low]
    return found


@short
def _scale(
    X: Any, medians: Any, means: Any, factors: Any, values: Any, ranks: Any, ends: Any, most: Any
) -> None:
    for i in range(X.shape[0]):
        first = 0
        for j in range(X.shape[1]):
            x = X[i, j]
            if math.isnan(x):
                x = medians[j]
            if ends[j] > first:
                x = _rank(x, values, ranks, first, ends[j])
                first = ends[j]
            p = (x - means[j]) * factors[j]
            X[i, j] = most if p > most else -most if p < -most else p


def scale(X: Any, columns: ColumnMap, most: float) -> None:
    """Put events on a scale, bounded by `most`."""
    _scale(X, *columns, most)


@short
def bound(P: Any, factors: Any, most: Any, out: Any) -> None:
    """Write numbers times factors, bounded by `most`, into `out`."""
    for i in range(P.shape[0]):
        for j in range(P.shape[1]):
            p = P[i, j] * factors[j]
            out[i, j] = most if p > most else -most if p < -most else p


@short
def _leaves(points: Any, directions: Any, thresholds: Any, children: Any, out: Any) -> None:
    (n, d), splits = points.shape, directions.shape[0]
    X, groups = points.astype(np.float64), (splits + GROUP - 1) // GROUP
    P, products = np.empty((groups, d, GROUP)), np.empty(groups * GROUP)
    lay(directions.astype(np.float64), 0, P)
    for i in range(n):
        for g in range(groups):
            dot(P, X, products, g * d * GROUP, i * d, g * GROUP, d, d, 1, 1.0)
        at = 0
        while at >= 0:
            at = children[at, 1 if products[at] > thresholds[at] else 0]
        out[i] = -1 - at


def leaves(points: Any, directions: Any, thresholds: Any, children: Any, out: Any) -> None:
    """Write the leaves of points into `out`."""
    _leaves(points, directions, thresholds, children, out)


@short
def standardize(X: Any, center: Any, inverse: Any, scale: Any) -> None:
    """Turn events into what is left of the center, times the inverse, within bounds, scaled."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            z = (X[i, j] - center[j]) * inverse[j]
            if math.isnan(z):
                z = 0.0
            elif z > OUTERMOST:
                z = OUTERMOST
            elif z < -OUTERMOST:
                z = -OUTERMOST
            X[i, j] = z * scale
