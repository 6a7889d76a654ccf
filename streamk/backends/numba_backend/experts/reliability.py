"""The calibration curve of a mixture: how often what it makes so likely comes.

Where labels are noisy no probability should be near 1, however far an event lies from the border of
two classes. A logistic function of a score cannot be steep there and stop short of 1, and a
temperature only makes it less steep. So the logits of the probabilities are divided by knots, each
of which counts how many probabilities there were about it and how many of them came true (binning,
Zadrozny and Elkan 2001; with linear interpolation between the knots, as each probability counts to
the two next to it). A probability is drawn to what came true, from itself: to begin with the curve
is the diagonal.

Of more than two classes each has its probability, which came true or not, and all share one curve;
corrected ones are divided by their sum. Of two classes it is the probability of the second one.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends import BINARY
from streamk.backends.jit.compiling import fast
from streamk.backends.pool_arrays import RELIABILITY_KNOTS

FAINTEST = 1e-6
"""Least probability, and least distance from 1, that is told from others."""
FURTHEST = 14.0
"""Logit of the last knot, beyond all that are told from others; of the first it is the negative."""
PRIOR = 20.0
"""Events for which a probability itself counts."""
MEMORY = 0.9998
"""Discount of what was counted, at each event."""
_PER_LOGIT = (RELIABILITY_KNOTS - 1) / (2.0 * FURTHEST)


@fast
def _told(p: Any) -> Any:
    """Return a probability within the bounds of those that are told from others; NaN is below."""
    return min(p, 1.0 - FAINTEST) if p > FAINTEST else FAINTEST


@fast
def _place(p: Any) -> Any:
    """Return the knot below a probability, and how far on the way to the next one it is."""
    at = (math.log(p / (1.0 - p)) + FURTHEST) * _PER_LOGIT
    knot = int(at)
    return knot, at - knot


@fast
def correct(curve: Any, probabilities: Any, out: Any) -> None:
    """Write what the curve makes of probabilities (outputs,)."""
    total = 0.0
    for k in range(len(out)):
        p = _told(probabilities[k])
        knot, part = _place(p)
        seen = curve[0, knot] * (1.0 - part) + curve[0, knot + 1] * part
        true = curve[1, knot] * (1.0 - part) + curve[1, knot + 1] * part
        out[k] = _told((true + PRIOR * p) / (seen + PRIOR))
        total += out[k]
    if len(out) > 1:
        for k in range(len(out)):
            out[k] /= total


@fast
def learn(curve: Any, task: Any, probabilities: Any, y: Any, weight: Any) -> None:
    """Count which of the probabilities (outputs,) came true; an event has a weight up to 1."""
    kept = MEMORY if weight == 1.0 else MEMORY**weight
    for row in range(2):
        for knot in range(RELIABILITY_KNOTS):
            curve[row, knot] *= kept
    for k in range(len(probabilities)):
        came = y > 0.5 if task == BINARY else k == int(y)
        knot, part = _place(_told(probabilities[k]))
        for row in range(2 if came else 1):
            curve[row, knot] += weight * (1.0 - part)
            curve[row, knot + 1] += weight * part
