"""Running statistics of columns, and scaling by them."""

from __future__ import annotations

import math
from typing import Any

from streamk.backends import FAIR_COIN, FARTHEST, LARGEST, ROUNDING
from streamk.backends.numba_backend.compiling import exact


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
def rescale_each(
    X: Any, known: Any, statistics: Any, factor: Any, before: Any, after: Any, units: Any
) -> None:
    """Rescale row by row, those that are known being taken into the statistics in between.

    `before` and `units`, the mean and the factor there, are left out where they are None.
    """
    count, mean, squares, numeric = statistics
    for r in range(X.shape[0]):
        row = X[r : r + 1]
        if before is not None:
            rescale(row, mean, factor, before[r : r + 1])
        if units is not None:
            units[r, 0], units[r, 1] = mean, factor
        if known[r]:
            measure(row, count, mean, squares, numeric)
            spread(count, mean, squares, numeric, factor)
        rescale(row, mean, factor, after[r : r + 1])
