"""Columns: running statistics, scaling by them, and the points of a feature machine.

All arrays are C-contiguous. What is computed for a row is the same, bit for bit, whatever rows are
computed with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import FAIR_COIN, FARTHEST, GROUP, LARGEST, OUTERMOST, ROUNDING, ColumnMap
from streamk.backends.jit.compiling import exact, exact_part, short
from streamk.backends.numba_backend.pairwise import dot, lay
from streamk.backends.threads import pieces


@exact
def measure(X: Any, count: Any, mean: Any, squares: Any, numeric: Any) -> None:
    """Take rows into each column's count, mean and sum of squared deviations (Chan et al. 1979).

    A NaN is missing. `numeric` becomes true where a value is neither 0 nor 1. The mean is summed
    from the first value on, so that it is exact where all are equal, and is as precise as these are
    where they are close together and far from 0.
    """
    for j in range(X.shape[1]):
        n, first, total, other = 0, 0.0, 0.0, False
        for r in range(X.shape[0]):
            x = X[r, j]
            if not math.isnan(x):
                if n == 0:
                    first = x
                n += 1
                total += x - first
                other |= x not in (0.0, 1.0)
        if n == 0:
            continue
        center, around = first + total / n, 0.0
        for r in range(X.shape[0]):
            deviation = X[r, j] - center
            if not math.isnan(deviation):
                around += deviation * deviation
        shift, share = center - mean[j], n / (count[j] + n)
        squares[j] += around + shift * shift * count[j] * share
        mean[j] += shift * share
        count[j] += n
        numeric[j] |= other


@exact
def spread(count: Any, mean: Any, squares: Any, numeric: Any, factor: Any) -> None:
    """Write what makes each column's deviation, and then the sum of all variances, 1."""
    total = 0.0
    for j in range(len(factor)):
        variance = squares[j] / max(count[j], 1.0)
        deviation = math.sqrt(variance)
        if deviation <= ROUNDING * abs(mean[j]):
            variance, deviation = 0.0, 1.0
        if not numeric[j]:
            deviation = FAIR_COIN
        total += variance / (deviation * deviation)
        factor[j] = 1.0 / deviation
    if total > 0.0:
        for j in range(len(factor)):
            factor[j] /= math.sqrt(total)


@exact
def rescale(X: Any, mean: Any, factor: Any, out: Any) -> Any:
    """Write the rows less the mean, times the factor, bounded; a NaN becomes 0.

    Returns whether no value is beyond `LARGEST`.
    """
    large = 0
    for r in range(X.shape[0]):
        for j in range(X.shape[1]):
            z = (X[r, j] - mean[j]) * factor[j]
            out[r, j] = 0.0 if math.isnan(z) else min(max(z, -FARTHEST), FARTHEST)
            large += abs(X[r, j]) > LARGEST
    return large == 0


@exact
def rescale_each(X: Any, known: Any, statistics: Any, factor: Any, after: Any, units: Any) -> None:
    """Rescale row by row, those that are known being taken into the statistics before.

    Units are the mean and the factor that there were until then.
    """
    count, mean, squares, numeric = statistics
    for r in range(X.shape[0]):
        row = X[r : r + 1]
        units[r, 0], units[r, 1] = mean, factor
        if known[r]:
            measure(row, count, mean, squares, numeric)
            spread(count, mean, squares, numeric, factor)
        rescale(row, mean, factor, after[r : r + 1])


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
def _scale_some(
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
    """Put events X (n, d), float64, on a scale, bounded by `most`."""
    for some in pieces(X):
        _scale_some(X[some], *columns, most)


@short
def _bound_some(P: Any, factors: Any, most: Any, out: Any) -> None:
    for i in range(P.shape[0]):
        for j in range(P.shape[1]):
            p = P[i, j] * factors[j]
            out[i, j] = most if p > most else -most if p < -most else p


def bound(P: Any, factors: Any, most: float, out: Any) -> None:
    """Write P (n, d), float64, times factors (d,), bounded by `most`, into `out`, float32."""
    for some in pieces(P):
        _bound_some(P[some], factors, most, out[some])


@exact
def leaves(products: Any, thresholds: Any, children: Any, out: Any) -> None:
    """Write the leaves of points into `out`, int64 (n,), by their products with directions.

    A point goes to the first child of a split, from the first split on, where its product
    (n, splits) is not above the threshold, else to the second. Children (splits, 2) are splits,
    or ``-1 - leaf``.
    """
    for i in range(products.shape[0]):
        at = 0
        while at >= 0:
            at = children[at, 1 if products[i, at] > thresholds[at] else 0]
        out[i] = -1 - at


@exact_part
def _products(rows: Any, x: Any) -> Any:
    """Return the products of rows (n, d) with x (1, d), float64: (1, n) and what fills a group."""
    n, d = rows.shape
    groups = (n + GROUP - 1) // GROUP
    P, products = np.empty((groups, d, GROUP)), np.empty((1, groups * GROUP))
    lay(rows, 0, P)
    for g in range(groups):
        dot(P, x, products, g * d * GROUP, 0, g * GROUP, d, d, 1, 1.0)
    return products


@short
def place(
    P: Any, medians: Any, means: Any, factors: Any, values: Any, ranks: Any, ends: Any, scaled: Any,
    root: Any, most: Any, directions: Any, thresholds: Any, children: Any, out: Any,
) -> Any:  # fmt: skip
    """Do `scale`, `bound` and `leaves` for a single event P (1, d), float64, and return its leaf.

    The event is lost, and `out` gets its point. The root is one row of factors, or as many rows as
    there are columns. Directions of splits are (splits, d), float32.
    """
    _scale_some(P, medians, means, factors, values, ranks, ends, scaled)
    if root.shape[0] == 1:
        _bound_some(P, root[0], most, out)
    else:
        ones = np.ones(P.shape[1])
        _bound_some(_products(root, P)[:, : len(ones)], ones, most, out)
    if not len(thresholds):
        return 0
    leaf = np.empty(1, np.int64)
    products = _products(directions.astype(np.float64), out.astype(np.float64))
    leaves(products, thresholds, children, leaf)
    return leaf[0]


@short
def _standardize_some(X: Any, center: Any, inverse: Any, scale: Any) -> None:
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


def standardize(X: Any, center: Any, inverse: Any, scale: float) -> None:
    """Turn X (n, d) into ``(x - center) inverse``, within `OUTERMOST`, times the scale.

    NaN becomes 0. All arrays are float64, center and inverse (d,).
    """
    for some in pieces(X):
        _standardize_some(X[some], center, inverse, scale)
