"""The threshold that a share of the scores to come stays below, through drift and delay."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Mapping
from typing import Any

from streamk.errors import InvalidInput, StateError, shown

__all__ = ["AdaptiveQuantile"]

_WINDOW = 1000
"""Scores that are kept."""
_STEP, _FIRST = 0.01, 0.3
"""Least step of the level, and the first one, which decays with the root of the scores."""
_ENOUGH = 10
"""Scores of regions that replace all those before there was one, when nothing was known."""
_MARGIN = 0.1
"""Reach of the level beyond the one from which on the threshold is 0: credit for events that
are easier than they need be. Without a bound a long easy stretch would be paid back, after a
drift, by thousands of regions that are too small."""


class AdaptiveQuantile:
    """A threshold that a share of the scores to come does not exceed.

    It is the quantile of the last 1,000 scores at a level that follows what was missed: each score
    beyond its threshold raises the level by a step times `level`, each other one lowers it by a
    step times 1 - `level` (adaptive conformal inference, Gibbs and Candès 2021, equation 2). So the
    share of scores beyond comes to 1 - `level` for any sequence in which the level stays bounded,
    also one that drifts: after T scores it is larger by less than the range of the level over T
    times the step (their proposition 4.1, whose infinite thresholds are finite here, a multiple of
    the largest score). Steps decay with the root of the number of scores (Angelopoulos, Barber and
    Bates 2024, "Online conformal prediction with decaying step sizes") down to 0.01, so that it
    starts fast and never ceases to follow. A score that comes d scores late moves the level by
    1 / (d + 1) at most: what has been said meanwhile does not know of it, and larger steps would
    swing.

    Parameters
    ----------
    level : float
        Share of the scores, above 0 and at most 0.99.

    Attributes
    ----------
    level : float

    Raises
    ------
    InvalidInput
        If the level is out of its domain.

    References
    ----------
    Gibbs and Candès 2021, Adaptive conformal inference under distribution shift, NeurIPS.
    Angelopoulos, Barber and Bates 2024, Online conformal prediction with decaying step sizes, ICML.

    Examples
    --------
    >>> quantile = AdaptiveQuantile(0.5)
    >>> quantile.threshold()
    inf
    >>> beyond = 0
    >>> for score in [3.0, 1.0, 2.0, 4.0] * 500:
    ...     threshold = quantile.threshold()
    ...     beyond += score > threshold
    ...     quantile.learn(score, threshold)
    >>> beyond
    999
    """

    def __init__(self, level: float) -> None:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level <= 0.99:
            raise InvalidInput(f"level={shown(level)} must lie between 0 and 0.99")
        self.level = float(level)
        self._missed = 1.0 - self.level
        """Share of the past scores that the threshold leaves beyond itself."""
        self._n = 0
        """Scores of regions."""
        self._blind = 0
        """Scores before there was a region, which come first in the window."""
        self._scores: deque[float] = deque()
        self._sorted: list[float] = []

    def threshold(self) -> float:
        """Return the threshold of the next score; infinite before the first score."""
        n = len(self._sorted)
        if not n:
            return math.inf
        if self._missed < 0.0:
            # Nothing that was met is large enough. An infinite one is that of before any score.
            larger = 1.0 - self._missed / (2.0 * (1.0 - self.level))
            return min(self._sorted[-1] * larger, sys.float_info.max)
        rank = math.ceil((1.0 - self._missed) * (n + 1))
        return self._sorted[min(max(rank, 1), n) - 1]

    def learn(self, score: float, threshold: float, delay: int = 0) -> None:
        """Learn a score.

        Parameters
        ----------
        score : float
            At least 0, and finite.
        threshold : float
            What `threshold` gave for it. Where that is infinite or NaN the score is of a prediction
            made before any label, which counts only until there are ten others.
        delay : int, default 0
            Thresholds that were given between that and now.

        Raises
        ------
        InvalidInput
            If the score is out of its domain.
        """
        if not 0.0 <= score < math.inf:
            raise InvalidInput(f"score={shown(score)} must be a finite number, at least 0")
        if math.isfinite(threshold):
            self._n += 1
            step = min(max(_STEP, _FIRST / math.sqrt(self._n)), 1.0 / (delay + 1))
            self._missed += step * ((1.0 - self.level) - (1.0 if score > threshold else 0.0))
        elif self._n:
            return
        else:
            self._blind += 1
        while len(self._scores) >= _WINDOW or (self._blind and self._n >= _ENOUGH):
            del self._sorted[bisect_left(self._sorted, self._scores.popleft())]
            self._blind = max(self._blind - 1, 0)
        self._scores.append(score)
        insort(self._sorted, score)
        n = len(self._sorted)
        above = (n - bisect_right(self._sorted, 0.0)) / (n + 1)
        self._missed = min(self._missed, max(1.0 - self.level, above) + _MARGIN)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            "level": self.level,
            "missed": self._missed,
            "n": self._n,
            "blind": self._blind,
            "scores": list(self._scores),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], level: float | None = None) -> AdaptiveQuantile:
        """Go on where `to_json` was called, bit for bit; at another level with the scores alone.

        Raises
        ------
        StateError
            If the data is not its own.
        InvalidInput
            If `level` is out of its domain.
        """
        try:
            quantile = cls(data["level"] if level is None else level)
            scores = [float(score) for score in data["scores"]]
            missed, n, blind = float(data["missed"]), int(data["n"]), int(data["blind"])
            same = data["level"] == quantile.level
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"a quantile cannot be read: {error!r}") from error
        fits = 0 <= blind <= len(scores) <= min(n + blind, _WINDOW)
        fits = fits and math.isfinite(missed) and missed <= 1.0 + _MARGIN
        if not fits or not all(0.0 <= score < math.inf for score in scores):
            raise StateError("a quantile cannot be read: its numbers are out of their domain")
        quantile._scores, quantile._sorted, quantile._n = deque(scores), sorted(scores), n
        quantile._blind = blind
        if same:
            quantile._missed = missed
        return quantile
