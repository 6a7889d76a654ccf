"""Kernel smoothing over the last events (Nadaraya 1964, Watson 1964) at a ladder of sharpnesses.

One pass over the distances serves Gaussian kernels at bandwidths that halve, each the fourth power
of the one before, and powers of the inverse distance, each the square of the one before. The latter
have no scale: the sharpest is all but the nearest neighbour's label.

Events are the columns of the window, so that each pass goes along them and fills vectors however
few columns an event has.

Weights are summed by class in explicit vectors, of the smoothers side by side. A sum waits for the
one before it where both are of the same class, which is so more often than not, and for its way
through memory. So neighbours among the events go to sums of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import CLASSES, NUMBERS
from streamk.backends.banks import APART, SMOOTHERS, WIDTH
from streamk.backends.jit.compiling import fast
from streamk.backends.jit.lanes import load, store, where
from streamk.backends.numba_backend.experts import slot
from streamk.backends.numba_backend.experts.view import array_of
from streamk.backends.numba_backend.exponential import exponential

_z, _window_z, _window_y, _distance = map(array_of, ("z", "window_z", "window_y", "distance"))
_distances, _weights, _sums = map(array_of, ("window_distances", "window_weights", "window_sums"))

LEAST_EXPONENT = -126
"""Of 2 in the least normal number of single precision. Arithmetic on less takes a hundred times as
long, so that a window of mostly far events would take several times as long as one of near ones."""
POWERS = ((0, 1), (0, 4), (0, 16), (1, 2), (1, 4), (1, 8), (1, 16), (1, 16))
"""Kinds of numbers: powers of the first weight of an event, or of the second."""

_OF_SECOND = np.array([which for which, _ in POWERS], np.float32)
_ENDS = np.array([2.0 ** (LEAST_EXPONENT / wanted) for _, wanted in POWERS], np.float32)
"""The least number whose power is normal; a smaller one becomes 0."""
_SQUARED = np.array([[wanted >= e for _, wanted in POWERS] for e in (2, 4, 8, 16)], np.float32)
"""The numbers that are squared on the way to each exponent."""


@fast
def add(w: Any, v: Any, labels: Any, sums: Any) -> None:
    """Add the powers of the weights w and v of events to the sums (APART, classes, WIDTH)."""
    done = len(w) - len(w) % APART
    for i in range(0, done, APART):
        for part in range(APART):
            _add_event(w[i + part], v[i + part], labels[i + part], sums, part)
    for i in range(done, len(w)):
        _add_event(w[i], v[i], labels[i], sums, 0)


@fast
def _add_event(first: Any, second: Any, label: Any, sums: Any, part: Any) -> None:
    """Add the powers of two numbers that `POWERS` says, 0 where they are below normal."""
    zero, one = np.float32(0.0), np.float32(1.0)
    power = where(load(_OF_SECOND, 0, WIDTH) > zero, second, first)
    power = where(power >= load(_ENDS, 0, WIDTH), power, zero)
    for i in range(len(_SQUARED)):
        power = power * where(load(_SQUARED, i * WIDTH, WIDTH) > zero, power, one)
    place = (part * sums.shape[1] + int(label)) * WIDTH
    store(load(sums, place, WIDTH) + power, sums, place)


PRIOR = 0.3
"""Weight of the prior over labels, in units of the nearest neighbour's weight."""
_NEAR = 1e-4
"""Squared distance, in units of the median's square, below which events are the same."""
_HALF, _FOURTH = 2.0 ** (LEAST_EXPONENT / 2), 2.0 ** (LEAST_EXPONENT / 4)
"""Numbers whose second and fourth power are the least normal ones: what is below becomes 0."""


@fast
def least_of(values: Any) -> Any:
    """Return the least of some numbers of single precision that are not negative.

    As whole numbers their bits are in the same order, and fill vectors.
    """
    bits = values.view(np.int32)
    least = bits[0]
    for i in range(1, len(bits)):
        least = min(least, bits[i])
    return np.int32(least).view(np.float32)


@fast
def distances(z: Any, Z: Any, D: Any) -> None:
    """Write the squared distances of z to the first events of Z (d, N), as many as D has."""
    n, d = len(D), len(z)
    for i in range(n):
        D[i] = 0.0
    whole = d - d % 4
    for j in range(0, whole, 4):  # four columns at once spare three of four passes over D
        z0, z1, z2, z3 = z[j], z[j + 1], z[j + 2], z[j + 3]
        a, b, c, e = Z[j], Z[j + 1], Z[j + 2], Z[j + 3]
        for i in range(n):
            t0, t1, t2, t3 = z0 - a[i], z1 - b[i], z2 - c[i], z3 - e[i]
            D[i] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3)
    for j in range(whole, d):
        z0, a = z[j], Z[j]
        for i in range(n):
            t0 = z0 - a[i]
            D[i] += t0 * t0


