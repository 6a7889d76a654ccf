"""A sample of the events of a stream, the recent ones more than the old."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import SAMPLED, TAG_SAMPLE, philox

_JOIN = 0x6A6F696E
"""Makes another seed of a sample's, for the draws of joining."""
WINDOW = 16
"""Capacities of events that the sample is uniform over; older ones fade exponentially."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class Reservoir:
    """A sample of rows, in which the first rows are the sample that a smaller one would hold.

    The event numbered i (from 0) draws a place among ``n = min(i + 1, WINDOW * capacity)``. While
    the sample is not full, the row at that place moves to place i and the event takes its place;
    later the event replaces the row at that place, or is left out where the place is beyond the
    capacity (Vitter 1985, Algorithm R). What is drawn is a function of seed, i and capacity alone,
    so nothing but the number of events has to be remembered, and it is drawn ahead for many events
    at once.

    Parameters
    ----------
    d : int
        Number of columns.
    capacity : int
        Most rows.
    seed : int
        0 to 2^64 - 1.

    Examples
    --------
    >>> import numpy as np
    >>> sample = Reservoir(1, capacity=4, seed=0)
    >>> sample.plan(0, 100)
    >>> len(sample.take(np.arange(100.0)[:, None], 0)), sample.rows.shape
    (16, (4, 1))
    """

    def __init__(self, d: int, *, capacity: int, seed: int) -> None:
        self.capacity = capacity
        self.seed = seed
        self._memory: NDArray[np.float64] = np.empty((0, d))
        self._filled = 0
        self._numbers: list[int] = []
        self._places: list[int] = []
        self._at = 0

    @property
    def rows(self) -> NDArray[np.float64]:
        """The rows sampled, NaN where a value was missing."""
        return self._memory[: self._filled]

    @rows.setter
    def rows(self, rows: NDArray[np.float64]) -> None:
        self._memory, self._filled = rows, len(rows)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._memory.nbytes

    def plan(self, first: int, stop: int) -> None:
        """Draw the places of the events numbered first...stop."""
        numbers = np.arange(first, stop)
        bound = np.minimum(numbers + 1, WINDOW * self.capacity).astype(np.uint64)
        places = _words(self.seed, first, stop) * bound >> _HALF
        taken = places < self.capacity
        self._numbers, self._places = numbers[taken].tolist(), places[taken].tolist()
        self._at = 0

    def next(self) -> int | None:
        """Return the number of the next event that is planned to be taken."""
        return self._numbers[self._at] if self._at < len(self._numbers) else None

    def take(self, X: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        """Take those of the events X (n, d), numbered from `first`, that were drawn.

        Returns
        -------
        array of shape (events taken, d)
            Their values as they came.
        """
        start = self._at
        self._at = stop = bisect_left(self._numbers, first + len(X), lo=start)
        numbers = self._numbers[start:stop]
        taken = X if len(numbers) == len(X) else X[[number - first for number in numbers]]
        if not numbers:
            return taken
        bounded = np.minimum(np.maximum(taken, -SAMPLED), SAMPLED)
        for row, number, place in zip(bounded, numbers, self._places[start:stop], strict=True):
            if number < self.capacity:
                self._append(number, place)
            self._memory[place] = row
        return taken

    def join(self, other: Reservoir, share: float, number: int) -> None:
        """Take in a share of the rows of another sample of the same seed and capacity.

        Samples of one seed replace the same places at the same numbers of events, so where two
        that were one differ in a place, both have taken an event of their own since. One of the
        two is drawn, by counters of their own.

        Parameters
        ----------
        other : Reservoir
        share : float
            From 0 to 1.
        number : int
            Of the draw; another one where another sample is to be joined.
        """
        both = min(self._filled, other._filled)
        words = _words(self.seed ^ _JOIN, number, number + max(self._filled, other._filled))
        drawn = words < np.uint64(round(share * 2**32))
        mine, theirs = self.rows[:both], other.rows[:both]
        taken = drawn[:both, None]
        rows = np.where(taken, theirs, mine)
        longer = self if self._filled >= other._filled else other
        self.rows = np.concatenate([rows, longer.rows[both:]])

    def undo(self, stop: int | None) -> Callable[[], None]:
        """Return a function that undoes taking events before number `stop`, None for any."""
        before = dict(vars(self))
        places: Iterable[int] = range(self._filled)
        if stop is not None:
            end = bisect_left(self._numbers, stop, lo=self._at)
            places = [place for place in self._places[self._at : end] if place < self._filled]
        kept = np.unique(np.fromiter(places, np.intp))
        rows = self._memory[kept]

        def back() -> None:
            vars(self).update(before)
            self._memory[kept] = rows

        return back

    def _append(self, number: int, place: int) -> None:
        if number == len(self._memory):
            grown = (min(self.capacity, max(16, 2 * number)), self._memory.shape[1])
            memory = np.empty(grown)
            memory[:number] = self._memory
            self._memory = memory
        self._memory[number] = self._memory[place]
        self._filled = number + 1

    def shrink(self, capacity: int) -> None:
        """Keep the first rows, the sample that a reservoir of that capacity would hold.

        That is so up to the window of the smaller one; after it they are a fair part of the sample.
        What was planned is void.
        """
        self.capacity = capacity
        self.rows = self.rows[:capacity].copy()


def _words(seed: int, first: int, stop: int) -> NDArray[Any]:
    """Return 32 random bits of each event number, in uint64."""
    groups = np.arange(first // 4, -(-stop // 4), dtype=np.uint64)
    counter = np.zeros((len(groups), 4), np.uint64)
    counter[:, 0], counter[:, 1], counter[:, 2] = groups & _LOW, TAG_SAMPLE, groups >> _HALF
    return philox(counter, seed).reshape(-1)[first % 4 :][: stop - first]
