"""Kernel smoothing over the last events (Nadaraya 1964, Watson 1964) at a ladder of sharpnesses.

One pass over the distances serves Gaussian kernels at bandwidths that halve, each the fourth power
of the one before, and powers of the inverse distance, each the square of the one before. The latter
have no scale: the sharpest is all but the nearest neighbour's label.

Events are the columns of the window, so that each pass goes along them and fills vectors however
few columns an event has.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.numba_backend.experts.compiled import exponential, fast, ordered

GAUSSIANS, POWERS = 3, 4
PRIOR = 0.3
"""Weight of an event without a label's opinion, in units of the nearest neighbour's weight."""
_NEAR = 1e-4
"""Squared distance, in units of the median's square, below which events are the same."""


@ordered
def least_of(values: Any) -> Any:
    """Return the least of some numbers."""
    least = values.dtype.type(3e38)
    for i in range(len(values)):
        least = min(least, values[i])
    return least


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
def weigh(D: Any, median: Any, W: Any) -> None:
    """Write the weights (experts, N) of events at squared distances D."""
    number = D.dtype.type
    least = least_of(D)
    near = number(_NEAR) * number(median) * number(median)
    sharp = number(-2.0) / (number(median) * number(median))
    a, b, c, e, f, g, h = W[0], W[1], W[2], W[3], W[4], W[5], W[6]
    for i in range(len(D)):
        w = exponential(sharp * (D[i] - least))
        a[i] = w
        w *= w
        w *= w
        b[i] = w
        w *= w
        w *= w
        c[i] = w
        v = (least + near) / (D[i] + near)
        v *= v
        e[i] = v
        v *= v
        f[i] = v
        v *= v
        g[i] = v
        v *= v
        h[i] = v


@fast
def total_of(w: Any, n: Any) -> Any:
    """Return the sum of the first n weights."""
    total = w[0]
    for i in range(1, n):
        total += w[i]
    return total


@fast
def total_by(w: Any, labels: Any, n: Any) -> Any:
    """Return the sum of the first n weights, each times its label."""
    total = w[0] * labels[0]
    for i in range(1, n):
        total += w[i] * labels[i]
    return total


@fast
def by_class(W: Any, labels: Any, n: Any, sums: Any) -> None:
    """Write the sums (classes, experts) of the first n weights by their labels' classes."""
    for k in range(len(sums)):
        for e in range(GAUSSIANS + POWERS):
            sums[k, e] = 0.0
    for i in range(n):
        row = sums[int(labels[i])]
        for e in range(GAUSSIANS + POWERS):
            row[e] += W[e, i]


@fast
def logit(positive: Any, total: Any) -> Any:
    """Return the logit of the first class by weights, with a prior of half of each."""
    half = 0.5 * PRIOR
    return math.log((positive + half) / (max(total - positive, 0.0) + half))


@fast
def log_probabilities(sums: Any, total: Any, out: Any) -> None:
    """Write the logarithms of the classes' shares of the weights, with an even prior."""
    even = PRIOR / len(sums)
    for k in range(len(sums)):
        out[k] = math.log((sums[k] + even) / (total + PRIOR))