@fast
def _measures(D: Any, median: Any) -> Any:
    """Return the least of squared distances, and what is near and how sharp weights are."""
    square = D.dtype.type(median) * D.dtype.type(median)
    return least_of(D), D.dtype.type(_NEAR) * square, D.dtype.type(-2.0) / square


@fast
def totals(D: Any, labels: Any, median: Any, sums: Any) -> None:
    """Write the sums of the weights of events at squared distances D: (experts,) in two rows.

    The first are of the weights, the second ones of the weights times labels.
    """
    least, near, sharp = _measures(D, median)
    zero, fourth, half = D.dtype.type(0.0), D.dtype.type(_FOURTH), D.dtype.type(_HALF)
    a, b, c = zero, zero, zero
    e, f, g, h = a, a, a, a
    ay, by, cy, ey, fy, gy, hy = a, a, a, a, a, a, a
    for i in range(len(D)):
        y = labels[i]
        w = exponential(sharp * (D[i] - least))
        a += w
        ay += w * y
        w = w if w > fourth else zero
        w *= w
        w *= w
        b += w
        by += w * y
        w = w if w > fourth else zero
        w *= w
        w *= w
        c += w
        cy += w * y
        v = (least + near) / (D[i] + near)
        v *= v
        e += v
        ey += v * y
        v = v if v > half else zero
        v *= v
        f += v
        fy += v * y
        v = v if v > half else zero
        v *= v
        g += v
        gy += v * y
        v = v if v > half else zero
        v *= v
        h += v
        hy += v * y
    row, own = sums[0], sums[1]
    row[0], row[1], row[2], row[3], row[4], row[5], row[6] = a, b, c, e, f, g, h
    own[0], own[1], own[2], own[3], own[4], own[5], own[6] = ay, by, cy, ey, fy, gy, hy


@fast
def by_class(D: Any, labels: Any, median: Any, W: Any, sums: Any) -> None:
    """Write the sums of weights by their labels' classes to the first of sums (APART, classes, 8).

    `W` is room for two rows of numbers: of the widest Gaussian's weights, and of ratios of
    distances. The other weights are powers of these.
    """
    least, near, sharp = _measures(D, median)
    w, v = W[0], W[1]
    for i in range(len(D)):
        w[i] = exponential(sharp * (D[i] - least))
        v[i] = (least + near) / (D[i] + near)
    flat, size = sums.ravel(), sums.shape[1] * sums.shape[2]
    for i in range(len(flat)):
        flat[i] = 0.0
    add(w[: len(D)], v[: len(D)], labels, sums)
    for part in range(1, len(sums)):
        for i in range(size):
            flat[i] += flat[part * size + i]


@fast
def logit(positive: Any, total: Any) -> Any:
    """Return the logit of the first class by weights, with a prior of half of each."""
    half = 0.5 * PRIOR
    return math.log((positive + half) / (max(total - positive, 0.0) + half))


@fast
def log_probabilities(sums: Any, out: Any) -> None:
    """Write the logarithms of the classes' shares of the weights, with an even prior."""
    even, total = PRIOR / len(sums), sums[0]
    for k in range(1, len(sums)):
        total += sums[k]
    for k in range(len(sums)):
        out[k] = math.log((sums[k] + even) / (total + PRIOR))


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs of the smoothers: log-probabilities or numbers."""
    count, task = table[slot.COUNT], table[slot.TASK]
    if count == 0:
        return
    D, labels = _distances(table)[:count], _window_y(table)
    distances(_z(table)[: table[slot.COLUMNS]], _window_z(table), D)
    median, sums = _distance(table)[0], _sums(table)
    if task == CLASSES:
        by_class(D, labels, median, _weights(table), sums)
        for e in range(SMOOTHERS):
            log_probabilities(sums[0, :, e], F[e])
        return
    totals(D, labels, median, sums[0])
    total, own = sums[0, 0], sums[0, 1]
    for e in range(SMOOTHERS):
        if task == NUMBERS:
            F[e, 0] = own[e] / (total[e] + np.float32(PRIOR))
        else:
            F[e, 0] = logit(own[e], total[e])


@fast
def learn(table: Any, y: Any) -> None:
    """Replace the oldest event of the window by this one."""
    n, row, z, Z = table[slot.WINDOW_EVENTS], table[slot.NEXT], _z(table), _window_z(table)
    for j in range(len(Z)):
        Z[j, row] = z[j]
    _window_y(table)[row] = y
    table[slot.NEXT] = (row + 1) % n
    table[slot.COUNT] = min(table[slot.COUNT] + 1, n)
