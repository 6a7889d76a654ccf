"""A mixture of one given expert and of cheap ones that follow the labels, event by event."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends.live_mixture import (
    CHANGE,
    LEAST,
    LINEAR_RATES,
    LOSSES,
    MOST,
    PACES,
    PRODUCT_RATES,
    SHARE_RATE,
)
from streamk.backends.numba_backend.compiling import compiled, parts

__all__ = ["follow_classes", "follow_numbers"]

_CLASS_RATES = np.array(LINEAR_RATES[True])
_NUMBER_RATES = np.array(LINEAR_RATES[False])
_PACES = np.array(PACES)
_PRODUCT_RATES = np.array(PRODUCT_RATES)
_TINY = 1e-300
# An event takes less time than calls that hand on so many arrays: all becomes one function.
part = parts(nogil=True, fastmath={"contract"}, inline="always")
_sum = parts(nogil=True, fastmath={"contract", "reassoc", "nsz"})
_FARTHEST = 1e100
"""In units of the labels' spread, what an expert says at most: its square is a number."""


@part
def to_probabilities(scores: Any, found: Any) -> Any:
    """Write the probabilities (K,) that scores stand for; return the scores' logarithmic sum."""
    top = scores[0]
    for c in range(1, len(scores)):
        top = max(top, scores[c])
    total = 0.0
    for c in range(len(scores)):
        found[c] = np.exp(scores[c] - top)
        total += found[c]
    for c in range(len(scores)):
        found[c] /= total
    return top + np.log(total)


@_sum
def dot(w: Any, z: Any) -> Any:
    """Return the product of the weights (d + 1,) of an output with an event (d,) and its constant.

    Its terms are added in an order that vectors allow for, the same for all events.
    """
    total = 0.0
    for j in range(len(z)):
        total += w[j] * z[j]
    return total + w[len(z)]


@part
def linear_scores(weights: Any, z: Any, scores: Any) -> None:
    """Write the scores (K,) of an event (d,) by weights (K, d + 1)."""
    for c in range(len(scores)):
        scores[c] = dot(weights[c], z)


@part
def move_linear(weights: Any, z: Any, steps: Any) -> None:
    """Move the weights (K, d + 1) along an event, by a step (K,) for each output."""
    d = len(z)
    for c in range(len(steps)):
        for j in range(d):
            weights[c, j] += steps[c] * z[j]
        weights[c, d] += steps[c]


@part
def squared_length(z: Any) -> Any:
    """Return the sum of squares of an event and its constant."""
    total = 1.0
    for j in range(len(z)):
        total += z[j] * z[j]
    return total


@part
def fixed_share(weights: Any, gains: Any) -> None:
    """Multiply weights by gains above 0, and share out a little of them evenly."""
    total = 0.0
    for e in range(len(weights)):
        weights[e] *= gains[e]
        total += weights[e]
    for e in range(len(weights)):
        weights[e] = (1.0 - CHANGE) * weights[e] / max(total, _TINY) + CHANGE / len(weights)


@part
def class_experts(mixture: Any, z: Any, given: Any, logs: Any, P: Any, linear: Any) -> None:
    """Write the probabilities (experts, K) and their logarithms, but those of the running means.

    Probabilities of the linear models (rates, K) are written as they are, too, without a least one.
    """
    rates, classes, least = mixture.linear.shape[0], logs.shape[1], np.log(LEAST)
    for r in range(rates):
        linear_scores(mixture.linear[r], z, logs[1 + r])
        shift = to_probabilities(logs[1 + r], linear[r])
        for c in range(classes):
            logs[1 + r, c] = max(logs[1 + r, c] - shift, least)
            P[1 + r, c] = max(linear[r, c], LEAST)
    shift = to_probabilities(given, P[0])
    for c in range(classes):
        logs[0, c] = max(given[c] - shift, least)
        P[0, c] = max(P[0, c], LEAST)


