"""The constant kernel: experts that look at no column and follow the labels alone.

They smooth exponentially, at several rates. The fastest one says the last label again, which is
hard to beat where neighbouring labels resemble each other, and useless where they come late; the
slowest knows how frequent the classes are. Of classes there is a Markov chain beside them: it says
what has come where the last class known was the one that is so now, be it the same again, the next
in turn, or anything else.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.banks import CONSTANT_RATES
from streamk.backends.jit.compiling import fast
from streamk.backends.numba_backend.experts import slot, view

_PRIOR = 0.01
"""Added to what is known of each class."""
_FORGET = 0.998
"""Of how often each class came, whenever the same one was known last."""


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs F (experts, outputs): logits of classes, or numbers."""
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
    if len(F) > len(levels):
        _say_what_follows(table, known_last(table), F[len(levels)])


@fast
def known_last(table: Any) -> Any:
    """Return the class that was learned last, -1 of none."""
    last = view.constant_levels(table)[0]
    for k in range(len(last)):
        if last[k] > last.dtype.type(0.5):  # before the first label all are equal
            return k
    return -1


@fast
def _say_what_follows(table: Any, known: Any, out: Any) -> None:
    """Write the logits (outputs,) of what comes where a class is the one known last.

    How frequent the classes are counts as one event more.
    """
    chain, levels = view.constant_chain(table), view.constant_levels(table)
    usual, number = levels[len(levels) - 1], levels.dtype.type
    row = known if known < len(chain) else -1
    low = number(0.0)
    for k in range(chain.shape[1]):
        seen = chain[row, k] if row >= 0 else number(0.0)
        logit = number(math.log(seen + usual[k] + number(_PRIOR)))
        if len(out) > 1:
            out[k] = logit
        elif k == 0:
            low = logit
        else:
            out[0] = logit - low


@fast
def learn(table: Any, y: Any) -> None:
    """Follow a label, the number of a class or a number."""
    chain, known = view.constant_chain(table), table[slot.KNOWN]
    if 0 <= known < len(chain):
        for k in range(chain.shape[1]):
            chain[known, k] *= chain.dtype.type(_FORGET)
        chain[known, int(y)] += chain.dtype.type(1.0)
    levels = view.constant_levels(table)
    for i in range(len(levels)):
        rate = levels.dtype.type(CONSTANT_RATES[i])
        for k in range(levels.shape[1]):
            target = levels.dtype.type(y)
            if levels.shape[1] > 1:
                target = levels.dtype.type(1.0 if k == int(y) else 0.0)
            levels[i, k] += rate * (target - levels[i, k])
