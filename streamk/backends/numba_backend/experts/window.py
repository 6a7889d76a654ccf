"""Kernel smoothing over the last events (Nadaraya 1964, Watson 1964) at a ladder of sharpnesses.

One pass over the distances serves Gaussian kernels at bandwidths that halve, each the fourth power
of the one before, and powers of the inverse distance, each the square of the one before. The latter
have no scale: the sharpest is all but the nearest neighbour's label.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast

GAUSSIANS, POWERS = 3, 4
PRIOR = 0.3
"""Weight of an event without a label's opinion, in units of the nearest neighbour's weight."""
_NEAR = 1e-4
"""Squared distance, in units of the median's square, below which events are the same."""


@fast
def distances(z: Any, Z: Any, count: Any, D: Any) -> Any:
    """Write the squared distances of z to the first rows of Z; return the least."""
    least = D.dtype.type(3e38)
    for i in range(count):
        row = Z[i]
        total = D.dtype.type(0.0)
        for j in range(Z.shape[1]):
            t = z[j] - row[j]
            total += t * t
        D[i] = total
        least = min(least, total)
    return least


@fast
def smooth(D: Any, least: Any, count: Any, median: Any, labels: Any, sums: Any) -> None:
    """Add up ``sums[expert, output]`` and, last, the weights; labels are class numbers or values.

    With a single output labels are numbers, which are summed; else each class has its sum.
    """
    number = D.dtype.type
    near = number(_NEAR) * number(median) * number(median)
    sharp = number(-2.0) / (number(median) * number(median))
    outputs = sums.shape[1] - 1
    for e in range(GAUSSIANS + POWERS):
        for k in range(outputs + 1):
            sums[e, k] = 0.0
    for i in range(count):
        y = labels[i]
        k = int(y) if outputs > 1 else 0
        value = number(1.0) if outputs > 1 else number(y)
        w = number(math.exp(sharp * (D[i] - least)))
        for e in range(GAUSSIANS):
            sums[e, k] += w * value
            sums[e, outputs] += w
            w *= w
            w *= w
        w = (least + near) / (D[i] + near)
        for e in range(GAUSSIANS, GAUSSIANS + POWERS):
            w *= w
            sums[e, k] += w * value
            sums[e, outputs] += w
