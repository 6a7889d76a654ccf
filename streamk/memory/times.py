"""The labels that are known by now, by their times, as columns of the event to come.

These are the time since the label known last, and labels of a season of time ago.

No order of times is assumed: labels stand by their times, each as far back as it says. So a time
far in the future, of a broken clock, is never one of a season ago, and changes nothing else.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.memory.seasons import SEASONS, find_spans

Floats = NDArray[np.float64]

COLUMNS = (
    "since",
    *(f"span {n + 1}" for n in range(SEASONS)),
    *(f"change of span {n + 1}" for n in range(SEASONS)),
)
"""The columns of an event, in their order."""


class LabelTimes:
    """The last labels of a stream in the order of their times.

    Parameters
    ----------
    kept : int
        Labels that are kept.

    Attributes
    ----------
    spans : tuple of float
        Seasons in use, in seconds, the stronger one first.

    Examples
    --------
    >>> labels = LabelTimes(8)
    >>> labels.add(0.0, 5.0)
    >>> labels.now(90.0, 3.0)
    [90.0, nan, nan, nan, nan]
    """

    def __init__(self, kept: int) -> None:
        self.spans: tuple[float, ...] = ()
        self._kept, self._number = kept, 0
        self._arrived: deque[tuple[float, int, float]] = deque()
        """Time, number and label, the oldest label first."""
        self._by_time: list[tuple[float, int, float]] = []
        """Those of them that have a time, by it; of the same time the one known last is last."""

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return 144 * len(self._arrived)

    @property
    def times(self) -> Floats:
        """Times of the kept labels, the oldest first, NaN where unknown."""
        return np.array([time for time, *_ in self._arrived], np.float64)

    def add(self, time: float, label: float) -> None:
        """Take in a label of an event of this time, NaN where it has none."""
        self._number += 1
        one = time, self._number, label
        self._arrived.append(one)
        if not math.isnan(time):
            insort(self._by_time, one)
        if len(self._arrived) > self._kept:
            oldest = self._arrived.popleft()
            if not math.isnan(oldest[0]):
                del self._by_time[bisect_left(self._by_time, oldest)]

    def now(self, time: float, level: float) -> list[float]:
        """Return the columns of an event of this time, NaN unknown.

        The label of a season ago is the last one whose time is at or before that, as many seasons
        ago as it takes to be known.
        """
        since = time - self._arrived[-1][0] if self._arrived else math.nan
        since = max(min(since, LARGEST), -LARGEST)  # NaN stays
        seasonal, changes = [math.nan] * SEASONS, [math.nan] * SEASONS
        for place, span in enumerate(() if math.isnan(since) else self.spans):
            then = time - span * max(1, math.ceil(since / span))
            at = bisect_right(self._by_time, (then, math.inf)) - 1
            if at >= 0:
                seasonal[place] = self._by_time[at][2] - level
            if at >= 1:
                changes[place] = self._by_time[at][2] - self._by_time[at - 1][2]
        return [since, *seasonal, *changes]

    def follow(self, time: float, label: float, level: float) -> list[float]:
        """Return the columns of an event of this time, and take in its label."""
        found = self.now(time, level)
        self.add(time, label)
        return found

    def look(self) -> None:
        """Look for seasons."""
        times, _, labels = np.array(self._by_time).reshape(-1, 3).T
        self.spans = find_spans(times, labels, self.spans)
