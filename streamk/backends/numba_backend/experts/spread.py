"""Quantiles of what a prediction misses by, from several trackers side by side.

A tracker follows the quantiles of the errors in units of its own guess of how far off this event
may be: a constant, the experts' disagreement, or both. It moves by steps of the pinball loss, by
one of several rates. A fixed share over the trackers mixes their quantiles, and a last tracker
corrects the mixture, so that in the long run as many errors lie below as should.
"""

from __future__ import annotations

import math
from typing import Any

from numba.core import types

from streamk.backends.numba_backend.experts import mixing
from streamk.backends.numba_backend.experts.compiled import called, exponential, fast

RATES = (0.005, 0.02, 0.1)
GUESSES = 3
TRACKERS = GUESSES * len(RATES)
LEVELS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    *(0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995),
)
_EARLY = 1000
"""Errors up to which their mean is the plain one; older ones fade from then on."""
_ALPHA = 1e-3
_SHARPNESS = 4.0
"""How fast the trackers' weights learn: by exp(-4 times the mean pinball loss)."""
_MEMORY = 0.995
_CORRECTION = 0.1
"""Rate of the last tracker, in units of the mean error."""
_FLOOR = 0.05
"""Least guess of a disagreement, in units of the mean error."""


@called
def disagreement(L: Any, weights: Any) -> Any:
    """Return the weighted deviation of opinions (experts, 1).

    Who sleeps (NaN) says the labels' center, so that a number far from it counts as uncertain: on
    real streams intervals of the same coverage are narrower so than with sleepers left out.
    """
    mean, square, total = 0.0, 0.0, 1e-12
    for e in range(len(weights)):
        said = L[e, 0] if L[e, 0] == L[e, 0] else 0.0
        total += weights[e]
        mean += weights[e] * said
        square += weights[e] * said * said
    mean /= total
    return math.sqrt(max(square / total - mean * mean, 0.0))


@fast
def guess(kind: Any, apart: Any, size: Any) -> Any:
    """Return how far off an event may be, from the disagreement and the mean absolute error."""
    if kind == 0:
        return size
    if kind == 1:
        return apart + _FLOOR * size
    return math.sqrt(size * (apart + _FLOOR * size))


_ROW, _ROWS = types.float64[::1], types.float64[:, ::1]
_tuple: Any = types.Tuple
ARRAYS = _tuple((_ROW, _ROW, _ROWS, _ROW, _ROW, _ROW, types.boolean[::1], _ROW))
"""The types of the arrays that `learn` takes."""


@called
def quantiles(apart: Any, size: Any, tracked: Any, weights: Any, correction: Any, out: Any) -> None:
    """Write the quantiles of the error at `LEVELS`, in ascending order."""
    for q in range(len(LEVELS)):
        out[q] = correction[q] * guess(2, apart, size[0])
    for t in range(TRACKERS):
        unit = guess(t // len(RATES), apart, size[0])
        for q in range(len(LEVELS)):
            out[q] += weights[t] * tracked[t, q] * unit
    for q in range(1, len(LEVELS)):
        out[q] = max(out[q], out[q - 1])


@called
def learn(error: Any, L: Any, weights: Any, arrays: Any) -> None:
    """Learn from an error, label less prediction, and the opinions L (experts, 1) behind it.

    Parameters
    ----------
    error : float
        In units of the labels' scale.
    L : float32 array of shape (experts, 1)
    weights : float64 array of shape (experts,)
    arrays : tuple of arrays
        The count of errors, then those of `_update`.
    """
    count, size, tracked, trackers, correction, likely, awake, room = arrays
    count[0] += 1.0
    if count[0] <= _EARLY:
        size[0] += (abs(error) - size[0]) / count[0]
    apart = disagreement(L, weights)
    _update(error, apart, size, tracked, trackers, correction, likely, awake, room)


@fast
def _update(
    error: Any,
    apart: Any,
    size: Any,
    tracked: Any,
    weights: Any,
    correction: Any,
    likely: Any,
    awake: Any,
    room: Any,
) -> None:
    """Learn from an error: label less prediction, both in units of the labels' scale."""
    quantiles(apart, size, tracked, weights, correction, room)
    for q in range(len(LEVELS)):
        correction[q] += _CORRECTION * (LEVELS[q] - (1.0 if error < room[q] else 0.0))
    for t in range(TRACKERS):
        unit = guess(t // len(RATES), apart, size[0]) + 1e-12
        missed, total = error / unit, 0.0
        for q in range(len(LEVELS)):
            level = LEVELS[q]
            beyond = missed - tracked[t, q]
            total += level * beyond if beyond > 0.0 else (level - 1.0) * beyond
            tracked[t, q] += RATES[t % len(RATES)] * (level - (1.0 if beyond < 0.0 else 0.0))
        loss = min(total * unit / (len(LEVELS) * size[0] + 1e-12), 4.0)
        likely[t] = exponential(-_SHARPNESS * loss)
    mixing.reweigh(weights, likely, awake, _ALPHA)
    size[0] = _MEMORY * size[0] + (1.0 - _MEMORY) * abs(error)
