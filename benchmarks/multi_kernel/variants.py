"""The learner less one of its parts.

It has no options for this. Constants are patched for as long as a variant runs, and banks are kept
silent by a subclass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

from numpy.typing import ArrayLike

from benchmarks.multi_kernel.direct import LATE, Make
from streamk.learners import MultiKernel
from streamk.learners.multi_kernel import expert_pool, upkeep
from streamk.learners.multi_kernel.tables import BANKS, LEVEL

_NEVER = 1e-300
"""Rate of fixed shares that never come back to an expert. With 0 itself, weights of 0 are divided
by each other when those who have all of it fall asleep."""

Patch = tuple[Any, str, object]


@dataclass(frozen=True)
class Variant:
    """What is made, with which constants, and how late its labels come."""

    name: str
    about: str
    make: Make = MultiKernel
    patches: tuple[Patch, ...] = ()
    delay: int = 0

    @contextmanager
    def constants(self) -> Iterator[None]:
        """Patch them; models have to be made and run inside, and all is as before afterwards."""
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.enter_context(mock.patch.object(owner, name, value))
            yield


class Without(MultiKernel):
    """A learner, of one event at a time, in which experts of one kind say nothing.

    A bank sleeps for good. The constant kernel's experts never sleep, so they forget every label:
    they give all classes the same probability, and as a number the centre of the labels' scale.
    """

    def __init__(self, bank: str, **options: Any) -> None:
        self._silent = bank
        super().__init__(**options)

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn; what that has woken or told a label is silent again."""
        super().learn_one(x, y)
        self._silence()

    def _take(self, pool: expert_pool.ExpertPool) -> None:
        super()._take(pool)
        self._silence()

    def _silence(self) -> None:
        arrays = self._mixture.pool.arrays
        if self._silent == LEVEL:
            classes = arrays["LEVEL"].shape[1]
            arrays["LEVEL"][:] = 1.0 / classes if classes > 1 else 0.0
        else:
            arrays["ACTIVE"][BANKS.index(self._silent)] = False


ALL = Variant("all", "as it is")
ALL_LATE = Variant("all, late", f"as it is, labels {LATE} events late", delay=LATE)
LESS = (
    Variant(
        "no restarts",
        "no alarm after drift: upkeep.ALARM is infinite",
        patches=((upkeep, "ALARM", math.inf),),
    ),
    Variant(
        "no sleeping",
        "no bank is ever old enough to sleep: upkeep.TRIAL is infinite",
        patches=((upkeep, "TRIAL", math.inf),),
    ),
    Variant(
        "no forgetting",
        f"rates of all fixed shares over experts and mixers: expert_pool.ALPHAS is {_NEVER}",
        patches=((expert_pool, "ALPHAS", (_NEVER,) * len(expert_pool.ALPHAS)),),
    ),
    *(
        Variant(f"no {bank}", "experts of this kind say nothing", partial(Without, bank))
        for bank in (*BANKS, LEVEL)
    ),
)
LESS_LATE = (
    Variant(
        "judged at the label",
        f"labels {LATE} events late, opinions are those of then: pending_bytes=0",
        partial(MultiKernel, pending_bytes=0),
        delay=LATE,
    ),
)
AGAINST = ((ALL, LESS), (ALL_LATE, LESS_LATE))
"""Variants by what they are compared with."""
