"""The scale in which the tree divides events: columns of mean 0 and deviation 1."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import FARTHEST_LOCAL, ROUNDING
from streamk.errors import InvalidInput

__all__ = ["Scale", "as_events"]

Numbers = NDArray[Any]

_LEAST_POWER = -963
"""Exponent of 2 of the greatest number of a column that is not constant: 1e-290."""
_TAIL = 1e-3
"""Share of a column's values on each side that its scale does not follow."""


@dataclass(frozen=True)
class Scale:
    """Of a raw event x, ``(x - shift) * factor`` with `fill` where x is NaN; all are (d,)."""

    shift: Numbers
    factor: Numbers
    fill: Numbers

    @classmethod
    def of(cls, X: Numbers) -> Scale:
        """Return the scale of events (n, d): a constant column counts for nothing.

        The least and the greatest values of a column, a thousandth each and one at least, count as
        the next ones: a single number far out does not decide on the unit.
        """
        X = _without_tails(X)
        known = ~np.isnan(X)
        n = np.maximum(known.sum(axis=0), 1)
        zeroed = np.where(known, X, 0.0)
        # In units of a power of 2 near the greatest number, so that no sum or square overflows, or
        # vanishes; what is below 1e-290 counts as 0, so that no factor overflows.
        _, power = np.frexp(np.abs(zeroed).max(axis=0))
        zeroed = np.ldexp(zeroed, -power)
        mean = zeroed.sum(axis=0) / n
        deviation = np.sqrt(np.where(known, np.square(zeroed - mean), 0.0).sum(axis=0) / n)
        constant = (deviation <= ROUNDING * np.abs(mean)) | (power < _LEAST_POWER)
        factor = np.ldexp(1.0 / np.where(constant, 1.0, deviation), -np.where(constant, 0, power))
        shift = np.where(constant, 0.0, np.ldexp(mean, power))  # a factor of 0 needs none
        return cls(shift, np.where(constant, 0.0, factor), shift)

    def __call__(self, X: Numbers) -> Numbers:
        """Return scaled events (n, d)."""
        with np.errstate(over="ignore"):  # what is far away is bounded
            Z = (np.where(np.isnan(X), self.fill, X) - self.shift) * self.factor
        bounded: Numbers = np.clip(Z, -FARTHEST_LOCAL, FARTHEST_LOCAL)
        return bounded


def _without_tails(X: Numbers) -> Numbers:
    """Return events whose values are within quantiles of their columns, unless these are equal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column may have no value
        least = np.nanquantile(X, _TAIL, axis=0, method="higher")
        most = np.nanquantile(X, 1.0 - _TAIL, axis=0, method="lower")
    differ = most > least
    bounded: Numbers = np.clip(X, np.where(differ, least, -np.inf), np.where(differ, most, np.inf))
    return bounded


def as_events(X: ArrayLike, least: int = 1) -> Numbers:
    """Return events (n, d) as float64; raise InvalidInput unless they are, and enough."""
    try:
        rows = np.ascontiguousarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"events must be numbers: {error}") from error
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidInput(f"events of shape {rows.shape} must have shape (n, d) with columns")
    if len(rows) < least:
        raise InvalidInput(f"there are {len(rows)} events, and at least {least} are needed")
    if np.isinf(rows).any():
        row, column = np.argwhere(np.isinf(rows))[0]
        raise InvalidInput(
            f"column {column} of row {row} is {rows[row, column]}, which must be finite; NaN is "
            "missing"
        )
    return rows
