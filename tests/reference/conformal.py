"""Adaptive conformal inference as plainly as its papers state it, with all scores kept."""

from __future__ import annotations

import math
from typing import Any


class NaiveQuantile:
    """Gibbs and Candès 2021, equation 2, with the steps, the window and the bound of streamk."""

    def __init__(self, level: float) -> None:
        self.alpha = 1.0 - level
        self.alpha_t = self.alpha
        self.blind: list[float] = []
        self.scores: list[float] = []

    def window(self) -> list[float]:
        early = self.blind if len(self.scores) < 10 else []
        return sorted((early + self.scores)[-1000:])

    def threshold(self) -> float:
        scores = self.window()
        if not scores:
            return math.inf
        if self.alpha_t < 0:
            return scores[-1] * (1 - self.alpha_t / (2 * self.alpha))
        rank = math.ceil((1 - self.alpha_t) * (len(scores) + 1))
        return scores[max(1, min(rank, len(scores))) - 1]

    def learn(self, score: float, threshold: float, delay: int) -> None:
        if math.isinf(threshold):
            if not self.scores:
                self.blind.append(score)
            return
        self.scores.append(score)
        step = min(max(0.01, 0.3 / math.sqrt(len(self.scores))), 1 / (delay + 1))
        self.alpha_t += step * (self.alpha - (score > threshold))
        scores = self.window()
        positive = sum(one > 0 for one in scores) / (len(scores) + 1)
        self.alpha_t = min(self.alpha_t, max(self.alpha, positive) + 0.1)


def naive_set(probabilities: dict[Any, float], predicted: Any, threshold: float) -> set[Any]:
    """The classes whose probability lacks at most the threshold to 1, and the predicted one."""
    found = {label for label, p in probabilities.items() if 1.0 - p <= threshold}
    return found | {predicted}
