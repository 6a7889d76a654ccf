"""Running statistics of columns, and scaling by them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import FAIR_COIN, FARTHEST, LARGEST, ROUNDING


def measure(
    X: NDArray[Any],
    count: NDArray[Any],
    mean: NDArray[Any],
    squares: NDArray[Any],
    numeric: NDArray[Any],
) -> None:
    """Take rows into each column's count, mean and sum of squared deviations (Chan et al. 1979).

    A NaN is missing. `numeric` becomes true where a value is neither 0 nor 1. The mean is summed
    from the first value on, so that it is exact where all are equal, and is as precise as these are
    where they are close together and far from 0.
    """
    if not len(X):
        return
    known = ~np.isnan(X)
    n = known.sum(axis=0)
    first = np.where(n > 0, X[known.argmax(axis=0), np.arange(X.shape[1])], 0.0)
    center = first + np.where(known, X - first, 0.0).sum(axis=0) / np.maximum(n, 1)
    deviations = np.where(known, X - center, 0.0)
    shift = center - mean
    share = n / np.maximum(count + n, 1.0)
    squares += (deviations * deviations).sum(axis=0) + shift * shift * count * share
    mean += shift * share
    count += n
    numeric |= (known & (X != 0.0) & (X != 1.0)).any(axis=0)


def spread(
    count: NDArray[Any],
    mean: NDArray[Any],
    squares: NDArray[Any],
    numeric: NDArray[Any],
    factor: NDArray[Any],
) -> None:
    """Write what makes each column's deviation, and then the sum of all variances, 1."""
    variance = squares / np.maximum(count, 1.0)
    deviation = np.sqrt(variance)
    varies = deviation > ROUNDING * np.abs(mean)
    variance, deviation = np.where(varies, variance, 0.0), np.where(varies, deviation, 1.0)
    deviation = np.where(numeric, deviation, FAIR_COIN)
    total = (variance / (deviation * deviation)).sum()
    factor[...] = 1.0 / (deviation * np.sqrt(total if total > 0 else 1.0))


def rescale(X: NDArray[Any], mean: NDArray[Any], factor: NDArray[Any], out: NDArray[Any]) -> bool:
    """Write the rows less the mean, times the factor, bounded; a NaN becomes 0.

    Returns whether no value is beyond `LARGEST`.
    """
    with np.errstate(over="ignore"):  # an infinity is bounded too
        Z = (X - mean) * factor
    out[...] = np.where(np.isnan(Z), 0.0, np.clip(Z, -FARTHEST, FARTHEST))
    return not (np.abs(X) > LARGEST).any()


def rescale_each(
    X: NDArray[Any],
    known: NDArray[np.bool_],
    statistics: tuple[NDArray[Any], ...],
    factor: NDArray[Any],
    before: NDArray[Any] | None,
    after: NDArray[Any],
    units: NDArray[Any] | None,
) -> None:
    """Rescale row by row, those that are known being taken into the statistics in between.

    `before` and `units`, the mean and the factor there, are left out where they are None.
    """
    mean = statistics[1]
    for r in range(len(X)):
        row = X[r : r + 1]
        if before is not None:
            rescale(row, mean, factor, before[r : r + 1])
        if units is not None:
            units[r] = mean, factor
        if known[r]:
            measure(row, *statistics)
            spread(*statistics, factor)
        rescale(row, mean, factor, after[r : r + 1])
