"""Rules that set the threshold of scores: streamk's, and those of the literature beside it.

ACI      Gibbs and Candès 2021: the level of a quantile of the last 1,000 scores moves by 0.005
DtACI    Gibbs and Candès 2024: eight such steps, 0.001 to 0.128, mixed by their pinball losses
decaying Angelopoulos, Barber and Bates 2024: the threshold itself moves, by steps of n^-0.6 times
         the mean score
fixed    the quantile of the last 1,000 scores

All get the same scores and the same delays.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from streamk.conformal import AdaptiveQuantile

LEVEL = 0.9
_WINDOW = 1000


class Rule(Protocol):
    """Gives thresholds, and learns scores that were given one."""

    def threshold(self) -> Any:
        """Return the threshold of the next score, first of what `learn` wants back."""
        ...

    def learn(self, score: float, given: Any, delay: int) -> None:
        """Learn a score that has come after `delay` others."""
        ...


class _Window:
    def __init__(self) -> None:
        self._scores: deque[float] = deque()
        self.sorted: list[float] = []

    def add(self, score: float) -> None:
        self._scores.append(score)
        insort(self.sorted, score)
        if len(self._scores) > _WINDOW:
            del self.sorted[bisect_left(self.sorted, self._scores.popleft())]

    def quantile(self, level: float) -> float:
        n = len(self.sorted)
        if not n:
            return math.inf
        return self.sorted[min(max(math.ceil(level * (n + 1)), 1), n) - 1]


class Aci:
    """Adaptive conformal inference of one step."""

    def __init__(self, step: float) -> None:
        self._window, self._step, self._alpha = _Window(), step, 1 - LEVEL

    def threshold(self) -> float:
        return self._window.quantile(1 - self._alpha)

    def learn(self, score: float, given: float, delay: int) -> None:
        del delay
        self._alpha += self._step * (1 - LEVEL - (score > given))
        self._window.add(score)


class DtAci:
    """Dynamically tuned adaptive conformal inference, of the paper's steps and interval of 500."""

    STEPS = np.array([0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128])

    def __init__(self) -> None:
        alpha, k, interval = 1 - LEVEL, len(self.STEPS), 500
        self._window, self._alphas = _Window(), np.full(k, alpha)
        self._weights = np.full(k, 1 / k)
        spread = (1 - alpha) ** 2 * alpha**3 + alpha**2 * (1 - alpha) ** 3
        self._eta = math.sqrt(3 / interval * (math.log(k * interval) + 2) / spread)
        self._share = 1 / (2 * interval)

    def threshold(self) -> tuple[float, Any]:
        alpha = float(self._weights @ self._alphas)
        return self._window.quantile(1 - alpha), self._alphas.copy()

    def learn(self, score: float, given: tuple[float, Any], delay: int) -> None:
        del delay
        alpha, alphas, scores = 1 - LEVEL, given[1], self._window.sorted
        beta = (len(scores) - bisect_left(scores, score)) / (len(scores) + 1)
        losses = alpha * (beta - alphas) - np.minimum(0, beta - alphas)
        weights = self._weights * np.exp(-self._eta * losses)
        self._weights = (1 - self._share) * weights / weights.sum() + self._share / len(weights)
        self._alphas = self._alphas + self.STEPS * (alpha - (alphas > beta))
        self._window.add(score)


class Decaying:
    """The threshold follows by decaying steps."""

    def __init__(self) -> None:
        self._threshold, self._n, self._mean = math.inf, 0, 0.0

    def threshold(self) -> float:
        return self._threshold

    def learn(self, score: float, given: float, delay: int) -> None:
        del delay
        self._n += 1
        self._mean += (score - self._mean) / self._n
        if math.isinf(self._threshold):
            self._threshold = score
        elif math.isfinite(given):
            self._threshold += self._mean * self._n**-0.6 * ((score > given) - (1 - LEVEL))


class Fixed(Aci):
    """The plain quantile of the last scores."""

    def __init__(self) -> None:
        super().__init__(0.0)


OURS = "streamk"
RULES: dict[str, Callable[[], Rule]] = {
    OURS: lambda: AdaptiveQuantile(LEVEL),
    "ACI": lambda: Aci(0.005),
    "DtACI": DtAci,
    "decaying": Decaying,
    "fixed": Fixed,
}


def thresholds(rule: Rule, scores: list[float], delay: int) -> np.ndarray:
    """Return the threshold that a rule gives each score, of which it learns after the `delay`-th.

    Parameters
    ----------
    rule : Rule
    scores : list of n float
        NaN where there is none to be learned.
    delay : int
        0: each is learned before the next threshold is given.

    Returns
    -------
    float64 array of shape (n,)
    """
    given: list[Any] = []
    for t in range(len(scores)):
        if t >= delay > 0:
            _learn(rule, scores[t - delay], given[t - delay], delay - 1)
        given.append(rule.threshold())
        if not delay:
            _learn(rule, scores[t], given[t], 0)
    return np.array([one[0] if isinstance(one, tuple) else one for one in given])


def _learn(rule: Rule, score: float, given: Any, delay: int) -> None:
    if score == score:
        rule.learn(score, given, delay)