@part
def class_means(mixture: Any, logs: Any, P: Any) -> None:
    """Do the same of the running means, which change with labels alone."""
    first = logs.shape[0] - len(_PACES)
    for p in range(len(_PACES)):
        for c in range(logs.shape[1]):
            P[first + p, c] = max(mixture.means[p, c], LEAST)
            logs[first + p, c] = np.log(P[first + p, c])


@part
def mix_classes(mixture: Any, logs: Any, P: Any, said: Any, out: Any) -> None:
    """Write the probabilities of the mixers (mixers, K), and of their mixture (K,)."""
    experts, classes = logs.shape
    total = 0.0
    for c in range(classes):
        said[0, c] = 0.0
        for e in range(experts):
            said[0, c] += mixture.shares[e] * P[e, c]
        total += said[0, c]
    for c in range(classes):
        said[0, c] /= total
    for p in range(len(_PRODUCT_RATES)):
        for c in range(classes):
            score = 0.0
            for e in range(experts):
                score += mixture.products[p, e] * logs[e, c]
            said[1 + p, c] = score
        to_probabilities(said[1 + p], said[1 + p])
    total = 0.0
    for c in range(classes):
        out[c] = 0.0
        for m in range(said.shape[0]):
            out[c] += mixture.mixers[m] * max(said[m, c], LEAST)
        total += out[c]
    for c in range(classes):
        out[c] /= total


@part
def learn_class(
    mixture: Any, z: Any, k: Any, logs: Any, linear: Any, said: Any, slopes: Any
) -> None:
    """Learn that an event is of class k.

    Slopes are those of the probabilities without a least one: by others the weights would grow with
    each event that is predicted as it should be.
    """
    experts, classes = logs.shape
    for p in range(len(_PRODUCT_RATES)):
        squares = 0.0
        for e in range(experts):
            slopes[e] = logs[e, k]
            for c in range(classes):
                slopes[e] -= said[1 + p, c] * logs[e, c]
            squares += slopes[e] * slopes[e]
        rate = _PRODUCT_RATES[p] / (1.0 + _PRODUCT_RATES[p] * squares)
        for e in range(experts):
            mixture.products[p, e] += rate * slopes[e]
    for e in range(experts):
        slopes[e] = np.exp(SHARE_RATE * logs[e, k])
    fixed_share(mixture.shares, slopes)
    for m in range(said.shape[0]):
        said[m, k] = max(said[m, k], LEAST) ** SHARE_RATE
    fixed_share(mixture.mixers, said[:, k])
    length = squared_length(z)
    for r in range(len(_CLASS_RATES)):
        for c in range(classes):
            error = (1.0 if c == k else 0.0) - linear[r, c]
            linear[r, c] = _CLASS_RATES[r] * error / length
        move_linear(mixture.linear[r], z, linear[r])
    for p in range(len(_PACES)):
        for c in range(classes):
            mixture.means[p, c] += _PACES[p] * ((1.0 if c == k else 0.0) - mixture.means[p, c])
    mixture.seen[0] += 1.0


@compiled
def follow_classes(mixture: Any, Z: Any, given: Any, y: Any, out: Any) -> None:
    """Predict each event in turn, then learn its class where there is one."""
    logs, P = np.empty((2, len(mixture.shares), out.shape[1]))
    linear = np.empty((mixture.linear.shape[0], out.shape[1]))
    said = np.empty((len(mixture.mixers), out.shape[1]))
    slopes = np.empty(len(mixture.shares))
    class_means(mixture, logs, P)
    for i in range(len(Z)):
        class_experts(mixture, Z[i], given[i], logs, P, linear)
        mix_classes(mixture, logs, P, said, out[i])
        if y[i] >= 0:
            learn_class(mixture, Z[i], y[i], logs, linear, said, slopes)
            class_means(mixture, logs, P)


