"""Scales of columns, by a set of events: of standard deviations, or of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

SCALES = ("standard", "ranks")
_KNOTS = 1_000
"""Quantiles between which ranks are interpolated."""


@dataclass(frozen=True)
class ColumnScale:
    """A map of columns, after which two events are sqrt(2) apart in the root of the mean square.

    NaN is missing and counts as the column's median. "standard" keeps distances within a column;
    "ranks" puts the share of events below instead of a number, whatever its tails are.
    Constant columns become 0.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [1e6, 1.0]])
    >>> ColumnScale.of(X, "ranks").scaled(X).round(2).tolist()
    [[-1.22, 0.0], [0.0, 0.0], [1.22, 0.0]]
    """

    medians: Numbers
    means: Numbers
    factors: Numbers
    """Float64 (d,), as the others."""
    knots: tuple[tuple[Numbers, Numbers], ...]
    """Values and ranks of each column, none if columns are standardized; of a column without any,
    numbers are left."""

    @classmethod
    def of(cls, X: Numbers, scale: str) -> ColumnScale:
        """Return the map for events X (n, d), float64, NaN where missing."""
        d = X.shape[1]
        there = [v[~np.isnan(v)] for v in X.T]
        medians = np.array([np.median(v) if len(v) else 0.0 for v in there])
        knots = tuple(_ranks(v) for v in there) if scale == "ranks" else ()
        P = cls(medians, np.zeros(d), np.ones(d), knots).scaled(X)
        means, spread = P.mean(axis=0), P.std(axis=0)
        # What rounding leaves of a constant is not a deviation.
        varies = spread > 1e-12 * np.maximum(np.abs(means), 1e-300)
        count = max(1, int(varies.sum()))
        factors = np.zeros(d)
        factors[varies] = 1.0 / (spread[varies] * np.sqrt(count))
        return cls(medians, means, factors, knots)

    def scaled(self, X: Numbers) -> Numbers:
        """Return events X (n, d), NaN where missing, on the scale, float64 (n, d)."""
        P = np.where(np.isnan(X), self.medians, X)
        for j, (values, ranks) in enumerate(self.knots):
            if len(values):
                P[:, j] = np.interp(P[:, j], values, ranks)
        return np.asarray((P - self.means) * self.factors)

    @classmethod
    def as_they_are(cls, d: int) -> ColumnScale:
        """Return the map that leaves d columns as they are, 0 where missing."""
        return cls(np.zeros(d), np.zeros(d), np.ones(d), ())

    def extended(self, count: int) -> ColumnScale:
        """Return the map of so many more columns, which it leaves as they are."""
        more, none = ColumnScale.as_they_are(count), np.zeros(0)
        return ColumnScale(
            np.append(self.medians, more.medians),
            np.append(self.means, more.means),
            np.append(self.factors, more.factors),
            self.knots and (*self.knots, *((none, none) for _ in range(count))),
        )


def _ranks(v: Numbers) -> tuple[Numbers, Numbers]:
    """Return ascending values and the share of events below each, half of the equal ones."""
    if not len(v):
        return np.zeros(1), np.zeros(1)
    values, places = np.unique(v, return_inverse=True)
    counts = np.bincount(places)
    ranks = (np.cumsum(counts) - 0.5 * counts) / len(v)
    if len(values) > _KNOTS:
        chosen = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], _KNOTS)))
        values, ranks = values[chosen], ranks[chosen]
    return values, ranks
