"""Columns of a batch on one scale: standardized, or by their ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.learners.metric_rounds.weights import (
    Weights,
    deviations,
    mean,
    median,
    of_rows,
    sum_of,
)

Numbers = NDArray[Any]

SCALES = ("standard", "ranks")
_KNOTS = 1_000
"""Quantiles between which ranks are interpolated."""


@dataclass(frozen=True)
class Columns:
    """A map of columns, after which two events are sqrt(2) apart in the root of the mean square.

    NaN is missing and counts as the column's median. "standard" keeps distances within a column;
    "ranks" puts the share of events below in the place of a number, whatever its tails are.
    Constant columns become 0.

    Attributes
    ----------
    medians, means, factors : float64 arrays of shape (d,)
    knots : list of (values, ranks)
        Of each column, none if columns are standardized; of a column without any, numbers are left.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [1e6, 1.0]])
    >>> Columns.of(X, "ranks").scaled(X).round(2).tolist()
    [[-1.22, 0.0], [0.0, 0.0], [1.22, 0.0]]
    """

    medians: Numbers
    means: Numbers
    factors: Numbers
    knots: tuple[tuple[Numbers, Numbers], ...]

    @classmethod
    def of(cls, X: Numbers, scale: str, weights: Weights = None) -> Columns:
        """Return the map for events X (n, d), float64, NaN where missing, of these weights.

        Raises
        ------
        InvalidInput
            If there is no such scale.
        """
        if scale not in SCALES:
            raise InvalidInput(f"scale={scale!r} must be one of {', '.join(SCALES)}")
        d = X.shape[1]
        there = [
            (v[known], of_rows(weights, known))
            for v, known in zip(X.T, ~np.isnan(X.T), strict=True)
        ]
        medians = np.array([median(v, w) if len(v) else 0.0 for v, w in there])
        knots = tuple(_ranks(v, w) for v, w in there) if scale == "ranks" else ()
        plain = cls(medians, np.zeros(d), np.ones(d), knots)
        P = plain.scaled(X)
        means, spread = mean(P, weights), deviations(P, weights)
        # What rounding leaves of a constant is no deviation.
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
    def as_they_are(cls, d: int) -> Columns:
        """Return the map that leaves d columns as they are, 0 where missing."""
        return cls(np.zeros(d), np.zeros(d), np.ones(d), ())

    def extended(self, count: int) -> Columns:
        """Return the map of so many more columns, which it leaves as they are."""
        more, none = Columns.as_they_are(count), np.zeros(0)
        return Columns(
            np.append(self.medians, more.medians),
            np.append(self.means, more.means),
            np.append(self.factors, more.factors),
            self.knots and (*self.knots, *((none, none) for _ in range(count))),
        )


def _ranks(v: Numbers, weights: Weights) -> tuple[Numbers, Numbers]:
    """Return ascending values and the share of events below each, half of the equal ones."""
    if not len(v):
        return np.zeros(1), np.zeros(1)
    values, places = np.unique(v, return_inverse=True)
    counts = np.bincount(places, weights)
    ranks = (np.cumsum(counts) - 0.5 * counts) / sum_of(weights, len(v))
    if len(values) > _KNOTS:
        chosen = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], _KNOTS)))
        values, ranks = values[chosen], ranks[chosen]
    return values, ranks