@part
def number_experts(mixture: Any, z: Any, given: Any, away: Any, room: Any) -> None:
    """Write what all experts say (experts,), less the slowest running mean."""
    rates, slowest = mixture.linear.shape[0], mixture.means[len(_PACES) - 1, 0]
    away[0] = given[0] - slowest
    for r in range(rates):
        linear_scores(mixture.linear[r], z, room)
        away[1 + r] = room[0]
    for p in range(len(_PACES)):
        away[1 + rates + p] = mixture.means[p, 0] - slowest


@part
def mix_numbers(mixture: Any, away: Any, said: Any) -> Any:
    """Write what the mixers say (mixers,), and return their mixture, all less the slowest mean."""
    experts = len(away)
    said[0] = 0.0
    for e in range(experts):
        said[0] += mixture.shares[e] * away[e]
    for p in range(len(_PRODUCT_RATES)):
        said[1 + p] = 0.0
        for e in range(experts):
            said[1 + p] += mixture.products[p, e] * away[e]
    mixed = 0.0
    for m in range(len(said)):
        mixed += mixture.mixers[m] * said[m]
    return mixed


@part
def number_gains(y: Any, spread: Any, predicted: Any, gains: Any) -> None:
    """Write by what the weight of each prediction (n,) of the number y is multiplied."""
    for e in range(len(predicted)):
        gains[e] = np.exp(-min(LOSSES * abs(y - predicted[e]) / spread, MOST))


@part
def in_spreads(number: Any, spread: Any) -> Any:
    """Return a number in units of the spread, within bounds."""
    return min(max(number / spread, -_FARTHEST), _FARTHEST)


@part
def learn_number(mixture: Any, z: Any, y: Any, away: Any, said: Any, gains: Any) -> None:
    """Learn that an event has the number y."""
    paces, seen = len(_PACES), mixture.seen
    slowest = mixture.means[paces - 1, 0]
    seen[0] += 1.0
    if seen[0] == 1.0:
        for p in range(paces):
            mixture.means[p, 0] = y
        return
    pace = max(_PACES[paces - 1], 1.0 / seen[0])
    distance = abs(y - slowest)
    # Before it is learned from, so that a first label far out is not taken for a near one.
    seen[1] += pace * (distance - seen[1])
    if seen[1] < _TINY:
        return  # the labels are all the same so far, and there is no unit
    spread, least = seen[1], -MOST * seen[1]
    for p in range(len(_PRODUCT_RATES)):
        error = min(max(y - slowest - said[1 + p], least), -least) / spread
        squares = 0.0
        for e in range(len(away)):
            squares += in_spreads(away[e], spread) ** 2
        rate = _PRODUCT_RATES[p] * error / (1.0 + _PRODUCT_RATES[p] * squares)
        for e in range(len(away)):
            mixture.products[p, e] += rate * in_spreads(away[e], spread)
    number_gains(y - slowest, spread, away, gains)
    fixed_share(mixture.shares, gains)
    number_gains(y - slowest, spread, said, gains)
    fixed_share(mixture.mixers, gains)
    length = squared_length(z)
    for r in range(len(_NUMBER_RATES)):
        error = min(max(y - slowest - away[1 + r], least), -least)
        gains[0] = _NUMBER_RATES[r] * error / length
        move_linear(mixture.linear[r], z, gains[:1])
    for p in range(paces):
        pace = max(_PACES[p], 1.0 / seen[0])
        mixture.means[p, 0] += pace * (y - mixture.means[p, 0])


@compiled
def follow_numbers(mixture: Any, Z: Any, given: Any, y: Any, out: Any) -> None:
    """Predict each event in turn, then learn its number where it is not NaN."""
    away, gains = np.empty(len(mixture.shares)), np.empty(len(mixture.shares))
    said, room = np.empty(len(mixture.mixers)), np.empty(1)
    for i in range(len(Z)):
        number_experts(mixture, Z[i], given[i], away, room)
        mixed = mix_numbers(mixture, away, said)
        out[i, 0] = mixture.means[len(_PACES) - 1, 0] + mixed
        if y[i] == y[i]:
            learn_number(mixture, Z[i], y[i], away, said, gains)
