"""Intervals and sets that hold a share of the labels to come, whatever the model and the drift.

Conformal prediction needs no more of a model than its predictions: a score tells how badly a label
fits what was predicted, and a region holds all labels whose score is below a threshold. Where
events are exchangeable a quantile of past scores is that threshold (Vovk et al. 2005). Streams
drift; `AdaptiveQuantile` therefore moves the level of the quantile by what the regions have missed,
as adaptive conformal inference does (Gibbs and Candès 2021).
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, StateError, shown
from streamk.learners.common.prequential import Prequential

__all__ = ["AdaptiveIntervals", "AdaptiveQuantile", "AdaptiveSets", "Regions", "Said"]


Entries = list[dict[str, Any]]
"""Regions as they are written, by their name."""

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
        """Learn a score, and raise InvalidInput if it is not finite and at least 0.

        Parameters
        ----------
        score : float
        threshold : float
            What `threshold` gave for it. Where that is infinite or NaN the score is of a prediction
            made before any label, which counts only until there are ten others.
        delay : int, default 0
            Thresholds that were given between that and now.
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
        counts = {"level": self.level, "missed": self._missed, "n": self._n, "blind": self._blind}
        return {**counts, "scores": list(self._scores)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], level: float | None = None) -> AdaptiveQuantile:
        """Go on where `to_json` was called, bit for bit; at another level with the scores alone.

        Raises `StateError` if the data is not its own, `InvalidInput` if the level is out of its
        domain.
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


Floats = NDArray[np.float64]


class Said(NamedTuple):
    """Predictions of n events, as a learner gives them.

    Attributes
    ----------
    predictions : array of shape (n,)
        Numbers (float64), or labels (object), None where no class was known.
    probabilities : float64 array of shape (n, classes), or None
        Of numbers None; NaN where a class was not known.
    classes : sequence of labels
        In the order of the probabilities.
    """

    predictions: NDArray[Any]
    probabilities: Floats | None = None
    classes: Sequence[Any] = ()


class Regions(ABC):
    """Regions about predictions that hold a share of the labels to come.

    Parameters
    ----------
    level : float, default 0.9
        The share, above 0 and at most 0.99.

    Raises
    ------
    InvalidInput
        If the level is out of its domain.
    """

    NAME: ClassVar[str]
    """Of a region, as it is written."""
    SIZE: ClassVar[str]
    """Name of the figure of their mean size."""
    _beyond: ClassVar[float] = math.inf
    """Score of what no region holds."""

    others: tuple[Self, ...] = ()
    """Those of further horizons, where there are several."""

    def __init__(self, level: float = 0.9) -> None:
        self._quantile = AdaptiveQuantile(level)

    @property
    def level(self) -> float:
        """The share of the labels."""
        return self._quantile.level

    def follow(self, said: Said, labels: Sequence[Any]) -> Floats:
        """Give thresholds to n events in turn, and learn the label of each before the next.

        A label is None where there is none. Returns the thresholds, float64 (n,), for `regions` and
        `measures`.
        """
        quantile, found = self._quantile, np.empty(len(said.predictions))
        for n, score in enumerate(self.scores(said, labels).tolist()):
            found[n] = threshold = quantile.threshold()
            if score == score:
                quantile.learn(score, threshold)
        return found

    def thresholds(self, n: int) -> Floats:
        """Return the thresholds of n events that are all predicted before their first label comes.

        Infinite before the first label.
        """
        return np.full(n, self._quantile.threshold())

    def learn(
        self, said: Said, labels: Sequence[Any], thresholds: Floats, delays: Sequence[int]
    ) -> None:
        """Learn labels of n events that have come later.

        Thresholds (n,) are those that `thresholds` gave, NaN where there was none, and delays (n,)
        the events that were given a threshold between each and its label.
        """
        scores = self.scores(said, labels).tolist()
        for score, threshold, delay in zip(scores, thresholds.tolist(), delays, strict=True):
            if score == score:
                self._quantile.learn(score, threshold, delay)

    def measures(self, said: Said, labels: Sequence[Any], thresholds: Floats) -> Floats:
        """Return whether each region holds its label, 0 or 1, and its size: float64 (n, 2).

        NaN where there is no label, or none had come before the region was made.
        """
        scores = self.scores(said, labels)
        held = (scores <= thresholds) & (scores < self._beyond)
        measured = np.column_stack([held, self._sizes(said, thresholds)])
        measured[np.isnan(scores) | ~np.isfinite(thresholds)] = np.nan
        return measured

    # As the engine asks: for predictions of a learner whose classes are these.

    def follow_events(
        self, found: Prequential, classes: Sequence[Any], labels: Sequence[Any], *, learns: bool
    ) -> tuple[Entries, Floats]:
        """Give regions to n events in turn, and learn the label of each before the next, if any.

        Returns the regions as they are written, and whether each held its label, and its size,
        float64 (n, 2). Where nothing is learned they stay as they are.
        """
        said = Said(*found, classes)
        thresholds = self.follow(said, labels) if learns else self.thresholds(len(labels))
        return self._entries(said, thresholds), self.measures(said, labels, thresholds)

    def give(self, found: Prequential, classes: Sequence[Any]) -> tuple[Entries, Floats]:
        """Return the regions of n events whose labels come later, and thresholds (n,).

        These are NaN before the first label.
        """
        thresholds = self.thresholds(len(found.predictions))
        entries = self._entries(Said(*found, classes), thresholds)
        return entries, np.where(np.isfinite(thresholds), thresholds, np.nan)

    def learn_later(
        self,
        found: Prequential,
        classes: Sequence[Any],
        labels: Sequence[Any],
        thresholds: Floats,
        delays: Sequence[int],
    ) -> Floats:
        """Learn n labels that came later; return whether regions held them, and sizes, (n, 2)."""
        said = Said(*found, classes)
        self.learn(said, labels, thresholds, delays)
        return self.measures(said, labels, thresholds)

    def _entries(self, said: Said, thresholds: Floats) -> Entries:
        return [{self.NAME: region} for region in self.regions(said, thresholds)]

    @abstractmethod
    def regions(self, said: Said, thresholds: Floats) -> list[list[Any] | None]:
        """Return the region of each event, as JSON data."""

    @abstractmethod
    def scores(self, said: Said, labels: Sequence[Any]) -> Floats:
        """Return a score of how badly each label fits, float64 (n,); NaN without a label."""

    @abstractmethod
    def _sizes(self, said: Said, thresholds: Floats) -> Floats:
        """Return the sizes of the regions, float64 (n,)."""

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        others = [one.to_json() for one in self.others]
        return {"region": self.NAME, **self._quantile.to_json(), "others": others}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], level: float | None = None) -> Self:
        """Go on where `to_json` was called; at another level if one is given.

        Raises as of `AdaptiveQuantile.from_json`.
        """
        if not isinstance(data, Mapping) or data.get("region") != cls.NAME:
            raise StateError(f"the checkpoint has no data of a {cls.NAME}")
        quantile = AdaptiveQuantile.from_json(data, level)
        regions = cls(quantile.level)
        regions._quantile = quantile
        regions.others = tuple(cls.from_json(one, level) for one in data.get("others", ()))
        return regions


class AdaptiveIntervals(Regions):
    """Intervals about predicted numbers: as far to both sides as past errors say.

    The score of a number is its distance from the prediction.

    Parameters
    ----------
    level : float, default 0.9
        Share of the numbers that the intervals are to hold, above 0 and at most 0.99.

    Examples
    --------
    >>> intervals = AdaptiveIntervals(0.9)
    >>> rng = np.random.default_rng(1)
    >>> said = Said(np.zeros(5000))
    >>> numbers = rng.normal(size=5000) * np.linspace(1, 3, 5000)  # they spread more and more
    >>> thresholds = intervals.follow(said, numbers)
    >>> hits, widths = intervals.measures(said, numbers, thresholds)[1:].T
    >>> print(f"{hits.mean():.3f}, {widths[:1000].mean():.1f}, {widths[-1000:].mean():.1f}")
    0.901, 4.0, 9.3
    """

    NAME, SIZE = "interval", "mean_width"

    def regions(self, said: Said, thresholds: Floats) -> list[list[Any] | None]:
        """Return the least and the largest number of each event's interval.

        None, which is without bounds, before the first label, about a prediction that is NaN or
        infinite, and where a bound would be infinite.
        """
        pairs = zip(said.predictions.tolist(), thresholds.tolist(), strict=True)
        found = [[at - far, at + far] for at, far in pairs]
        return [bounds if all(map(math.isfinite, bounds)) else None for bounds in found]

    def scores(self, said: Said, labels: Sequence[Any]) -> Floats:
        """Return the least distance whose interval holds each number, float64 (n,).

        NaN also about a prediction that is NaN or infinite: its interval holds every number.
        """
        numbers = np.array([math.nan if y is None else y for y in labels], np.float64)
        at = np.where(np.isfinite(said.predictions), said.predictions, math.nan)
        with np.errstate(over="ignore"):
            found: Floats = np.abs(at - numbers)
            # Rounded down it would leave the number outside, as about predictions past 2^53.
            is_outside = (numbers < at - found) | (at + found < numbers)
            found = np.where(is_outside, np.nextafter(found, math.inf), found)
        return np.where(np.isinf(numbers), found, np.minimum(found, sys.float_info.max))

    def _sizes(self, said: Said, thresholds: Floats) -> Floats:
        return 2.0 * np.minimum(thresholds, 0.5 * sys.float_info.max)


class AdaptiveSets(Regions):
    """Sets of the most probable classes, as few as hold the label with the probability wanted.

    The score of a class is the probability that it lacks to 1 (the least ambiguous sets of Sadinle,
    Lei and Wasserman 2019), that of the predicted class 0: a set is never empty. So sets hold more
    than the level where the predicted class alone is right more often than that.

    Parameters
    ----------
    level : float, default 0.9
        Share of the labels that the sets are to hold, above 0 and at most 0.99.

    References
    ----------
    Sadinle, Lei and Wasserman 2019, Least ambiguous set-valued classifiers with bounded error
    levels, JASA.

    Examples
    --------
    >>> sets = AdaptiveSets(0.9)
    >>> P = np.array([[0.6, 0.3, 0.1]] * 2000)
    >>> said = Said(np.full(2000, "a", object), P, ("a", "b", "c"))
    >>> labels = (["a"] * 6 + ["b"] * 3 + ["c"]) * 200
    >>> thresholds = sets.follow(said, labels)
    >>> sets.regions(said, thresholds)[0]  # nothing is known yet
    ['a', 'b', 'c']
    >>> hits, sizes = sets.measures(said, labels, thresholds).T
    >>> print(f"{hits[1:].mean():.3f}")
    0.900
    """

    NAME, SIZE = "prediction_set", "mean_set_size"
    _beyond = 2.0
    """Score of a class that was not known when the event was predicted; others have 1 at most."""

    def regions(self, said: Said, thresholds: Floats) -> list[list[Any] | None]:
        """Return the classes of each event's set, the most probable first.

        All known classes before the first label; none before the first class.
        """
        assert said.probabilities is not None
        P, classes = said.probabilities, list(said.classes)
        order = np.argsort(-P, axis=1, kind="stable")
        inside = np.take_along_axis(self._inside(said, thresholds), order, axis=1)
        rows = zip(order.tolist(), inside.tolist(), strict=True)
        return [
            [classes[k] for k, there in zip(places, row, strict=True) if there]
            for places, row in rows
        ]

    def _each(self, said: Said) -> Floats:
        """Return the scores of all classes, float64 (n, classes)."""
        assert said.probabilities is not None
        scores = 1.0 - np.clip(said.probabilities, 0.0, 1.0)  # sums may be rounded past 1
        scores[np.isnan(scores)] = self._beyond
        answers = _codes(said.predictions.tolist(), said.classes)
        told = np.flatnonzero(answers >= 0)
        scores[told, answers[told]] = 0.0
        return scores

    def _inside(self, said: Said, thresholds: Floats) -> NDArray[np.bool_]:
        scores = self._each(said)
        return (scores <= thresholds[:, None]) & (scores < self._beyond)

    def scores(self, said: Said, labels: Sequence[Any]) -> Floats:
        """Return the probability that each label lacks to 1, or 0, float64 (n,)."""
        each, truth = self._each(said), _codes(labels, said.classes)
        found = np.full(len(truth), self._beyond)
        known = np.flatnonzero(truth >= 0)
        found[known] = each[known, truth[known]]
        absent = [a is None or y is None for a, y in zip(said.predictions, labels, strict=True)]
        found[absent] = np.nan
        return found

    def _sizes(self, said: Said, thresholds: Floats) -> Floats:
        return np.asarray(self._inside(said, thresholds).sum(axis=1), np.float64)


def _codes(labels: Sequence[Any], classes: Sequence[Any]) -> NDArray[np.intp]:
    """Return the places of labels among the classes, -1 for one that is none of them."""
    place = {label: k for k, label in enumerate(classes)}
    return np.array([place.get(label, -1) for label in labels], np.intp)
