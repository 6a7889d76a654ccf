"""The clock of one partition, elsewhere called its watermark: how far its timestamps have come.

The clock is the largest timestamp so far, except that a single record cannot move it far ahead:
one from a machine whose time is wrong would otherwise put everything that follows it behind
everything of the other partitions. The rule looks at the timestamps T of the partition, in the
order of the log, and at nothing else:

- The bound is `skew`, or four times the second longest of the last 16 moves of the clock where
  that is more, so that a partition with a record every five minutes keeps its pace, and one
  silence is no pace.
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

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import Chunk, Rows, concatenate

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive events of the sequence.

    Attributes
    ----------
    names : sequence of str
        Names of partitions; `codes` index into it.
    codes : int array (n,)
        The partition of each event.
    offsets, timestamps : int64 arrays (n,)
        As the source gave them, timestamps in milliseconds.
    clocks : int64 array (n,)
        The clock of the event's partition at the event, its first sorting key.
    values : sequence (n,)
        Raw events.
    keys : list of bytes or None
    """

    names: Sequence[str]
    codes: npt.NDArray[np.intp]
    offsets: Int64s
    timestamps: Int64s
    clocks: Int64s
    values: Sequence[Any]
    keys: list[bytes | None] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def span(self) -> str:
        """From where to where its events are, in words."""
        first, last = self.position(0), self.position(len(self) - 1)
        return f"from {first[0]} offset {first[1]} to {last[0]} offset {last[1]}"

    def position(self, i: int) -> tuple[str, int]:
        """Partition and offset of event `i`."""
        return self.names[self.codes[i]], int(self.offsets[i])

    def slice(self, start: int, stop: int) -> Batch:
        """Events `start` to `stop`, counted inside this batch."""
        cut = slice(start, stop)
        return self._picked(cut, self.values[cut], None if self.keys is None else self.keys[cut])

    @staticmethod
    def join(parts: Sequence[Batch]) -> Batch:
        """One batch of several, in the given order; their `names` are one table."""
        keys: list[bytes | None] | None = None
        if any(part.keys is not None for part in parts):
            keys = [k for part in parts for k in (part.keys or [None] * len(part))]
        return Batch(
            parts[0].names,
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.timestamps for part in parts]),
            np.concatenate([part.clocks for part in parts]),
            concatenate([part.values for part in parts]),
            keys,
        )

    def reorder(self, order: npt.NDArray[np.intp]) -> Batch:
        """The events in another order, given as an array of indices."""
        picks = order.tolist()
        values: Sequence[Any]
        if isinstance(self.values, Rows):
            y = self.values.y
            y = y[order] if isinstance(y, np.ndarray) else y and [y[i] for i in picks]
            values = Rows(self.values.X[order], y)
        else:
            values = [self.values[i] for i in picks]
        keys = None if self.keys is None else [self.keys[i] for i in picks]
        return self._picked(order, values, keys)

    def _picked(self, at: Any, values: Sequence[Any], keys: list[bytes | None] | None) -> Batch:
        codes, offsets = self.codes[at], self.offsets[at]
        return Batch(self.names, codes, offsets, self.timestamps[at], self.clocks[at], values, keys)


def nbytes(values: Sequence[Any]) -> int:
    """Bytes of raw events; 0 for dicts, whose size is not known without walking through them."""
    if type(values) is not list and isinstance(values, Rows):
        return values.X.nbytes
    present = filter(None, values)  # a record may have no value: a tombstone
    first = next(present, None)
    return len(first) + sum(map(len, present)) if isinstance(first, bytes) else 0


