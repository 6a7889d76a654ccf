"""Losses of predicted numbers, by which numbers are learned and mixed.

Errors are predictions less labels, in units of the labels' scale. How they count is a pair, the
kind of the loss and its parameter: delta of Huber's, q of the pinball loss.
"""

from __future__ import annotations

from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.pool_arrays import HUBER, QUANTILE, SQUARED

ENDS = 20.0
"""Bound of the numbers that experts predict."""
LONGEST = 3.0
"""The squared loss becomes Huber's where the error is more, by default."""
SHARPNESS = 2.0
"""Loss per absolute error: weights of fixed shares fall by exp(-2 |error| / 4)."""
_FURTHEST = 8.0
"""Largest error that counts."""
_MOST = SHARPNESS * _FURTHEST
_CURVATURE = 0.5
"""Of the squared loss, e^2 / 4: exp(-loss / 4) is concave up to errors of the root of 8, and the
largest error that counts costs as much as by default."""


@fast
def longest(how: Any) -> Any:
    """Return the error beyond which experts of the mean take no longer steps."""
    if how[0] == SQUARED:
        return ENDS
    return min(how[1], ENDS) if how[0] == HUBER else LONGEST


@fast
def slope(error: Any, how: Any, size: Any) -> Any:
    """Return the slope of the loss that experts and products of experts descend.

    The pinball loss's has on average the size of errors, `size`, as that of squares has: so steps
    shrink as errors do, and the same rates are right. It is made smaller for both signs where it
    would be too long for one, so that the quantile stays the quantile.
    """
    if how[0] == QUANTILE:
        q = how[1]
        half = 0.5 * min(size, 2.0 * LONGEST * min(q, 1.0 - q))
        if error > 0.0:
            return half / q
        return -half / (1.0 - q) if error < 0.0 else 0.0
    end = longest(how)
    return min(max(error, -end), end)


@fast
def cost(error: Any, how: Any) -> Any:
    """Return what a prediction loses in the mixing."""
    a, p = abs(error), how[1]
    if how[0] == SQUARED:
        return min(0.5 * _CURVATURE * a * a, _MOST)
    if how[0] == HUBER:  # the absolute error's far out, if delta is small, and else the squared one
        loss = 0.5 * a * a if a < p else p * (a - 0.5 * p)
        return min(max(SHARPNESS / p, _CURVATURE) * loss, _MOST)
    if how[0] == QUANTILE:  # of the median it is the default
        return min(2.0 * SHARPNESS * (1.0 - p if error > 0.0 else p) * a, _MOST)
    return SHARPNESS * min(a, _FURTHEST)
