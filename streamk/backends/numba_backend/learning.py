"""Losses' gradients, steps on coefficients, and margins of classes.

Of two classes there may be one margin f, which stands for (-f, f); else there is one for each
class. What is computed for a row is the same, bit for bit, whatever rows are computed with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import CHUNK, LANES
from streamk.backends.jit.compiling import exact, exact_part, short
from streamk.backends.threads import pieces
from streamk.losses import LossCode

_SQUARED, _HINGE = int(LossCode.SQUARED), int(LossCode.HINGE)
_SQUARED_HINGE, _LOGISTIC = int(LossCode.SQUARED_HINGE), int(LossCode.LOGISTIC)
_SOFTMAX, _HUBER = int(LossCode.SOFTMAX), int(LossCode.HUBER)
_EPSILON_INSENSITIVE = int(LossCode.EPSILON_INSENSITIVE)


@exact
def finish(acc: Any, factor: Any, F: Any) -> None:
    """Write the partial sums' sum, times the factor, into `F`."""
    for r in range(F.shape[0]):
        for k in range(F.shape[1]):
            total = 0.0
            for i in range(LANES):
                total += acc[r, k, i]
            F[r, k] = total * factor


@exact_part
def _slope(code: Any, p: Any, f: Any, y: Any) -> Any:
    """Return the derivative in f of a loss of one output measured against y."""
    r = f - y
    if code == _SQUARED:
        return r
    if code == _HINGE:
        return -y if y * f < 1.0 else 0.0
    if code == _SQUARED_HINGE:
        return -y * max(0.0, 1.0 - y * f)
    if code == _LOGISTIC:
        e = math.exp(-abs(f))
        return -y * ((1.0 if y * f <= 0 else e) / (1.0 + e))
    if code == _HUBER:
        return min(max(r, -p), p)
    if code == _EPSILON_INSENSITIVE:
        return 0.0 if abs(r) <= p else math.copysign(1.0, r)
    if r == 0.0:
        return 0.0
    return 1.0 - p if r > 0 else -p


@exact_part
def _softmax_slopes(f: Any, true: Any, weight: Any, g: Any) -> None:
    top, total = f.max(), 0.0
    for k in range(f.shape[0]):
        total += math.exp(f[k] - top)
    for k in range(f.shape[0]):
        g[k] = weight * (math.exp(f[k] - top) / total - (1.0 if k == true else 0.0))


@exact_part
def _rival(f: Any, true: Any) -> Any:
    """Return the class of the largest output but the true one's."""
    best = 1 if true == 0 else 0
    for k in range(f.shape[0]):
        if k != true and f[k] > f[best]:
            best = k
    return best


@exact_part
def _target(classes: Any, y: Any, k: Any, outputs: Any) -> Any:
    """Return the number against which output k is measured."""
    if not classes:
        return y
    positive = y == 1.0 if outputs == 1 else y == k
    return 1.0 if positive else -1.0


@exact_part
def _crammer_singer_slopes(squared: Any, f: Any, true: Any, weight: Any, g: Any) -> None:
    best = _rival(f, true)
    g[:] = 0.0
    margin = 1.0 + f[best] - f[true]
    if margin > 0.0:
        slope = weight * (margin if squared else 1.0)
        g[true], g[best] = -slope, slope


@exact
def loss_gradient(
    code: Any, parameter: Any, classes: Any, F: Any, y: Any, weight: Any, G: Any
) -> None:
    """Write the weighted (sub)gradient of each row's loss in its outputs into `G`."""
    outputs = F.shape[1]
    for r in range(F.shape[0]):
        if code == _SOFTMAX:
            _softmax_slopes(F[r], int(y[r]), weight, G[r])
        elif outputs > 1 and code in (_HINGE, _SQUARED_HINGE):
            _crammer_singer_slopes(code == _SQUARED_HINGE, F[r], int(y[r]), weight, G[r])
        else:
            for k in range(outputs):
                target = _target(classes, y[r], k, outputs)
                G[r, k] = weight * _slope(code, parameter, F[r, k], target)


@exact_part
def _value(code: Any, p: Any, f: Any, y: Any) -> Any:
    """Return a loss of one output measured against y."""
    r = f - y
    if code == _SQUARED:
        return 0.5 * r * r
    if code == _HINGE:
        return max(0.0, 1.0 - y * f)
    if code == _SQUARED_HINGE:
        return 0.5 * max(0.0, 1.0 - y * f) ** 2
    if code == _LOGISTIC:
        return max(0.0, -y * f) + math.log1p(math.exp(-abs(f)))
    if code == _HUBER:
        return 0.5 * r * r if abs(r) <= p else p * (abs(r) - 0.5 * p)
    if code == _EPSILON_INSENSITIVE:
        return max(0.0, abs(r) - p)
    return max(-p * r, (1.0 - p) * r)


@exact_part
def _row_value(code: Any, parameter: Any, classes: Any, f: Any, y: Any) -> Any:
    """Return the loss of one row of outputs."""
    outputs, total = f.shape[0], 0.0
    if code == _SOFTMAX:
        top = f.max()
        for k in range(outputs):
            total += math.exp(f[k] - top)
        return math.log(total) + top - f[int(y)]
    if outputs > 1 and code in (_HINGE, _SQUARED_HINGE):
        true = int(y)
        margin = max(0.0, 1.0 + f[_rival(f, true)] - f[true])
        return 0.5 * margin * margin if code == _SQUARED_HINGE else margin
    for k in range(outputs):
        total += _value(code, parameter, f[k], _target(classes, y, k, outputs))
    return total


