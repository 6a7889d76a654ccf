"""The clock of a partition, one record after the other, as its rule is written."""

from __future__ import annotations

from itertools import pairwise

END_OF_TIME = 253_402_300_799_999  # the year 9999 in milliseconds


class NaiveClock:
    def __init__(self, skew: int) -> None:
        self.skew = skew
        self.now: int | None = None
        self.moves: list[int] = []
        self.beyond: list[int] = []
        self.skewed = 0

    def bound(self) -> int:
        last = sorted(self.moves[-16:], reverse=True)
        return max(self.skew, 4 * last[1]) if len(last) > 1 else self.skew

    def passed(self, time: int) -> None:
        if self.now is None or time > self.now:
            self.now = time
            self.beyond = [t for t in self.beyond if t > self.now + self.bound()]

    def record(self, time: int) -> int | None:
        if time > END_OF_TIME:
            return self.now
        if self.now is None:
            self.now = time
        elif time <= self.now + self.bound():
            if time > self.now:
                self.moves.append(time - self.now)
                self.now = time
            self.beyond = []
        else:
            self.beyond.append(time)
            if len(self.beyond) == 16:
                self.moved_on()
            if time > self.now:
                self.skewed += 1
        return self.now

    def moved_on(self) -> None:
        ordered = sorted(self.beyond)
        self.moves = [b - a for a, b in pairwise(ordered) if b > a]
        self.now = ordered[0]
        for time in ordered[1:]:
            if time > self.now + self.bound_of_the_gaps(ordered):
                break
            self.now = time
        self.beyond = [t for t in self.beyond if t > self.now + self.bound()]

    def bound_of_the_gaps(self, ordered: list[int]) -> int:
        gaps = sorted(b - a for a, b in pairwise(ordered) if b > a)
        return max(self.skew, 4 * gaps[-2]) if len(gaps) > 1 else self.skew
