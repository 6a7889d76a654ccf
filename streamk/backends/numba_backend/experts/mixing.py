"""Experts into one prediction: two stages, each with a guarantee.

Mixers: fixed share (Herbster and Warmuth 1998) over the experts' probabilities at several rates of
change, and products of experts (logarithmic opinion pools) ``softmax(sum_e w_e log p_e)`` whose
weights move by gradients (Mattern 2013) or online Newton steps (Hazan et al. 2007). On top a fixed
share over the mixers. Numbers are mixed as they are, and lose by their absolute error.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast

BINARY, CLASSES, NUMBERS = 0, 1, 2
"""Tasks. A binary opinion is one logit; of several classes, their log-probabilities."""
LEAST = 1e-4
"""Least probability that an opinion gives to a class."""
_FURTHEST = 8.0
"""Largest error of a number, in units of the labels' scale, that counts."""
SHARPNESS = 2.0
"""How fast fixed shares learn from absolute errors: weights fall by exp(-2 |error|)."""


@fast
def loss(task: Any, prediction: Any, y: Any) -> Any:
    """Return what a prediction (outputs,) of float64 loses: -log p of the class, or the error."""
    if task == NUMBERS:
        return SHARPNESS * min(abs(prediction[0] - y), _FURTHEST)
    if task == BINARY:
        p = prediction[0] if y > 0.5 else 1.0 - prediction[0]
    else:
        p = prediction[int(y)]
    return -math.log(max(p, LEAST))


@fast
def normalize(task: Any, sums: Any, out: Any) -> None:
    """Turn a product of experts into its prediction: probabilities from logits."""
    if task == NUMBERS:
        out[0] = sums[0]
    elif task == BINARY:
        out[0] = 1.0 / (1.0 + math.exp(-min(max(sums[0], -13.0), 13.0)))
    else:
        top = sums[0]
        for k in range(1, len(sums)):
            top = max(top, sums[k])
        total = 0.0
        for k in range(len(sums)):
            out[k] = math.exp(max(sums[k] - top, -30.0))
            total += out[k]
        for k in range(len(sums)):
            out[k] /= total


@fast
def share(weights: Any, opinions: Any, awake: Any, out: Any) -> None:
    """Write the weighted mean of the opinions (experts, outputs) of those awake."""
    total = 0.0
    for k in range(len(out)):
        out[k] = 0.0
    for e in range(len(weights)):
        if awake[e]:
            total += weights[e]
            for k in range(len(out)):
                out[k] += weights[e] * opinions[e, k]
    for k in range(len(out)):
        out[k] /= total


@fast
def reweigh(weights: Any, losses: Any, awake: Any, alpha: Any) -> None:
    """Fixed share: weights (summing to 1) by their losses, then `alpha` of them spread evenly.

    An expert asleep loses what the mixture loses, so that its weight stays (Freund et al. 1997).
    """
    best = 1e300
    for e in range(len(weights)):
        if awake[e]:
            best = min(best, losses[e])
    kept, new = 0.0, 0.0
    for e in range(len(weights)):
        if awake[e]:
            kept += weights[e]
            weights[e] *= math.exp(best - losses[e])
            new += weights[e]
    if new <= 0.0:
        return
    n = len(weights)
    for e in range(n):
        if awake[e]:
            weights[e] *= kept / new
        weights[e] = (1.0 - alpha) * weights[e] + alpha / n


@fast
def pool(task: Any, L: Any, w: Any, sums: Any, out: Any) -> None:
    """Predict by the product of experts with weights w."""
    for k in range(len(sums)):
        sums[k] = 0.0
    for e in range(L.shape[0]):
        for k in range(len(sums)):
            sums[k] += w[e] * L[e, k]
    normalize(task, sums, out)


@fast
def pool_without(task: Any, L: Any, w: Any, banks: Any, bank: Any, sums: Any, out: Any) -> None:
    """Predict as `pool` does, by the experts that are not in a bank."""
    for k in range(len(sums)):
        sums[k] = 0.0
    for e in range(L.shape[0]):
        if banks[e] != bank:
            for k in range(len(sums)):
                sums[k] += w[e] * L[e, k]
    normalize(task, sums, out)


@fast
def slopes(task: Any, L: Any, prediction: Any, y: Any, out: Any) -> None:
    """Write the gradient of the loss of a product of experts in its weights."""
    for e in range(L.shape[0]):
        total = 0.0
        if task == CLASSES:
            for k in range(L.shape[1]):
                total += prediction[k] * L[e, k]
            total -= L[e, int(y)]
        else:
            total = (prediction[0] - y) * L[e, 0]
        out[e] = total


@fast
def newton_step(w: Any, P: Any, g: Any, residual: Any, forget: Any, start: Any, room: Any) -> None:
    """Take the direction g into P, the inverse of the sum of ``g g'``, and step along P g.

    P does not grow past its `start`, so that weights without a direction stay where they are.
    """
    n = len(w)
    total, trace = 0.0, 0.0
    for e in range(n):
        row, product = P[e], 0.0
        for j in range(n):
            product += row[j] * g[j]
        room[e] = product
        total += product * g[e]
        trace += row[e]
    scale = 1.0 / forget if trace < n * start else 1.0
    q = 1.0 / (forget + total)
    for e in range(n):
        f, row = room[e] * q, P[e]
        for j in range(n):
            row[j] = (row[j] - f * room[j]) * scale
        w[e] -= residual * room[e] * forget * q * scale


@fast
def gradient_step(w: Any, g: Any, residual: Any, rate: Any, normalized: Any) -> None:
    """Step along the gradient; of numbers, normalised by the opinions' squares."""
    norm = 1.0
    if normalized:
        norm = 1e-3
        for e in range(len(w)):
            norm += g[e] * g[e]
    for e in range(len(w)):
        w[e] -= rate * residual * g[e] / norm
