"""The constant kernel: experts that look at no column and follow the labels alone.

They smooth exponentially, at several rates. The fastest one says the last label again, which is
hard to beat where neighbouring labels resemble each other, and useless where they come late; the
slowest knows how frequent the classes are.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.banks import LEVEL_RATES
from streamk.backends.jit.compiling import fast
from streamk.backends.numba_backend.experts.view import array_of

_level = array_of("level")
_PRIOR = 0.01
"""Added to what is known of each class."""


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the scores F (rates, outputs): logits of classes, or numbers."""
    level = _level(table)  # (rates, classes or 1)
    small = level.dtype.type(_PRIOR)
    for i in range(len(level)):
        if level.shape[1] == 1:
            F[i, 0] = level[i, 0]
        elif F.shape[1] == 1:
            F[i, 0] = math.log((level[i, 1] + small) / (level[i, 0] + small))
        else:
            for k in range(level.shape[1]):
                F[i, k] = math.log(level[i, k] + small)


@fast
def learn(table: Any, y: Any) -> None:
    """Follow a label, the number of a class or a number."""
    level = _level(table)
    for i in range(len(level)):
        rate = level.dtype.type(LEVEL_RATES[i])
        for k in range(level.shape[1]):
            target = level.dtype.type(y)
            if level.shape[1] > 1:
                target = level.dtype.type(1.0 if k == int(y) else 0.0)
            level[i, k] += rate * (target - level[i, k])
