"""The events of one partition between reading and taking them, and the clock at each of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from connectors.base import Chunk
from streamk.engine.order.batch import Batch, Int64s
from streamk.engine.order.clocks import Clock

__all__ = ["PartitionBuffer"]


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

    @property
    def frontier(self) -> tuple[int, str]:
        """No event still to come sorts before this."""
        return self.clock.time, self.name

    def admit(self, chunk: Chunk, names: Sequence[str]) -> Batch:
        """Give each event its clock."""
        passes = [one for one in self.passes if one[0] <= chunk.offsets[-1]]
        before, times = self.clock, chunk.timestamps
        self.clock, clocks = _advance(before, chunk.offsets, times, passes, self.skew)
        self.admitted.append(_Admitted(before, self.clock, chunk.offsets, times, passes))
        self.read = int(chunk.offsets[-1]) + 1
        codes = np.full(len(chunk), self.code, dtype=np.intp)
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
        return _advance(
            first.before, first.offsets[:n], first.timestamps[:n], first.passes, self.skew
        )[0]

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