NEVER = int(np.iinfo(np.int64).min)
"""The clock of a partition that has shown nothing: before every timestamp."""
UNBOUNDED = 1 << 62
"""A skew in milliseconds that no timestamp exceeds."""
LATEST = 253_402_300_799_999
"""The end of the year 9999 in milliseconds. One record that is stamped in microseconds would
otherwise put its partition behind all others for good."""
ENOUGH = 16
"""Records beyond in a row that move the clock, and moves that are remembered."""
_PACE = 4
"""The bound as a multiple of the second longest of the last moves. Where records come at random,
one in a thousand of a sparse partition is beyond it."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock after some record of a partition, and what the next ones need.

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
        """Return a clock of which only the time is known, if that."""
        return cls(NEVER if time is None else time)

    def raised(self, time: int, skew: int) -> Clock:
        """Return the clock at `time` at least, as a pass has it.

        A pass tells how far the other partitions are and not at what pace this one goes, so it is
        no move. Records beyond that are within the bound of it are beyond no more.
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
        return cls(
            cls.at(data["clock"]).time,
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


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A chunk some of whose events are not taken yet, to find the clock at any of them again."""

    before: Clock
    after: Clock
    offsets: Int64s
    timestamps: Int64s
    passes: list[tuple[int, int]]


@dataclass(slots=True)
class PartitionBuffer:
    """The state of one partition.

    Two points of it matter: `read`, the next offset to come from the source, with `clock`, and
    `taken`, the next offset not taken yet, with `taken_clock()`. Events between them
    are buffered: first the ready ones, then `pending`. Of the first chunk `admitted`, whose clock
    starts from `origin`, `skipped` events are taken.
    """

    name: str
    code: int
    skew: int
    read: int
    clock: Clock
    taken: int
    origin: Clock
    end: int | None = None
    done: bool = False
    silent: bool = False
    buffered: int = 0
    passes: list[tuple[int, int]] = field(default_factory=list)
    pending: deque[Batch] = field(default_factory=deque)
    admitted: deque[_Admitted] = field(default_factory=deque)
    skipped: int = 0

    def admit(self, chunk: Chunk, names: Sequence[str]) -> Batch:
        """Give each event its clock."""
        last = int(chunk.offsets[-1])
        passes = [one for one in self.passes if one[0] <= last]
        before, times = self.clock, chunk.timestamps
        if passes:
            self.clock, clocks = _advance(before, chunk.offsets, times, passes, self.skew)
        else:
            self.clock, clocks = before.advance(times, self.skew)
        self.admitted.append(_Admitted(before, self.clock, chunk.offsets, times, passes))
        self.read = last + 1
        codes = np.empty(len(times), np.intp)
        codes.fill(self.code)
        return Batch(names, codes, chunk.offsets, times, clocks, chunk.values, chunk.keys)

    def note_taken(self, count: int) -> None:
        """Move past the next `count` events."""
        self.skipped += count
        while self.admitted and self.skipped >= len(self.admitted[0].offsets):
            first = self.admitted.popleft()
            self.skipped -= len(first.offsets)
            self.origin = first.after

    def taken_clock(self) -> Clock:
        """Return the clock after the last event taken."""
        if not self.skipped:
            return self.origin
        first, n = self.admitted[0], self.skipped
        offsets, times = first.offsets[:n], first.timestamps[:n]
        return _advance(first.before, offsets, times, first.passes, self.skew)[0]

    def start_over(self) -> None:
        """Forget what is buffered."""
        self.clock = self.origin = self.taken_clock()
        self.pending.clear()
        self.admitted.clear()
        self.buffered = self.skipped = 0
        self.read, self.silent = self.taken, False
        self.done = self.end is not None and self.read >= self.end
        self.raise_clock()

    def raise_clock(self) -> None:
        """Advance the clock by the passes at or before the next offset."""
        for offset, time in self.passes:
            if offset <= self.read:
                self.clock = self.clock.raised(time, self.skew)


def _advance(
    clock: Clock, offsets: Int64s, times: Int64s, passes: Sequence[tuple[int, int]], skew: int
) -> tuple[Clock, Int64s]:
    """Return the clock after these events and its time at each; passes come where they stand."""
    parts, start = [], 0
    for offset, time in passes:
        stop = int(np.searchsorted(offsets, offset))
        if stop == len(offsets):
            break
        clock, found = clock.advance(times[start:stop], skew)
        parts.append(found)
        clock, start = clock.raised(time, skew), stop
    clock, found = clock.advance(times[start:], skew)
    return clock, np.concatenate([*parts, found]) if parts else found
