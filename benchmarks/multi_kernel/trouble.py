"""Two classes of a concept that moves, and now and then a stretch of events that is spoilt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = 8
NOISE = 0.05
"""Part of the labels that is wrong."""
TURN = 1_000_000
"""Events in which the concept goes round once."""

Numbers = NDArray[np.float64]
Labels = NDArray[np.bool_]


HUGE, CONSTANT, ONE_CLASS, MISSING = TROUBLES = (
    "values of 1e30",
    "a constant column",
    "one class only",
    "half the cells missing",
)
"""In the order of their turns."""


def spoil(trouble: str, X: Numbers, y: Labels, rng: np.random.Generator) -> None:
    """Spoil events and their labels in place."""
    if trouble == HUGE:
        X[:] = np.copysign(1e30, X)
    elif trouble == CONSTANT:
        X[:, 0] = 1.0
    elif trouble == ONE_CLASS:
        X[~y, :3] *= -1.0  # the other side of the concept
        y[:] = True
    else:
        X[rng.random(X.shape) < 0.5] = np.nan


@dataclass(frozen=True)
class Plan:
    """How many events there are, and which of them are spoilt."""

    events: int
    every: int
    """From one stretch of trouble to the next."""
    length: int
    """Of a stretch."""
    around: int
    """Events before and after a stretch that are compared."""
    batch: int

    def stretches(self) -> list[tuple[int, str]]:
        """The first event of each stretch that ends early enough, and its trouble."""
        last = self.events - self.length - self.around
        starts = range(self.every, last + 1, self.every)
        return [(start, TROUBLES[k % len(TROUBLES)]) for k, start in enumerate(starts)]


FULL = Plan(5_000_000, every=100_000, length=1_000, around=5_000, batch=256)
QUICK = Plan(6_000, every=1_000, length=100, around=400, batch=256)


class Moving:
    """The events of a plan, in their order."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan, self._rng = plan, np.random.default_rng(seed)
        self._stretches = plan.stretches()
        self.position = 0

    def take(self, n: int) -> tuple[Numbers, Any]:
        """The next n events and their labels."""
        at = self.position + np.arange(n)
        X = self._rng.standard_normal((n, COLUMNS))
        angle = 2 * math.pi * at / TURN
        score = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + X[:, 2] * X[:, 3]
        y = score > 0
        wrong = self._rng.random(n) < NOISE
        clean = np.ones(n, dtype=bool)
        for start, name in self._stretches:
            rows = np.flatnonzero((at >= start) & (at < start + self._plan.length))
            if len(rows):
                events, labels = X[rows], y[rows]
                spoil(name, events, labels, self._rng)
                X[rows], y[rows], clean[rows] = events, labels, name != ONE_CLASS
        self.position += n
        return X, y ^ (wrong & clean)
