"""Quantiles of what a prediction misses by, from several trackers side by side.

A tracker follows the quantiles of the errors in units of its own guess of how far off this event
may be (`expected_error`): a constant, the experts' disagreement, or both. It moves by steps of the
pinball loss, by one of several rates. A fixed share over the trackers mixes their quantiles, and a
last tracker corrects the mixture, so that in the long run as many errors lie below as should.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from streamk.backends.jit.compiling import SUMS, call, called, fast, stage
from streamk.backends.jit.vectors import carray
from streamk.backends.numba_backend.experts import two_stage
from streamk.backends.numba_backend.experts.view import double, flags
from streamk.backends.numba_backend.exponential import exponential

RATES = (0.005, 0.02, 0.1)
GUESSES = 3
TRACKERS = GUESSES * len(RATES)
LEVELS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    *(0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995),
)
TAKE_IN, COUNT, MEAN, TRACKED, WEIGHTS, CORRECTION, LIKELY, ACTIVE, ROOM = range(9)
PLACES = 9
"""Of a table."""
_EARLY = 1000
"""Errors up to which their mean is the plain one; older ones fade from then on."""
_ALPHA = 1e-3
_SHARPNESS = 4.0
"""Rate at which the trackers' weights learn: by exp(-4 times the mean pinball loss)."""
_MEMORY = 0.995
_CORRECTION = 0.1
"""Rate of the last tracker, in units of the mean error."""
_FLOOR = 0.05
"""Part of the mean error that is added to a disagreement."""


@called
def disagreement(L: Any, weights: Any) -> Any:
    """Return the weighted deviation of scores (experts, 1).

    An inactive expert (NaN) counts as the labels' center, so that a number far from it counts as
    uncertain: on real streams intervals of the same coverage are narrower so than with inactive
    experts left out.
    """
    mean, square, total = 0.0, 0.0, 1e-12
    for e in range(len(weights)):
        score = L[e, 0] if L[e, 0] == L[e, 0] else 0.0
        total += weights[e]
        mean += weights[e] * score
        square += weights[e] * score * score
    mean /= total
    return math.sqrt(max(square / total - mean * mean, 0.0))


@fast
def expected_error(kind: Any, apart: Any, size: Any) -> Any:
    """Return how far off an event may be, from the disagreement and the mean absolute error."""
    if kind == 0:
        return size
    if kind == 1:
        return apart + _FLOOR * size
    return math.sqrt(size * (apart + _FLOOR * size))


@called
def quantiles(apart: Any, size: Any, tracked: Any, weights: Any, correction: Any, out: Any) -> None:
    """Write the quantiles of the error at `LEVELS`, in ascending order."""
    for q in range(len(LEVELS)):
        out[q] = correction[q] * expected_error(2, apart, size[0])
    for t in range(TRACKERS):
        unit = expected_error(t // len(RATES), apart, size[0])
        for q in range(len(LEVELS)):
            out[q] += weights[t] * tracked[t, q] * unit
    for q in range(1, len(LEVELS)):
        out[q] = max(out[q], out[q - 1])


_pointer: Any = types.CPointer
_TABLE, _BY_EXPERT, _WEIGHTS = map(_pointer, (types.int64, types.float32, types.float64))


@stage(_TABLE, types.float64, types.int64, _BY_EXPERT, _WEIGHTS, fastmath=SUMS)
def take_in(pointer: Any, error: Any, experts: Any, scores: Any, shares: Any) -> None:
    """Do `learn`: the same code for whoever calls it, since sums may be taken in any order."""
    table = carray(pointer, (PLACES,))
    count, size = double(table, COUNT, (1,)), double(table, MEAN, (1,))
    tracked, weights = (
        double(table, TRACKED, (TRACKERS, len(LEVELS))),
        double(table, WEIGHTS, (TRACKERS,)),
    )
    correction, room = (
        double(table, CORRECTION, (len(LEVELS),)),
        double(table, ROOM, (len(LEVELS),)),
    )
    likely, active = double(table, LIKELY, (TRACKERS,)), flags(table, ACTIVE, (TRACKERS,))
    count[0] += 1.0
    if count[0] <= _EARLY:
        size[0] += (abs(error) - size[0]) / count[0]
    apart = disagreement(carray(scores, (experts, 1)), carray(shares, (experts,)))
    quantiles(apart, size, tracked, weights, correction, room)
    for q in range(len(LEVELS)):
        correction[q] += _CORRECTION * (LEVELS[q] - (1.0 if error < room[q] else 0.0))
    for t in range(TRACKERS):
        unit = expected_error(t // len(RATES), apart, size[0]) + 1e-12
        missed, total = error / unit, 0.0
        for q in range(len(LEVELS)):
            level = LEVELS[q]
            beyond = missed - tracked[t, q]
            total += level * beyond if beyond > 0.0 else (level - 1.0) * beyond
            tracked[t, q] += RATES[t % len(RATES)] * (level - (1.0 if beyond < 0.0 else 0.0))
        loss = min(total * unit / (len(LEVELS) * size[0] + 1e-12), 4.0)
        likely[t] = exponential(-_SHARPNESS * loss)
    two_stage.reweigh(weights, likely, active, _ALPHA)
    size[0] = _MEMORY * size[0] + (1.0 - _MEMORY) * abs(error)


@called
def learn(table: Any, error: Any, L: Any, weights: Any) -> None:
    """Learn from an error, label less prediction, and the scores L (experts, 1) behind it.

    Parameters
    ----------
    table : int64 array
        Where `take_in` is, then the arrays of the trackers, by the places in a table.
    error : float
        In units of the labels' scale.
    L : float32 array of shape (experts, 1)
    weights : float64 array of shape (experts,)
    """
    call(table[TAKE_IN], table, (np.float64(error), np.int64(len(weights)), L, weights))