@exact
def score(
    code: Any, parameter: Any, classes: Any, F: Any, y: Any, kept: Any, most: Any, losses: Any
) -> None:
    """Shrink the losses of functions by a factor and add theirs on rows of F, up to the most."""
    for k in range(F.shape[1]):
        total = 0.0
        for r in range(F.shape[0]):
            total += _row_value(code, parameter, classes, F[r, k], y[r])
        total = kept * losses[k] + total
        losses[k] = total if total < most else most  # the most also for NaN


@exact
def descend(A: Any, squares: Any, g: Any, rate: Any, start: Any, stop: Any) -> None:
    """Subtract ``rate * g`` from the features start...stop of these chunks.

    Where there are `squares`, they take in the squared gradient, and the gradient is divided by
    their root.
    """
    small, factor = A.dtype.type(1e-8), A.dtype.type(rate)
    for c in range(A.shape[0]):
        low, high = max(0, start - c * CHUNK), min(CHUNK, stop - c * CHUNK)
        for k in range(A.shape[1]):
            a, d = A[c, k], g[c, k]
            if squares.shape[0] == 0:
                for i in range(low, high):
                    a[i] -= factor * d[i]
            else:
                s = squares[c, k]
                for i in range(low, high):
                    s[i] += d[i] * d[i]
                    a[i] -= factor * (d[i] / (np.sqrt(s[i]) + small))


@exact
def decay(A: Any, factor: Any) -> None:
    """Multiply all coefficients by the factor."""
    flat, f = A.reshape(-1), A.dtype.type(factor)
    for i in range(flat.shape[0]):
        flat[i] *= f


@exact_part
def _spread(F: Any, i: Any, factor: Any, most: Any, every: Any, P: Any) -> None:
    """Write an event's margins of each class and their softmax."""
    outputs = F.shape[1]
    largest, total = -np.inf, 0.0
    for c in range(len(P)):
        f = F[i, c] if outputs > 1 else F[i, 0] if c == 1 else -F[i, 0]
        every[c] = min(max(f, -most), most)
        largest = max(largest, factor * every[c])
    for c in range(len(P)):
        P[c] = math.exp(factor * every[c] - largest)
        total += P[c]
    for c in range(len(P)):
        P[c] /= total


@short
def _probabilities_of(F: Any, factor: Any, most: Any, P: Any) -> None:
    every = np.empty(P.shape[1])
    for i in range(P.shape[0]):
        _spread(F, i, factor, most, every, P[i])


def probabilities(F: Any, factor: float, most: float, P: Any) -> None:
    """Write ``softmax(factor f)`` of margins (n, outputs) within `most` into P (n, classes)."""
    for some in pieces(P):
        _probabilities_of(F[some], factor, most, P[some])


@short
def _add_slopes(F: Any, classes: Any, factor: Any, most: Any, sums: Any) -> None:
    count = max(2, F.shape[1])
    every, P = np.empty(count), np.empty(count)
    for i in range(F.shape[0]):
        _spread(F, i, factor, most, every, P)
        mean, curvature, true = 0.0, 0.0, int(classes[i])
        if not 0 <= true < count:
            raise IndexError("a class without a margin")
        for c in range(count):
            mean += P[c] * every[c]
        for c in range(count):
            curvature += P[c] * (every[c] - mean) ** 2
        sums[0] += mean - every[true]
        sums[1] += curvature


def slopes(F: Any, classes: Any, factor: float, most: float, sums: Any) -> None:
    """Add slope and curvature of the log loss, by the factor, to the sums (2,).

    Event by event; margins (n, outputs) within `most`, classes (n,).
    """
    for some in pieces(F):
        _add_slopes(F[some], classes[some], factor, most, sums)


@short
def _missed_by(
    F: Any, y: Any, classes: Any, furthest: Any, most: Any, total: Any, factor: Any, far: Any,
    sums: Any,
) -> Any:  # fmt: skip
    outputs = F.shape[1]
    if classes:
        _add_slopes(F, y, factor, far, sums)
    for i in range(F.shape[0]):
        error = 0.0
        for o in range(outputs):
            if classes:
                true = y[i] == (o if outputs > 1 else 1)
                one = min(abs(F[i, o] - (1.0 if true else -1.0)), furthest)
                error += one * one
            else:
                error += abs(F[i, o] - y[i])
        total += min(error, most)
    return total


def missed(
    F: Any, y: Any, classes: bool, furthest: float, most: float, total: float,
    factor: float, far: float, sums: Any,
) -> float:  # fmt: skip
    """Return the total with the errors of outputs (n, outputs) added, event by event.

    Of classes, whose targets are 1 and -1, an event's is the sum of squares of its margins'
    errors up to `furthest`, of numbers that of absolute errors; up to `most`. Of classes it does
    `slopes`, too, for a calibration's factor, bound and sums.
    """
    for some in pieces(F):
        known = classes, furthest, most, total, factor, far, sums
        total = _missed_by(F[some], y[some], *known)
    return total
