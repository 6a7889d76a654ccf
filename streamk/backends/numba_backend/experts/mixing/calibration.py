"""Calibration of each expert: an inverse temperature on its scores that follows the labels.

An expert whose steps are short says the right thing too faintly, one whose steps are long too
loudly; a fixed share, which can only choose among them, would take the one that is least wrong
about itself. So the second fixed share mixes scores whose logits (Platt 1999; one temperature
for all classes, Guo et al. 2017) or numbers are multiplied by a factor, which moves by Newton steps
on the expert's own loss.
"""

from __future__ import annotations

from typing import Any

from streamk.backends import BINARY, NUMBERS
from streamk.backends.numba_backend.experts.compiled import exponential, fast
from streamk.backends.numba_backend.experts.mixing import costs
from streamk.backends.numba_backend.experts.mixing.expert_predictions import greatest_of, sigmoid

_FORGET = 0.999
_PRIOR = 10.0
"""Curvature that the factor 1 has before the first event."""
_LOUDEST = 5.0
"""Largest factor; the least is 0."""


@fast
def to_probabilities(task: Any, L: Any, factors: Any, out: Any) -> None:
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
def learn(
    task: Any,
    L: Any,
    said: Any,
    y: Any,
    how: Any,
    size: Any,
    active: Any,
    factors: Any,
    curvatures: Any,
) -> None:
    """Move factors by a Newton step; `said` is what `to_probabilities` wrote.

    `how` errors of numbers count and their mean `size` are as `costs.slope` has them.
    """
    for e in range(len(factors)):
        if active[e] == 0.0:
            continue
        row, p = L[e], said[e]
        if task == NUMBERS:
            slope = costs.slope(p[0] - y, how, size) * row[0]
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
