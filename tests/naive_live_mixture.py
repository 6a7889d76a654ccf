"""The oracle of the live mixture: what `streamk.backends.live_mixture` describes, plainly.

Nothing here imports streamk. Experts are what is given, linear models by normalized least mean
squares, and running means of the labels. Mixers are a fixed share of the experts (Herbster and
Warmuth 1998) and, at several rates, a product of experts for classes or a sum for numbers. A fixed
share of the mixers is what is predicted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Numbers = np.ndarray[Any, Any]

PACES = (0.3, 0.03, 0.003)
EXPONENT_RATES = (0.02, 0.005)
CHANGE = 1e-3
SHARE_RATE = 0.5
LEAST = 1e-4


def softmax(scores: Numbers) -> Numbers:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def share(weights: Numbers, gains: Numbers) -> Numbers:
    """Fixed share: multiply, normalize, and let every expert have a little of all."""
    moved = weights * gains
    return (1.0 - CHANGE) * moved / max(moved.sum(), 1e-300) + CHANGE / len(weights)


class Classes:
    """The mixture of K classes."""

    RATES = (2.0, 0.2)

    def __init__(self, d: int, K: int) -> None:
        n = 1 + len(self.RATES) + len(PACES)
        self.linear = [np.zeros((K, d + 1)) for _ in self.RATES]
        self.means = [np.full(K, 1.0 / K) for _ in PACES]
        self.shares = np.full(n, 1.0 / n)
        self.exponents = [np.full(n, 1.0 / n) for _ in EXPONENT_RATES]
        self.mixers = np.full(1 + len(EXPONENT_RATES), 1.0 / (1 + len(EXPONENT_RATES)))

    def step(self, z: Numbers, given: Numbers, k: int | None) -> Numbers:
        """Predict an event, and learn its class k if it has one."""
        with_one = np.append(z, 1.0)
        linear = [softmax(W @ with_one) for W in self.linear]
        experts = np.maximum([given, *linear, *self.means], LEAST)
        sums = self.shares @ experts
        products = [softmax(w @ np.log(experts)) for w in self.exponents]
        mixers = np.maximum([sums / sums.sum(), *products], LEAST)
        mixed = self.mixers @ mixers
        if k is not None:
            self._learn(with_one, k, linear, experts, products, mixers)
        return mixed / mixed.sum()

    def _learn(
        self,
        z: Numbers,
        k: int,
        linear: list[Numbers],
        experts: Numbers,
        products: list[Numbers],
        mixers: Numbers,
    ) -> None:
        logs = np.log(experts)
        for w, p, rate in zip(self.exponents, products, EXPONENT_RATES, strict=True):
            slopes = logs[:, k] - logs @ p  # of the logarithm of the probability of class k
            w += rate / (1.0 + rate * slopes @ slopes) * slopes
        self.shares = share(self.shares, experts[:, k] ** SHARE_RATE)
        self.mixers = share(self.mixers, mixers[:, k] ** SHARE_RATE)
        truth = np.eye(len(experts[0]))[k]
        for W, p, rate in zip(self.linear, linear, self.RATES, strict=True):
            W += rate * np.outer(truth - p, z) / (z @ z)
        for mean, pace in zip(self.means, PACES, strict=True):
            mean += pace * (truth - mean)


class Number:
    """The mixture of numbers; all is relative to the slowest running mean."""

    RATES = (0.5, 0.05)
    LOSSES, MOST = 2.0, 8.0

    def __init__(self, d: int) -> None:
        n = 1 + len(self.RATES) + len(PACES)
        self.linear = [np.zeros(d + 1) for _ in self.RATES]
        self.means = np.zeros(len(PACES))
        self.shares = np.full(n, 1.0 / n)
        self.factors = [np.full(n, 1.0 / n) for _ in EXPONENT_RATES]
        self.mixers = np.full(1 + len(EXPONENT_RATES), 1.0 / (1 + len(EXPONENT_RATES)))
        self.learned, self.spread = 0, 0.0

    def step(self, z: Numbers, given: float, y: float | None) -> float:
        """Predict an event, and learn its number y if it has one."""
        with_one, center = np.append(z, 1.0), self.means[-1]
        linear = [w @ with_one for w in self.linear]
        away = np.array([given - center, *linear, *(self.means - center)])
        mixers = np.array([self.shares @ away, *(w @ away for w in self.factors)])
        mixed = self.mixers @ mixers
        if y is not None:
            self._learn(with_one, y, away, mixers)
        return float(center + mixed)

    def _learn(self, z: Numbers, y: float, away: Numbers, mixers: Numbers) -> None:
        self.learned += 1
        if self.learned == 1:
            self.means[:] = y
            return
        off = y - self.means[-1]
        self.spread += max(PACES[-1], 1.0 / self.learned) * (abs(off) - self.spread)
        if self.spread == 0.0:  # all labels are the same: there is no unit
            return
        for w, said, rate in zip(self.factors, mixers[1:], EXPONENT_RATES, strict=True):
            error = np.clip((off - said) / self.spread, -self.MOST, self.MOST)
            unit = np.clip(away / self.spread, -1e100, 1e100)
            w += rate * error / (1.0 + rate * unit @ unit) * unit
        self.shares = share(self.shares, self._gains(off - away))
        self.mixers = share(self.mixers, self._gains(off - mixers))
        for w, said, rate in zip(self.linear, away[1:], self.RATES, strict=False):
            bound = self.MOST * self.spread
            w += rate * np.clip(off - said, -bound, bound) * z / (z @ z)
        for place, pace in enumerate(PACES):
            self.means[place] += max(pace, 1.0 / self.learned) * (y - self.means[place])

    def _gains(self, errors: Numbers) -> Numbers:
        lost = np.minimum(self.LOSSES * np.abs(errors) / self.spread, self.MOST)
        return np.asarray(np.exp(-lost))
