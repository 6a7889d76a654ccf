"""The partitions of a source on their way into the sequence: batches, buffers, and their clocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import Chunk, Rows, concatenate
from streamk.memory.clock import Clock

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
