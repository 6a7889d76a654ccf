"""The columns of an event as experts look at them: scaled values, and ranks."""

from __future__ import annotations

import math
from typing import Any

from streamk.backends import HIGHEST_RANK, OUTERMOST, SAMPLED
from streamk.backends.jit.compiling import fast, part
from streamk.backends.numba_backend.experts import slot, view


@part
def _below(value: Any, knots: Any) -> Any:
    """Return how many of the sorted knots are less than the value."""
    low, high = 0, len(knots)
    while low < high:
        middle = (low + high) >> 1
        if knots[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _rank(value: Any, knots: Any) -> Any:
    """Return the mid-rank of a value that is no NaN, by knots at equal steps of the rank."""
    last = len(knots) - 1
    low = _below(value, knots)
    if low > last:
        return HIGHEST_RANK
    if knots[low] == value:
        high = low
        while high < last and knots[high + 1] == value:
            high += 1
        level = 0.5 * (low + high)
    elif low == 0:
        return 0.0
    else:
        level = low - 1 + (value - knots[low - 1]) / (knots[low] - knots[low - 1])
    return min(level / last, HIGHEST_RANK)


@part
def rank_row(x: Any, center: Any, inverse: Any, knots: Any, indicator: Any, z: Any, r: Any) -> None:
    """Write the scaled values and the ranks of one event x, float64 (d,), with NaN missing.

    z, float32 (d,), is ``(x - center) * inverse`` between -8 and 8, and 0 where x is missing. r,
    float32 (d,), is the rank of x in [0, 1) by the knots (d, KNOTS), the middle one of the ranks
    where several knots equal x; 1/4 or 3/4 in a column of zeros and ones; -1 where x is missing.
    No knot is beyond 1e30, so x is bounded by that before it is ranked.
    """
    for j in range(len(x)):
        value = x[j]
        if math.isnan(value):
            z[j], r[j] = 0.0, -1.0
            continue
        z[j] = min(max((value - center[j]) * inverse[j], -OUTERMOST), OUTERMOST)
        if indicator[j]:
            r[j] = 0.25 if value < 0.5 else 0.75
        else:
            r[j] = _rank(min(max(value, -SAMPLED), SAMPLED), knots[j])


@fast
def features(table: Any, x: Any) -> None:
    """Write the scaled values, with a 1 after them, and the ranks of an event."""
    z, d = view.z(table), table[slot.COLUMNS]
    center, inverse, knots = view.center(table), view.inverse(table), view.knots(table)
    rank_row(x, center, inverse, knots, view.indicator(table), z[:d], view.r(table))
    z[d] = 1.0
