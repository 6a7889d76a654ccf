"""Means, deviations, medians and errors of events that count by weights.

An event of weight 2 counts as two events, up to rounding. Without weights (None) all count alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput

Numbers = NDArray[Any]

_LEAST = 1e-100
"""Least weight, and one over the largest: sums of them are finite, and more than 0."""
Weights = NDArray[Any] | None
"""Positive numbers, float64 (n,), or None."""


def checked(weights: ArrayLike | None, n: int) -> Weights:
    """Return the weights of n events.

    Raises
    ------
    InvalidInput
        If they are not n positive numbers.
    """
    if weights is None:
        return None
    found = np.asarray(weights, np.float64)
    if found.shape != (n,) or not ((found >= _LEAST) & (found <= 1.0 / _LEAST)).all():
        raise InvalidInput(
            f"weights must be {n} positive numbers, one for each event, from {_LEAST:g} to "
            f"{1.0 / _LEAST:g}; leave out events that are not to count"
        )
    return found


def unit(weights: Weights) -> float:
    """Return the power of the root of 10 that is nearest to the mean of the weights.

    Regularizations on a ladder of such steps, times this, are those of weights of about 1.

    Examples
    --------
    >>> unit(np.array([90.0, 110.0])), unit(None)
    (100.0, 1.0)
    """
    if weights is None:
        return 1.0
    return float(10.0 ** (round(2.0 * math.log10(weights.mean())) / 2.0))


def of_rows(weights: Weights, rows: Any) -> Weights:
    """Return the weights of some events."""
    return None if weights is None else weights[rows]


def sum_of(weights: Weights, n: int) -> float:
    """Return the sum of the weights of n events."""
    return float(n) if weights is None else float(weights.sum())


def rooted(weights: Weights) -> Weights:
    """Return the square roots of the weights."""
    return None if weights is None else np.sqrt(weights)


def times(X: Numbers, weights: Weights) -> Numbers:
    """Return rows X (n, d) times the weights of their events."""
    return X if weights is None else X * weights[:, None]


def mean_error(E: Numbers, weights: Weights) -> float:
    """Return the mean of errors E (n, outputs) over events, summed over outputs."""
    return float(times(E, weights).sum() / sum_of(weights, len(E)))


def mean(X: Numbers, weights: Weights) -> Numbers:
    """Return the mean of the columns of X (n, d).

    Examples
    --------
    >>> mean(np.array([[1.0], [4.0]]), np.array([2.0, 1.0]))
    array([2.])
    """
    found = X.mean(axis=0) if weights is None else weights @ X / weights.sum()
    return np.asarray(found)


def deviations(X: Numbers, weights: Weights) -> Numbers:
    """Return the standard deviations of the columns of X (n, d)."""
    if weights is None:
        return np.asarray(X.std(axis=0))
    return np.sqrt(mean(np.square(X - mean(X, weights)), weights))


def covariance(X: Numbers, weights: Weights) -> Numbers:
    """Return the covariances of the columns of X (n, d), float64 (d, d)."""
    return np.atleast_2d(np.cov(X.T, bias=True, aweights=weights))


def median(v: Numbers, weights: Weights) -> float:
    """Return the median of numbers (n,), at least one.

    Examples
    --------
    >>> median(np.array([5.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    2.0
    """
    if weights is None:
        return float(np.median(v))
    order = np.argsort(v, kind="stable")
    sums = np.cumsum(weights[order])
    half = 0.5 * sums[-1]
    low = int(np.searchsorted(sums, half, side="left"))
    high = int(np.searchsorted(sums, half, side="right"))
    return float(0.5 * (v[order[low]] + v[order[min(high, len(v) - 1)]]))
