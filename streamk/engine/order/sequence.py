"""One sequence out of many partitions, the same whenever and however the events arrive.

What is learned must not depend on timing, so the order of events is a property of the log alone.
Each partition has a clock, the largest timestamp it has shown so far but for records that are too
far ahead (see `streamk.engine.order.partitions`), and an event sorts by

    (clock of its partition at that event, name of its partition, offset).

Inside a partition the order is the log's own whatever its timestamps do; between partitions it
follows time. An event is *ready* once no unfinished partition can still bring one that sorts before
it: the clocks of all others have passed it. Sizes and moments of polls decide only when an event
becomes ready, never where it stands.

A live partition that falls silent would hold the others back for ever, so it can be *passed
over*: from its next offset on its events sort no earlier than some time ahead. That is the one
thing here that a clock on the wall decides, so it is a fact to be written down before anything
behind it is used: `Sequencer.pass_over` returns `Pass` records for a journal, and a
sequencer that is given them again makes the same sequence at once, without waiting. A partition
that comes later has been passed over until it is seen: `Sequencer.behind_all`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from connectors.base import Chunk
from streamk.engine.order.partitions import Batch, PartitionBuffer, nbytes
from streamk.errors import EngineError, StateError
from streamk.memory.clock import ENOUGH, LATEST, NEVER, UNBOUNDED, Clock

__all__ = ["Pass", "Sequencer"]

_log = logging.getLogger("streamk.engine")


@dataclass(frozen=True, slots=True)
class Pass:
    """A partition was passed over: from `offset` on its events sort at `clock` (ms) or later."""

    partition: str
    offset: int
    clock: int


class Sequencer:
    """Merges partitions into one sequence.

    Parameters
    ----------
    skew : int
        Milliseconds that a record may be ahead of its partition's clock.

    Examples
    --------
    >>> def chunk(partition, *times):
    ...     offsets = np.arange(len(times))
    ...     return Chunk(partition, offsets, np.array(times), [f"{partition}{t}" for t in times])
    >>> sequencer = Sequencer()
    >>> sequencer.assign("a", 0), sequencer.assign("b", 0)
    (None, None)
    >>> sequencer.add(chunk("a", 1, 3, 5))
    >>> sequencer.ready
    0
    >>> sequencer.add(chunk("b", 2, 4))
    >>> sequencer.take(sequencer.ready).values
    ['a1', 'b2', 'a3', 'b4']
    """

    def __init__(self, skew: int = UNBOUNDED) -> None:
        self.events = 0
        """Events taken so far: the index of the next one in the sequence."""
        self.clock: int | None = None
        """Clock of the last event taken, in milliseconds; None before the first."""
        self._skew = skew
        self._told: set[str] = set()
        self._names: list[str] = []
        self._buffers: dict[str, PartitionBuffer] = {}
        self.partitions: tuple[str, ...] = ()
        """Names of the partitions being read, sorted."""
        self._ready: deque[Batch] = deque()
        self._start = 0  # events of the first ready segment that are taken already
        self.ready = 0
        """Events whose place in the sequence is certain and that are not taken yet."""
        self.buffered_bytes = 0
        """Bytes of the raw events that are buffered; of dicts only the number is limited."""

    # --- partitions -------------------------------------------------------------------------------

    def assign(
        self,
        partition: str,
        offset: int,
        *,
        clock: Clock | int | None = None,
        end: int | None = None,
    ) -> None:
        """Read `partition` from `offset` on; up to `end` (exclusive) if that is given.

        `clock` is that of the last event taken of it, or a time in milliseconds to begin at.
        """
        if partition in self._buffers:
            raise EngineError(f"partition {partition} is already being read")
        if partition not in self._names:
            self._names.append(partition)
        start = clock if isinstance(clock, Clock) else Clock.at(clock)
        code = self._names.index(partition)
        buffer = PartitionBuffer(partition, code, self._skew, offset, start, offset, start, end)
        buffer.done = end is not None and offset >= end
        self._buffers[partition] = buffer
        self._buffers = dict(sorted(self._buffers.items()))
        self.partitions = tuple(self._buffers)
        self._merge()

    def drop(self, partitions: Iterable[str]) -> None:
        """Stop reading partitions and forget everything buffered, of all partitions.

        What is ready holds events of the dropped partitions, so what is left starts over at the
        last event taken: read every remaining partition again from `offsets`.
        """
        for partition in partitions:
            self._buffers.pop(partition, None)
        self.partitions = tuple(self._buffers)
        self._ready.clear()
        self._start = self.ready = self.buffered_bytes = 0
        for buffer in self._buffers.values():
            buffer.start_over()

    @property
    def offsets(self) -> dict[str, int]:
        """The next offset of each partition that is not taken yet."""
        return {name: buffer.taken for name, buffer in self._buffers.items()}

    @property
    def ends(self) -> dict[str, int | None]:
        """The end of each partition (exclusive), None while that is open."""
        return {name: buffer.end for name, buffer in self._buffers.items()}

    @property
    def buffered(self) -> int:
        """Events that were added and are not taken yet."""
        return sum(buffer.buffered for buffer in self._buffers.values())

    def next_offset(self, partition: str) -> int:
        """The offset of the next event to read from `partition`."""
        return self._buffers[partition].read

    def jump(self, partition: str, offset: int) -> None:
        """Read `partition` from another offset on: the next one is gone."""
        buffer = self._buffers[partition]
        buffer.read = offset
        if not buffer.buffered:
            buffer.taken = buffer.read
        buffer.done |= buffer.end is not None and offset >= buffer.end
        buffer.raise_clock()
        self._merge()

    # --- events in --------------------------------------------------------------------------------

    def add(self, chunk: Chunk) -> None:
        """Take in events of one partition; those at or past its end are left out."""
        buffer, offsets = self._buffers[chunk.partition], chunk.offsets
        first, stop = 0, len(offsets)
        n = stop
        if not n:
            return
        # A source that was sent back may give again what is buffered already.
        if offsets[0] < buffer.read:
            first = int(np.searchsorted(offsets, buffer.read))
        if buffer.end is not None and offsets[-1] >= buffer.end - 1:
            stop = int(np.searchsorted(offsets, buffer.end))
            buffer.done = True
        if first or stop < n:
            chunk = chunk.slice(first, stop)
        if stop > first:
            skewed = buffer.clock.skewed
            buffer.pending.append(buffer.admit(chunk, self._names))
            if buffer.clock.skewed > skewed:
                self._warn_skewed(buffer)
            buffer.buffered += stop - first
            buffer.silent = False
            self.buffered_bytes += nbytes(chunk.values)
        if buffer.passes:
            buffer.raise_clock()
        self._merge()

    def finish(self, partitions: Iterable[str] | None = None) -> None:
        """Partitions (default: all) have no more events; they no longer hold others back."""
        for name in list(self._buffers) if partitions is None else partitions:
            self._buffers[name].done = True
        self._merge()

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Partitions that may still bring events."""
        return tuple(name for name, buffer in self._buffers.items() if not buffer.done)

    def cut_tail(self, partition: str, keep: int) -> int | None:
        """Forget all but about `keep` buffered events of a partition that is far ahead.

        Returns the offset to read it from again, or None if there is nothing to spare: ready
        events and the first pending segment stay.
        """
        buffer, cut = self._buffers[partition], None
        while len(buffer.pending) > 1 and buffer.buffered - len(buffer.pending[-1]) >= keep:
            tail = buffer.pending.pop()
            buffer.buffered -= len(tail)
            self.buffered_bytes -= nbytes(tail.values)
            cut = int(tail.offsets[0])
            buffer.admitted.pop()  # every pending segment but the first is a whole chunk
        if cut is not None:
            buffer.read, buffer.clock, buffer.done = cut, buffer.admitted[-1].after, False
            buffer.raise_clock()
        return cut

    def ahead(self, events: int, size: int) -> frozenset[str]:
        """Return partitions that others hold back, and of which enough is buffered.

        That is their share of `events`, or anything where more than `size` bytes are buffered.
        """
        full, share = self.buffered_bytes > size, max(1, events // max(1, len(self._buffers)))
        return frozenset(
            name
            for name, buffer in self._buffers.items()
            if buffer.pending and (full or buffer.buffered >= share)
        )

    def skewed(self) -> dict[str, int]:
        """Events taken whose timestamp lay too far ahead, by partition; none of a single one."""
        if len(self._buffers) < 2:
            return {}
        found = {name: buffer.taken_clock().skewed for name, buffer in self._buffers.items()}
        return {name: n for name, n in found.items() if n}

    # --- silence ----------------------------------------------------------------------------------

    def waiting_for(self) -> tuple[str, ...]:
        """The partitions whose silence keeps events of others from being ready."""
        heads = [
            (int(buffer.pending[0].clocks[0]), buffer.name)
            for buffer in self._buffers.values()
            if buffer.pending
        ]
        if not heads:
            return ()
        first = min(heads)
        return tuple(
            buffer.name
            for buffer in self._buffers.values()
            if not buffer.done and (buffer.clock.time, buffer.name) < first
        )

    def silent(self, partition: str) -> bool:
        """True if `partition` was passed over and has brought nothing since."""
        return self._buffers[partition].silent

    def pass_over(self, partitions: Iterable[str], ahead: int) -> list[Pass]:
        """Pass over `partitions`: events of others go before any that these may still bring.

        Everything buffered is let go, and what comes within `ahead` milliseconds (at least 1)
        of the newest of it, so that a journal need not be written for every event. The records
        returned must be durable before an event is taken.
        """
        clock = self._newest + max(1, ahead)
        passes = [Pass(name, self._buffers[name].read, clock) for name in partitions]
        for one in passes:
            self._buffers[one.partition].silent = True
        self.replay(passes)
        return passes

    def behind_all(self, places: Mapping[str, int]) -> list[Pass]:
        """Return what puts events of new partitions, from these offsets on, behind all others.

        That is, behind everything buffered; where nothing was read yet, their clock stays open. The
        passes must be durable before the partitions are assigned, and then be given to `replay`.
        """
        clock = NEVER if self._newest == NEVER else self._newest + 1
        return [Pass(name, at, clock) for name, at in places.items()]

    @property
    def _newest(self) -> int:
        """The clock that is furthest ahead."""
        return max((buffer.clock.time for buffer in self._buffers.values()), default=NEVER)

    def replay(self, passes: Iterable[Pass]) -> None:
        """Apply recorded passes; those of partitions not read here are ignored."""
        for one in passes:
            buffer = self._buffers.get(one.partition)
            if buffer is None or one.offset < buffer.taken:
                continue
            # Of passes at the same offset only the furthest counts.
            kept = [p for p in buffer.passes if p[0] != one.offset or p[1] > one.clock]
            if not any(p[0] == one.offset for p in kept):
                kept.append((one.offset, one.clock))
            buffer.passes = sorted(kept)
            buffer.raise_clock()
        self._merge()

    # --- events out -------------------------------------------------------------------------------

    def take(self, n: int) -> Batch:
        """Take the next `n` ready events, or all if fewer: `offsets` move past them."""
        parts: list[Batch] = []
        n = left = min(n, self.ready)
        while left:
            head, start = self._ready[0], self._start
            size = len(head.offsets)
            stop = min(size, start + left)
            parts.append(head if stop - start == size else head.slice(start, stop))
            left -= stop - start
            self._start = stop
            if stop == size:
                self._ready.popleft()
                self._start = 0
        batch = parts[0] if len(parts) == 1 else Batch.join(parts)
        self.ready -= n
        self.events += n
        self.clock = int(batch.clocks[-1])
        self.buffered_bytes -= nbytes(batch.values)
        buffers = list(self._buffers.values())
        counts = [n] if len(buffers) == 1 else np.bincount(batch.codes, minlength=len(self._names))
        for buffer in buffers:
            count = int(counts[0] if len(buffers) == 1 else counts[buffer.code])
            if count:
                last = n - 1 if count == n else int(np.flatnonzero(batch.codes == buffer.code)[-1])
                buffer.buffered -= count
                buffer.taken = int(batch.offsets[last]) + 1 if buffer.buffered else buffer.read
                buffer.note_taken(count)
                if buffer.passes:
                    buffer.passes = [p for p in buffer.passes if p[0] > batch.offsets[last]]
        return batch

    @property
    def exhausted(self) -> bool:
        """True when every partition has ended and nothing is left to take."""
        if self.ready:
            return False
        return all(buffer.done and not buffer.pending for buffer in self._buffers.values())

    # --- state ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The sequence up to the last event taken, as JSON data."""
        partitions = {
            name: {
                "offset": buffer.taken,
                **buffer.taken_clock().to_json(),
                "end": buffer.end,
                "passes": [list(p) for p in buffer.passes if p[0] >= buffer.taken],
            }
            for name, buffer in self._buffers.items()
        }
        return {"events": self.events, "clock": self.clock, "partitions": partitions}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], skew: int = UNBOUNDED) -> Sequencer:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        sequencer = cls(skew)
        try:
            for name, buffer in data["partitions"].items():
                clock = Clock.from_json(buffer)
                sequencer.assign(name, buffer["offset"], clock=clock, end=buffer["end"])
                sequencer.replay(Pass(name, o, c) for o, c in buffer["passes"])
            sequencer.events, sequencer.clock = data["events"], data["clock"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"the sequence in the checkpoint cannot be read: {error!r}") from error
        return sequencer

    # --- inside -----------------------------------------------------------------------------------

    def _warn_skewed(self, buffer: PartitionBuffer) -> None:
        """Warn of the first event of a partition that is too far ahead of the one before."""
        if buffer.name in self._told or len(self._buffers) < 2:
            return
        self._told.add(buffer.name)
        batch = buffer.pending[-1]
        ahead = np.flatnonzero((batch.timestamps > batch.clocks) & (batch.timestamps <= LATEST))
        first = int(ahead[0])
        _log.warning(
            "partition %s: the timestamp of offset %d is %.0f s later than all before it; such "
            "events count as of the earlier time until %d in a row are that late (--max-skew %g; "
            "inf if such gaps are normal)",
            buffer.name,
            int(batch.offsets[first]),
            (int(batch.timestamps[first]) - int(batch.clocks[first])) / 1000,
            ENOUGH,
            self._skew / 1000,
        )

    def _merge(self) -> None:
        """Move to `_ready` what no partition can come before any more."""
        # No event still to come of a partition sorts before its clock and name.
        buffers = self._buffers.values()
        bound = min(((b.clock.time, b.name) for b in buffers if not b.done), default=None)
        parts: list[Batch] = []
        for buffer in self._buffers.values():
            while buffer.pending:
                head = buffer.pending[0]
                n = size = len(head.offsets)
                if bound is not None and (int(head.clocks[-1]), buffer.name) > bound:
                    side = "right" if buffer.name <= bound[1] else "left"
                    n = int(np.searchsorted(head.clocks, bound[0], side=side))  # type: ignore[call-overload]
                if n:
                    parts.append(head if n == size else head.slice(0, n))
                if n == size:
                    buffer.pending.popleft()
                    continue
                if n:
                    buffer.pending[0] = head.slice(n, size)
                break
        if not parts:
            return
        segment = parts[0] if len(parts) == 1 else Batch.join(parts)
        # The parts stand in the order of the names, each ascending, so a stable sort by clock
        # orders by (clock, name, offset); parts that follow on need none.
        if len(parts) > 1 and any(a.clocks[-1] > b.clocks[0] for a, b in pairwise(parts)):
            segment = segment.reorder(np.argsort(segment.clocks, kind="stable"))
        self._ready.append(segment)
        self.ready += len(segment.offsets)
