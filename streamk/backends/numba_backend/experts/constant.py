"""The constant kernel: experts that look at no column and follow the labels alone.

They smooth exponentially, at several rates. The fastest one says the last label again, which is
hard to beat where neighbouring labels resemble each other, and useless where they come late; the
slowest knows how frequent the classes are.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.banks import CONSTANT_RATES
from streamk.backends.jit.compiling import fast
from streamk.backends.numba_backend.experts import view

_PRIOR = 0.01
"""Added to what is known of each class."""


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs F (rates, outputs): logits of classes, or numbers."""
    levels = view.constant_levels(table)  # (rates, classes or 1)
    small = levels.dtype.type(_PRIOR)
    for i in range(len(levels)):
        if levels.shape[1] == 1:
            F[i, 0] = levels[i, 0]
        elif F.shape[1] == 1:
            F[i, 0] = math.log((levels[i, 1] + small) / (levels[i, 0] + small))
        else:
            for k in range(levels.shape[1]):
                F[i, k] = math.log(levels[i, k] + small)


@fast
def learn(table: Any, y: Any) -> None:
    """Follow a label, the number of a class or a number."""
    levels = view.constant_levels(table)
    for i in range(len(levels)):
        rate = levels.dtype.type(CONSTANT_RATES[i])
        for k in range(levels.shape[1]):
            target = levels.dtype.type(y)
            if levels.shape[1] > 1:
                target = levels.dtype.type(1.0 if k == int(y) else 0.0)
            levels[i, k] += rate * (target - levels[i, k])
