"""The clock of a partition, elsewhere called its watermark: how far its timestamps have come.

That of the events of a model with entities goes by the same rule (`EntityMemory`).

The clock is the largest timestamp so far, except that a single record cannot move it far ahead:
one from a machine whose time is wrong would otherwise put everything that follows it behind
everything of the other partitions. The rule looks at the timestamps T of the partition, in the
order of the log, and at nothing else:

- The bound is `skew`, or four times the second longest of the last 16 moves of the clock where
  that is more, so that a partition with a record every five minutes keeps its pace, and one
  silence is not a pace.
- If T lies at most the bound ahead of the clock, the clock becomes the larger of both.
- Otherwise the record is *beyond*, and the clock stays. After 16 records beyond in a row the stream
  has moved on: the clock goes to the smallest of the 16, the gaps between them, sorted, are the
  last moves from there on, and the clock goes on through the sorted ones as far as the bound
  allows. Those that it does not reach are still the last ones beyond.

So the clock is never before the smallest of the last 16 timestamps, and it moves further than the
bound only if 16 records in a row say so. Sixteen, because where a third of the records are wrong
at random eight in a row come once in ten thousand, and 16 once in sixty million. The smallest,
because one of them that is right is then enough.

A timestamp after the year 9999, which is one in another unit, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

NEVER = int(np.iinfo(np.int64).min)
"""The clock of a partition that has shown nothing: before every timestamp."""
UNBOUNDED = 1 << 62
"""A skew in milliseconds that no timestamp exceeds."""
LATEST = 253_402_300_799_999
"""The end of the year 9999 in milliseconds. One record that is stamped in microseconds would
otherwise put its partition behind all others for ever."""
ENOUGH = 16
"""Records beyond in a row that move the clock, and moves that are remembered."""
_PACE = 4
"""The bound as a multiple of the second longest of the last moves. Where records come at random,
one in a thousand of a sparse partition is beyond it."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock after a record of a partition, with the data that the next records need.

    Attributes
    ----------
    time : int
        Milliseconds; `NEVER` before the first record.
    moves : tuple of int
        The last increases of the clock, in milliseconds, at most 16; those of passes are none.
    beyond : tuple of int
        The timestamps of the last records beyond, in a row, fewer than 16.
    skewed : int
        Records so far whose timestamp lay ahead of the clock that they were given.
    """

    time: int = NEVER
    moves: tuple[int, ...] = ()
    beyond: tuple[int, ...] = ()
    skewed: int = 0

    @classmethod
    def at(cls, time: int | None) -> Clock:
        """Return a clock from a time alone, or from no time."""
        return cls(NEVER if time is None else time)

    def raised(self, time: int, skew: int) -> Clock:
        """Return the clock at `time` at least, as a pass has it.

        A pass tells how far the other partitions are and not at what pace this one goes, so it is
        not a move. Records beyond that are within the bound of it are beyond no more.
        """
        if time <= self.time:
            return self
        far = time + _bound(self.moves, skew)
        return replace(self, time=time, beyond=tuple(t for t in self.beyond if t > far))

    def advance(self, times: Int64s, skew: int) -> tuple[Clock, Int64s]:
        """Return the clock after records with these timestamps, and its time at each of them."""
        if not len(times):
            return self, times
        if len(times) == 1 and self.time > NEVER and times[0] <= LATEST:
            return self._one_by_one(times.tolist(), skew)
        top = int(times.max())
        if top > LATEST:
            times = np.where(times > LATEST, NEVER, times)
            top = int(times.max())
        if top == NEVER:
            return self, np.full(len(times), self.time, dtype=np.int64)
        if self.time == NEVER:
            first = int(np.argmax(times > NEVER))
            after = replace(self, time=int(times[first]))
            after, later = after.advance(times[first + 1 :], skew)
            ahead = times[: first + 1]  # all but the last of these are at no time
            return after, np.concatenate([ahead, later])
        running = np.maximum.accumulate(np.concatenate([[self.time], times]))
        # No move at all is longer than all of them together.
        if top - self.time > skew and self._reaches_beyond(running, skew):
            return self._one_by_one(times.tolist(), skew)
        moves = (*self.moves, *_last_moves(running))[-ENOUGH:]
        return Clock(int(running[-1]), moves, (), self.skewed), running[1:]

    def _reaches_beyond(self, running: Int64s, skew: int) -> bool:
        """Return whether a step of the running maximum is longer than the bound at it."""
        if int(running[-1]) - self.time >= UNBOUNDED:
            return True  # the steps would overflow
        steps = np.diff(running)
        if int(steps.max()) <= skew:
            return False
        steps = steps[steps > 0]
        long = np.flatnonzero(steps > skew)
        none = [0] * (ENOUGH - len(self.moves))
        before = np.concatenate([np.array([*none, *self.moves], dtype=np.int64), steps])
        lasts = np.lib.stride_tricks.sliding_window_view(before, ENOUGH)[long]
        second = np.partition(lasts, ENOUGH - 2, axis=1)[:, ENOUGH - 2]
        return bool((steps[long] > _PACE * second).any())

    def _one_by_one(self, times: list[int], skew: int) -> tuple[Clock, Int64s]:
        """Do what `advance` says, for records some of which are far ahead."""
        now, moves, beyond, skewed = self.time, self.moves, self.beyond, self.skewed
        clocks = np.empty(len(times), dtype=np.int64)
        for i, time in enumerate(times):
            if time - now <= skew or time - now <= _bound(moves, skew):
                if time > now:
                    moves, now = (*moves, time - now)[-ENOUGH:], time
                if time != NEVER:
                    beyond = ()
            else:
                beyond = (*beyond, time)
                if len(beyond) == ENOUGH:
                    now, moves, beyond = _moved_on(beyond, skew)
                skewed += time > now
            clocks[i] = now
        return Clock(now, moves, beyond, skewed), clocks

    def to_json(self) -> dict[str, Any]:
        """Return the clock as JSON data."""
        return {
            "clock": None if self.time == NEVER else self.time,
            "moves": list(self.moves),
            "beyond": list(self.beyond),
            "skewed": self.skewed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Clock:
        """Return the clock of `to_json`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the data is not of a clock.
        """
        time = data["clock"]
        return cls(
            NEVER if time is None else int(time),
            tuple(map(int, data["moves"])),
            tuple(map(int, data["beyond"])),
            int(data["skewed"]),
        )


def _bound(moves: tuple[int, ...], skew: int) -> int:
    """Return how far the clock may move at one record, in milliseconds."""
    return max(skew, _PACE * sorted(moves)[-2]) if len(moves) > 1 else skew


def _moved_on(beyond: tuple[int, ...], skew: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return time, moves and records beyond after enough of them in a row."""
    times = sorted(beyond)
    moves = tuple(b - a for a, b in pairwise(times) if b > a)
    bound, now = _bound(moves, skew), times[0]
    for time in times:
        if time - now > bound:
            break
        now = time
    return now, moves, tuple(time for time in beyond if time - now > bound)


def _last_moves(running: Int64s) -> list[int]:
    """Return the last increases of an ascending array."""
    for tail in (running[-4 * ENOUGH :], running):
        steps = [b - a for a, b in pairwise(tail.tolist()) if b > a]
        if len(steps) >= ENOUGH:
            break
    return steps[-ENOUGH:]
