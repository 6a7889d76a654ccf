"""Experts into one prediction: two stages, each with a guarantee.

Mixers: fixed share (Herbster and Warmuth 1998) over the experts' probabilities, as they are and
calibrated (`expert_predictions`), and products of experts (logarithmic opinion pools)
``softmax(sum_e w_e log p_e)`` whose weights move by gradients (Mattern 2013) or online Newton steps
(Hazan et al. 2007). One more mixer is a product of these, whose few weights are found sooner than
one for each expert, and of classes another one corrects them all (`reliability`). On top a fixed
share over the mixers. Both kinds of fixed shares move by a quarter of the losses, see `temper`.

Numbers are mixed as they are, and lose by their errors: predictions less labels, in units of the
labels' scale. How these count is a pair `how`, the kind of the loss and its parameter: delta of
Huber's, q of the pinball loss.

Sums of a matrix's rows, and steps of rank one, are in explicit vectors of eight numbers. Rows are
as long as there are experts or outputs: some 40 numbers, or 7. The vectoriser would take much of
such a row from number to number.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends import BINARY, CLASSES, LATE, NUMBERS, OF_LAGS
from streamk.backends.jit.compiling import fast
from streamk.backends.jit.lanes import (
    fma,
    load,
    load_first,
    repeated,
    store,
    store_first,
)
from streamk.backends.numba_backend.exponential import exponential
from streamk.backends.pool_arrays import HUBER, QUANTILE, SQUARED

_LANES = 8


@fast
def combine(w: Any, M: Any, out: Any) -> None:
    """Write the sum of the rows of M, of single or double precision, times float64 w."""
    rows, columns = len(w), len(out)
    fours = rows - rows % 4
    for at in range(0, columns, _LANES):
        left = columns - at
        p = repeated(0.0, _LANES)
        q, r, s = p, p, p
        for i in range(0, fours, 4):  # one sum would wait for its last addition
            p = fma(_some(M, i * columns + at, left), w[i], p)
            q = fma(_some(M, (i + 1) * columns + at, left), w[i + 1], q)
            r = fma(_some(M, (i + 2) * columns + at, left), w[i + 2], r)
            s = fma(_some(M, (i + 3) * columns + at, left), w[i + 3], s)
        p = (p + q) + (r + s)
        for i in range(fours, rows):
            p = fma(_some(M, i * columns + at, left), w[i], p)
        _put(p, out, at, left)


@fast
def shrink(P: Any, v: Any, scale: Any) -> None:
    """Make a matrix (n, n) of double precision ``(P - v v') scale``."""
    n = len(v)
    for at in range(0, n, _LANES):
        left = n - at
        some = _some(v, at, left)
        for j in range(n):
            place = j * n + at
            _put(fma(some, -v[j], _some(P, place, left)) * scale, P, place, left)


@fast
def _some(A: Any, at: Any, left: Any) -> Any:
    """Return the vector at a place of a row of which so many numbers are left."""
    return load(A, at, _LANES) if left >= _LANES else load_first(A, at, left, _LANES)


@fast
def _put(value: Any, A: Any, at: Any, left: Any) -> None:
    """Store what `_some` loads."""
    if left >= _LANES:
        store(value, A, at)
    else:
        store_first(value, A, at, left)


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


LEAST = 1e-4
"""Least probability that an expert gives to a class."""
_FAINTEST = 1e-6
"""Least probability that a mixer gives to a class where mixers are mixed."""


@fast
def likelihood(task: Any, prediction: Any, y: Any, how: Any) -> Any:
    """Return exp(-loss) of a prediction (outputs,) of float64.

    It is the probability of the label's class; `how` errors of a number count, see `two_stage`.
    """
    if task == NUMBERS:
        return exponential(-cost(prediction[0] - y, how))
    if task == BINARY:
        p = prediction[0] if y > 0.5 else 1.0 - prediction[0]
    else:
        p = prediction[int(y)]
    return max(p, LEAST)


@fast
def loss(task: Any, prediction: Any, y: Any, how: Any) -> Any:
    """Return what a prediction loses: -log p of the class, or what its error costs."""
    return -math.log(likelihood(task, prediction, y, how))


@fast
def likelihoods(task: Any, predictions: Any, y: Any, how: Any, out: Any) -> None:
    """Write exp(-loss) of predictions (experts, outputs)."""
    for e in range(len(out)):
        out[e] = likelihood(task, predictions[e], y, how)


_LATE_MEMORY, _UNSEEN = 0.999, 8.0
"""Discount of what is known of late labels' errors; events for which these count as equal, until
more are known."""
_LAST, _COUNT, _SQUARES, _PRODUCTS, LAG = range(5)
"""Places: the last error; as discounted sums events, squares, and products of neighbours; and the
mean lag."""


@fast
def late_weight(known: Any, error: Any, lag: Any) -> Any:
    """Take in the error of a forecast, and return how much an event counts where labels come late.

    That is where the mean of the last lags is `LATE` at least; elsewhere it is 1. Errors of
    neighbouring forecasts go together where each is made without the labels of those before it.
    With a correlation of r, n of them tell as much as ``n (1 - r) / (1 + r)`` that are independent
    (Bartlett 1935), and no less than n over the mean lag.

    Parameters
    ----------
    known : float64 array of shape (5,)
        Of the errors before: all of its state.
    error : float
    lag : int
        Events learned between the prediction and now.
    """
    known[LAG] += (lag - known[LAG]) * OF_LAGS
    if known[LAG] < LATE:
        known[LAG] = known[LAG] if known[LAG] > 1e-3 else 0.0
        return 1.0
    known[_COUNT] = _LATE_MEMORY * known[_COUNT] + 1.0
    known[_SQUARES] = _LATE_MEMORY * known[_SQUARES] + error * error
    known[_PRODUCTS] = _LATE_MEMORY * known[_PRODUCTS] + error * known[_LAST]
    known[_LAST] = error
    n, r = known[_COUNT], max(0.0, known[_PRODUCTS]) / max(known[_SQUARES], 1e-30)
    r = (n * min(r, 1.0) + _UNSEEN) / (n + _UNSEEN)
    return max(1.0 / known[LAG], (1.0 - r) / (1.0 + r))


@fast
def temper(likely: Any, weight: Any) -> None:
    """Turn exp(-loss) into exp(-weight loss / 4), by which fixed shares move.

    Steps by whole losses are right where one expert has the labels' true probabilities. Where none
    has, or losses of neighbouring events go together, they follow noise (Grunwald 2012), and late
    labels make it worse. Shorter ones cost a regret that many times as large.
    """
    for e in range(len(likely)):
        likely[e] = math.sqrt(math.sqrt(likely[e]))
    if weight < 1.0:
        for e in range(len(likely)):
            likely[e] **= weight


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
def share(weights: Any, scores: Any, active: Any, room: Any, out: Any) -> None:
    """Write the weighted mean of predictions (experts, outputs); `active` is 0 or 1.

    `room` has a number for each expert.
    """
    total = 0.0
    for e in range(len(weights)):
        total += weights[e] * active[e]
    if len(out) == 1:
        mean, column = 0.0, scores.ravel()
        for e in range(len(weights)):
            mean += weights[e] * active[e] * column[e]
        out[0] = mean / total
        return
    for e in range(len(weights)):
        room[e] = weights[e] * active[e] / total
    combine(room[: len(weights)], scores, out)


@fast
def reweigh(weights: Any, likely: Any, active: Any, alpha: Any) -> None:
    """Fixed share: weights (summing to 1) times likelihoods, then `alpha` of them spread evenly.

    An inactive expert gets the mean likelihood, so that its weight stays (Freund et al. 1997).
    """
    n, kept, new = len(weights), 0.0, 0.0
    for e in range(n):
        kept += weights[e] * active[e]
        new += weights[e] * active[e] * likely[e]
    if new <= 0.0:
        return
    scale, even = kept / new, alpha / n
    for e in range(n):
        factor = likely[e] * scale if active[e] > 0.0 else 1.0
        weights[e] = (1.0 - alpha) * factor * weights[e] + even


@fast
def pool(task: Any, L: Any, w: Any, sums: Any, out: Any) -> None:
    """Predict by the product of experts with weights w."""
    if len(sums) == 1:
        total, column = 0.0, L.ravel()
        for e in range(len(w)):
            total += w[e] * column[e]
        sums[0] = total
    else:
        combine(w, L, sums)
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
def to_scores(task: Any, predictions: Any, out: Any) -> None:
    """Write the scores of predictions (mixers, outputs): the inverse of `normalize`."""
    number = out.dtype.type
    for e in range(len(out)):
        for k in range(out.shape[1]):
            p = predictions[e, k]
            if task == BINARY:
                p = math.log(max(p, _FAINTEST) / max(1.0 - p, _FAINTEST))
            elif task == CLASSES:
                p = math.log(max(p, _FAINTEST))
            out[e, k] = number(p)


@fast
def slopes(task: Any, L: Any, prediction: Any, y: Any, out: Any) -> None:
    """Write the gradient of the loss of a product of experts in its weights."""
    if task == CLASSES:
        label = int(y)
        for e in range(len(out)):
            total, row = -L[e, label], L[e]
            for k in range(len(prediction)):
                total += prediction[k] * row[k]
            out[e] = total
    else:
        error, column = prediction[0] - y, L.ravel()
        for e in range(len(out)):
            out[e] = error * column[e]


@fast
def newton_step(
    w: Any, P: Any, g: Any, residual: Any, forget: Any, start: Any, room: Any, weight: Any
) -> None:
    """Take the direction g into P, the inverse of the sum of ``g g'``, and step along P g.

    P does not grow past its `start`, so that weights without a direction stay where they are. An
    event of a weight below 1 is that part of one, and changes g.
    """
    if weight < 1.0:
        root, forget = math.sqrt(weight), forget**weight
        residual *= root
        for e in range(len(g)):
            g[e] *= root
    n = len(w)
    combine(g, P, room[:n])  # P is symmetric: sums of its rows fill vectors
    total, trace = 0.0, 0.0
    for e in range(n):
        total += room[e] * g[e]
        trace += P[e, e]
    if not total >= 0.0:  # rounding has made P useless: begin anew
        total, trace = 0.0, n * start
        for e in range(n):
            for j in range(n):
                P[e, j] = start if e == j else 0.0
            room[e] = start * g[e]
            total += room[e] * g[e]
    scale = 1.0 / forget if trace < n * start else 1.0
    root = 1.0 / math.sqrt(forget + total)
    for e in range(n):
        room[e] *= root
    shrink(P, room[:n], scale)  # by products of two numbers, so that it stays symmetric
    step = residual * forget * root * scale
    for e in range(n):
        w[e] -= step * room[e]


@fast
def gradient_step(w: Any, g: Any, residual: Any, rate: Any, normalized: Any) -> None:
    """Step along the gradient; of numbers, normalised by the squares of the scores."""
    step = rate * residual
    if normalized:
        norm = 1e-3
        for e in range(len(w)):
            norm += g[e] * g[e]
        step /= norm
    for e in range(len(w)):
        w[e] -= step * g[e]
