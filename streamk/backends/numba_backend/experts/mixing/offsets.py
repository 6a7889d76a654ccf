"""Offsets that make quantiles of what experts say of the mean.

To each expert's number a tracker of its own adds what takes it to the quantile: it moves by steps
of the pinball loss, in units of the expert's mean absolute error. `tracked` are the offsets and
these mean errors (2, experts + 1); in the last place is that of the mixture, which has no offset.
"""

from __future__ import annotations

from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.mixing import costs
from streamk.backends.pool_arrays import DEFAULT

RATE = 0.01
_MEMORY = 0.99
"""Of mean absolute errors."""


@fast
def add(tracked: Any, on: Any, L: Any, P: Any) -> None:
    """Add the offsets of active experts to their scores L and numbers P (experts, 1)."""
    number = P.dtype.type
    for e in range(len(P)):
        P[e, 0] += number(tracked[0, e] * on[e])
        L[e, 0] = min(max(P[e, 0], number(-costs.ENDS)), number(costs.ENDS))


@fast
def learn(
    error: Any, y: Any, how: Any, F: Any, on: Any, pinball: Any, tracked: Any, P: Any
) -> None:
    """Move the offsets, and turn the numbers P into the slopes of the experts' losses.

    `error` is the mixture's. Experts in `pinball` descend the pinball loss of what they say, the
    others learn the mean: their losses are those of their outputs F, without offsets.
    """
    mean = (DEFAULT, 0.0)
    _resize(tracked, len(P), error)
    for e in range(len(P)):
        if not on[e] > 0.0:
            P[e, 0] = 0.0
            continue
        missed = P[e, 0] - y
        _resize(tracked, e, missed)
        slope = costs.slope(missed, how, tracked[1, e])
        tracked[0, e] -= RATE * slope
        P[e, 0] = slope if pinball[e] else costs.slope(F[e, 0] - y, mean, 1.0)


@fast
def _resize(tracked: Any, place: Any, error: Any) -> None:
    tracked[1, place] = _MEMORY * tracked[1, place] + (1.0 - _MEMORY) * abs(error)
