"""From the outputs of experts to their scores and predictions, and to the slopes of their losses.

An expert's outputs are a logit (two classes), logits or log-probabilities (more), or a number.

Calibration of each expert is an inverse temperature on its scores that follows the labels. An
expert whose steps are short says the right thing too faintly, one whose steps are long too
loudly; a fixed share, which can only choose among them, would take the one that is least wrong
about itself. So the second fixed share mixes scores whose logits (Platt 1999; one temperature
for all classes, Guo et al. 2017) or numbers are multiplied by a factor, which moves by Newton steps
on the expert's own loss.

Offsets make quantiles of what experts predict of the mean. To each expert's number a tracker of its
own adds what takes it to the quantile: it moves by steps of the pinball loss, in units of the
expert's mean absolute error. `tracked` are the offsets and these mean errors (2, experts + 1); in
the last place is that of the mixture, which has no offset.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import BINARY, NUMBERS
from streamk.backends.jit.compiling import fast, ordered
from streamk.backends.numba_backend.experts import two_stage
from streamk.backends.numba_backend.experts.two_stage import LEAST
from streamk.backends.numba_backend.exponential import exponential
from streamk.backends.pool_arrays import DEFAULT


@ordered
def greatest_of(values: Any) -> Any:
    """Return the greatest of some numbers."""
    top = values[0]
    for k in range(1, len(values)):
        top = max(top, values[k])
    return top


@fast
def sigmoid(logit: Any) -> Any:
    """Return the probability that a logit of single precision stands for."""
    small = exponential(-abs(logit))
    q = np.float32(1.0) / (np.float32(1.0) + small)
    return q if logit >= np.float32(0.0) else small * q


@fast
def _softmax(F: Any, L: Any, P: Any) -> None:
    """Write log-probabilities, not below log(LEAST), and probabilities, a row for each expert.

    Exponentials are taken of all rows at once: one row seldom fills a vector.
    """
    number = F.dtype.type
    for e in range(len(F)):
        top = greatest_of(F[e])
        for k in range(F.shape[1]):
            L[e, k] = F[e, k] - top
    p, row = P.ravel(), L.ravel()
    for i in range(len(p)):
        p[i] = exponential(row[i])
    for e in range(len(F)):
        total = P[e, 0]
        for k in range(1, F.shape[1]):
            total += P[e, k]
        shift, inverse = number(math.log(total)), number(1.0) / total
        for k in range(F.shape[1]):
            P[e, k] *= inverse
            L[e, k] = max(L[e, k] - shift, number(math.log(LEAST)))


@fast
def to_scores(task: Any, F: Any, L: Any, P: Any) -> None:
    """Write scores L from outputs F (experts, outputs), and what `slopes` starts from.

    A score is a logit, log-probabilities or a number, all within bounds; P are the probabilities
    without bounds, or the numbers.
    """
    number = F.dtype.type
    if task == NUMBERS:
        f, row, p = F.ravel(), L.ravel(), P.ravel()
        for e in range(len(f)):
            row[e] = min(max(f[e], number(-two_stage.ENDS)), number(two_stage.ENDS))
            p[e] = f[e]
    elif task == BINARY:
        f, row, p = F.ravel(), L.ravel(), P.ravel()
        limit = number(-math.log(LEAST))
        for e in range(len(f)):
            row[e] = min(max(f[e], -limit), limit)
            p[e] = sigmoid(f[e])
    else:
        _softmax(F, L, P)


@fast
def clear_inactive(on: Any, L: Any, P: Any, external: Any) -> None:
    """Write scores and slopes of 0 for those of the last experts that are inactive."""
    for e in range(len(on) - external, len(on)):
        if on[e] == 0.0:
            for k in range(L.shape[1]):
                L[e, k] = P[e, k] = 0.0


@fast
def slopes(task: Any, y: Any, how: Any, P: Any) -> None:
    """Turn what `to_scores` left into the slopes of the experts' own losses in their outputs.

    `how` errors of numbers count, see `two_stage`; of quantiles `learn_offsets` has the slopes.
    """
    number = P.dtype.type
    if task == NUMBERS:
        end = number(two_stage.longest(how))
        for e in range(len(P)):
            P[e, 0] = min(max(P[e, 0] - number(y), -end), end)
    elif task == BINARY:
        for e in range(len(P)):
            P[e, 0] -= number(y)
    else:
        for e in range(len(P)):
            P[e, int(y)] -= number(1.0)


@fast
def to_probabilities(task: Any, L: Any, out: Any) -> None:
    """Write the predictions of scores L as float64: probabilities, or numbers."""
    row, p = L.ravel(), out.ravel()
    if task == NUMBERS:
        for i in range(len(row)):
            p[i] = row[i]
    elif task == BINARY:
        for i in range(len(row)):
            p[i] = sigmoid(row[i])
    else:
        for i in range(len(row)):
            p[i] = exponential(row[i])


@fast
def store(L: Any, on: Any, out: Any) -> None:
    """Write scores (experts, outputs) into a forecast: NaN where an expert is inactive."""
    for e in range(len(on)):
        active = on[e] > 0.0
        for k in range(L.shape[1]):
            out[e, k] = L[e, k] if active else np.nan


@fast
def load(forecast: Any, L: Any, on: Any) -> None:
    """Write the scores that `store` was given, 0 for inactive experts, and the mask."""
    for e in range(len(on)):
        active = forecast[e, 0] == forecast[e, 0]
        on[e] = 1.0 if active else 0.0
        for k in range(L.shape[1]):
            L[e, k] = forecast[e, k] if active else 0.0


@fast
def differ(forecast: Any, L: Any, on: Any) -> Any:
    """Return whether scores of a forecast differ from these, or are of other active experts."""
    count = np.int32(0)
    for e in range(len(on)):
        for k in range(L.shape[1]):
            slept = forecast[e, k] != forecast[e, k]
            count += np.int32(
                on[e] > 0.0 if slept else (forecast[e, k] != L[e, k]) | (on[e] == 0.0)
            )
    return count > 0


_FORGET = 0.999
_PRIOR = 10.0
"""Curvature that the factor 1 has before the first event."""
_LOUDEST = 5.0
"""Largest factor; the least is 0."""


@fast
def to_calibrated(task: Any, L: Any, factors: Any, out: Any) -> None:
    """Write the predictions of scores L (experts, outputs) times factors."""
    number = L.dtype.type
    if task == NUMBERS:
        row, p = L.ravel(), out.ravel()
        for e in range(len(row)):
            p[e] = factors[e] * row[e]
    elif task == BINARY:
        row, p = L.ravel(), out.ravel()
        for e in range(len(row)):
            p[e] = sigmoid(number(factors[e]) * row[e])
    else:
        for e in range(len(L)):
            row, factor, top = L[e], number(factors[e]), greatest_of(L[e])
            for k in range(len(row)):
                out[e, k] = factor * (row[k] - top)
        flat = out.ravel()
        for i in range(len(flat)):  # of all rows at once: one row seldom fills a vector
            flat[i] = exponential(number(flat[i]))
        for e in range(len(L)):
            p, total = out[e], 0.0
            for k in range(len(p)):
                total += p[k]
            scale = 1.0 / total
            for k in range(len(p)):
                p[k] *= scale


@fast
def calibrate(
    task: Any,
    L: Any,
    predictions: Any,
    y: Any,
    how: Any,
    size: Any,
    active: Any,
    factors: Any,
    curvatures: Any,
) -> None:
    """Move factors by a Newton step; `predictions` are what `to_calibrated` wrote.

    `how` errors of numbers count and their mean `size` are as `two_stage.slope` has them.
    """
    for e in range(len(factors)):
        if active[e] == 0.0:
            continue
        row, p = L[e], predictions[e]
        if task == NUMBERS:
            slope = two_stage.slope(p[0] - y, how, size) * row[0]
            curvature = float(row[0]) * row[0]
        elif task == BINARY:
            slope = (p[0] - y) * row[0]
            curvature = p[0] * (1.0 - p[0]) * row[0] * row[0]
        else:
            mean, square = 0.0, 0.0
            for k in range(len(row)):
                mean += p[k] * row[k]
                square += p[k] * row[k] * row[k]
            slope, curvature = mean - row[int(y)], max(square - mean * mean, 0.0)
        curvatures[e] = _FORGET * curvatures[e] + curvature
        step = slope / (curvatures[e] + _PRIOR)
        factors[e] = min(max(factors[e] - step, 0.0), _LOUDEST)


RATE = 0.01
_MEMORY = 0.99
"""Of mean absolute errors."""


@fast
def add_offsets(tracked: Any, on: Any, L: Any, P: Any) -> None:
    """Add the offsets of active experts to their scores L and numbers P (experts, 1)."""
    number = P.dtype.type
    for e in range(len(P)):
        P[e, 0] += number(tracked[0, e] * on[e])
        L[e, 0] = min(max(P[e, 0], number(-two_stage.ENDS)), number(two_stage.ENDS))


@fast
def learn_offsets(
    error: Any, y: Any, how: Any, F: Any, on: Any, pinball: Any, tracked: Any, P: Any
) -> None:
    """Move the offsets, and turn the numbers P into the slopes of the experts' losses.

    `error` is the mixture's. Experts in `pinball` descend the pinball loss of their numbers, the
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
        slope = two_stage.slope(missed, how, tracked[1, e])
        tracked[0, e] -= RATE * slope
        P[e, 0] = slope if pinball[e] else two_stage.slope(F[e, 0] - y, mean, 1.0)


@fast
def _resize(tracked: Any, place: Any, error: Any) -> None:
    tracked[1, place] = _MEMORY * tracked[1, place] + (1.0 - _MEMORY) * abs(error)
