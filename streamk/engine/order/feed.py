"""Reads a source into the sequence: read sizes, waits for partitions, and gaps of offsets."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np

from connectors.base import Chunk, Source, group_of
from connectors.errors import OffsetOutOfRange, Unavailable
from streamk.engine.order.sequence import Pass, Sequencer
from streamk.errors import EngineError, StateError
from streamk.memory.clock import UNBOUNDED, Clock
from streamk.options import Checked, Seconds, Whole

__all__ = ["DataLoss", "Feed", "Lost", "Order"]

DataLoss = Literal["fail", "earliest", "latest"]
Lost = dict[str, Any]
"""A range of offsets that was never learned: partition, start, stop (exclusive) and reason."""

_POLL_EVENTS = 4096
"""Events asked for at once: enough to make a poll cheap per event, few enough to stay in cache."""

_log = logging.getLogger("streamk.engine")


@runtime_checkable
class Holding(Protocol):
    """A source that can stop reading some partitions for a while."""

    def hold(self, partitions: Collection[str]) -> None:
        """Do not read these partitions until the next call."""


@runtime_checkable
class Positioned(Protocol):
    """A source that knows where it is even when the last offsets hold no event."""

    def position(self, partition: str) -> int:
        """The next offset to read."""


@runtime_checkable
class EndsInParts(Protocol):
    """A source some of whose partitions may have ended while others go on."""

    def ended(self) -> Collection[str]:
        """The partitions that have given their last event."""


@dataclass(frozen=True, kw_only=True)
class Order(Checked):
    """The order of partitions in one sequence, see `streamk.engine.order.partitions`.

    Parameters
    ----------
    idle_timeout : float, default 1.0
        Seconds that the other partitions of a live stream wait for one that brings nothing.
    max_skew : float, default 60.0
        Seconds that the timestamp of an event may be ahead of its partition's clock; infinite for
        no bound.
    buffer_events : int, default 65536
    buffer_bytes : int, default 2^28
        About how much is read ahead while partitions wait for each other.
    """

    idle_timeout: Annotated[float, Seconds()] = 1.0
    max_skew: Annotated[float, Seconds(infinite=True)] = 60.0
    buffer_events: Annotated[int, Whole()] = 1 << 16
    buffer_bytes: Annotated[int, Whole()] = 1 << 28


class Feed:
    """Keeps a `Sequencer` supplied from a source, within bounds.

    Of a partition that comes later, what is there then is read if `until_end` says so.
    """

    def __init__(
        self, source: Source, order: Order, *, data_loss: DataLoss, until_end: bool
    ) -> None:
        skew = order.max_skew
        self._skew = UNBOUNDED if math.isinf(skew) else min(round(1000 * skew), UNBOUNDED)
        self.sequencer = Sequencer(self._skew)
        self.lost: list[Lost] = []
        self._source, self._order = source, order
        # Asking a source for its methods takes as long as reading ten events.
        self._pausing = source if isinstance(source, Holding) else None
        self._positioned = source if isinstance(source, Positioned) else None
        self._ending = source if isinstance(source, EndsInParts) else None
        self._data_loss, self._until_end = data_loss, until_end
        self._shared = group_of(source) is not None
        self.write_passes: Callable[[list[Pass]], None] = lambda _: None
        """Makes passes durable; set where there are checkpoints."""
        self.unfinished_lines: dict[str, Chunk] = {}
        """By partition the last line, which has no end yet: the next run may find it longer."""
        self.provisional: dict[str, int] = {}
        """Positions of what was taken in by `add_unfinished_lines`, by partition."""
        self._learned: dict[str, list[list[int]]] = {}
        self._waiting_since: float | None = None
        self._paused: frozenset[str] | None = frozenset()
        """Partitions that the source does not read now; None: those of before, whichever."""
        self._first: dict[str, int] = {}
        """Offsets up to which partitions are read before the source's new ones are."""

    # --- partitions -------------------------------------------------------------------------------

    def assign(
        self,
        partition: str,
        offset: int,
        *,
        clock: Clock | int | None = None,
        end: int | None = None,
    ) -> None:
        """Read `partition` from `offset`."""
        self.sequencer.assign(partition, offset, clock=clock, end=end)
        self._note_range(partition, offset)
        try:
            self._source.seek(partition, offset)
        except OffsetOutOfRange as error:
            self._recover(error)

    def read_first(self, ends: Mapping[str, int]) -> None:
        """Have partitions read up to there before any that is not assigned.

        For a run that goes on where another was killed, which may have taken so much of them.
        """
        self._first = dict(ends)

    def release(self) -> dict[str, Any]:
        """Give up all partitions and all that is buffered; returns their place in the sequence."""
        places: dict[str, Any] = self.sequencer.to_json()["partitions"]
        self._learned = self.learned
        self.sequencer.drop(self.sequencer.partitions)
        self._paused = None
        self.unfinished_lines = {}
        self._waiting_since = None
        return places

    @property
    def learned(self) -> dict[str, list[list[int]]]:
        """Ranges [start, stop) of the offsets that were processed, by partition, with lost ones."""
        ranges = {name: [list(r) for r in found] for name, found in self._learned.items()}
        for name, offset in self.sequencer.offsets.items():
            ranges[name][-1][1] = offset
        return ranges

    # --- reading ----------------------------------------------------------------------------------

    def poll(self, timeout: float) -> None:
        """Read what there is, waiting up to `timeout` seconds for it."""
        source = self._source
        paused = self.sequencer.ahead(self._order.buffer_events, self._order.buffer_bytes)
        if self._first:
            paused |= self._kept_back
        if paused != self._paused and self._pausing is not None:
            self._pausing.hold(paused)
            self._paused = paused
        try:
            chunks = source.poll(_POLL_EVENTS, timeout)
        except OffsetOutOfRange as error:
            self._recover(error)
            return
        sequencer = self.sequencer  # only now: a rebalance during the poll may have replaced it
        for chunk in chunks:
            # A source may not know yet that its partitions were given away.
            if chunk.partition in sequencer.partitions:
                at = source.provisional(chunk.partition)
                sequencer.add(chunk if at is None else self._certain(chunk, at))
        if paused and self._pausing is None:
            self._drop_surplus(paused.intersection(sequencer.partitions))
        if not self._shared and len(source.partitions()) != len(sequencer.partitions):
            self._add_new_partitions()
        if source.finished():
            sequencer.finish()
        elif not chunks or self._ending is not None:
            self._look_for_ends(is_idle=not chunks)
        if sequencer.ready:
            self._waiting_since = None
        else:
            self._pass_over_silent()

    def _certain(self, chunk: Chunk, at: int) -> Chunk:
        """Return the events before an offset; those from there on may change, and are set aside."""
        if at > chunk.offsets[-1]:
            return chunk
        place = int(np.searchsorted(chunk.offsets, at))
        self.unfinished_lines[chunk.partition] = chunk.slice(place, len(chunk))
        return chunk.slice(0, place)

    def add_unfinished_lines(self) -> None:
        """Take in what was set aside. No checkpoint may be written from here on."""
        self.provisional = {
            name: int(chunk.offsets[0]) for name, chunk in self.unfinished_lines.items()
        }
        for name in sorted(self.unfinished_lines):
            self.sequencer.add(self.unfinished_lines[name])
        self.unfinished_lines = {}

    def unfinished(self, *, saved: bool) -> tuple[str, ...]:
        """Return a sentence for everything that was not read, or is read again.

        `saved` says that there is a checkpoint to go on from.
        """
        told = self._source.unfinished()
        if saved:
            told += [
                f"{name}: the line of offset {offset} has no end; it counts as it stands, and a run"
                " that goes on from the checkpoint reads it anew"
                for name, offset in self.provisional.items()
            ]
        return tuple(told)

    def _add_new_partitions(self) -> None:
        """Read partitions that the source has got, from their start, behind all that was read."""
        source, sequencer = self._source, self.sequencer
        there, known = source.partitions(), sequencer.partitions
        first, unfinished = self._first.items(), sequencer.unfinished
        self._first = {n: end for n, end in first if n in unfinished and self._lacks(n, end)}
        if self._first:
            return
        places = {name: source.start(name) for name in there if name not in known}
        passes = sequencer.behind_all(places)
        self.write_passes(passes)
        for name, offset in places.items():
            self.assign(name, offset, end=source.end(name) if self._until_end else None)
            _log.info("partition %s is new; it is read from its start", name)
        sequencer.replay(passes)

    def _lacks(self, partition: str, end: int) -> bool:
        """Return whether a partition is still to be read up to there."""
        at = self.sequencer.next_offset(partition)
        if at < end and self._positioned is not None:
            at = self._positioned.position(partition)
        return at < end

    @property
    def _kept_back(self) -> frozenset[str]:
        """New partitions that wait until others are read."""
        if not self._first:
            return frozenset()
        return frozenset(self._source.partitions()).difference(self.sequencer.partitions)

    @property
    def exhausted(self) -> bool:
        """True when every partition has ended and nothing is left to take."""
        sequencer = self.sequencer
        return sequencer.exhausted and bool(sequencer.partitions) and not self._kept_back

    def _drop_surplus(self, partitions: Collection[str]) -> None:
        """For a source that cannot hold partitions: forget what is too much, read it again."""
        share = max(1, self._order.buffer_events // len(self.sequencer.partitions))
        for name in partitions:
            offset = self.sequencer.cut_tail(name, share)
            if offset is not None:
                self._source.seek(name, offset)

    def _look_for_ends(self, *, is_idle: bool) -> None:
        """Finish partitions that have ended while others go on; `is_idle` if a poll gave nothing.

        A partition may end in offsets that hold no event: transaction markers.
        """
        over = [] if self._ending is None else [*self._ending.ended()]
        if is_idle and self._positioned is not None:
            ends = {name: end for name, end in self.sequencer.ends.items() if end is not None}
            at = self._positioned.position
            over += [n for n in self.sequencer.unfinished if n in ends and at(n) >= ends[n]]
        over = [name for name in over if name in self.sequencer.unfinished]
        if over:
            self.sequencer.finish(over)

    # --- silence ----------------------------------------------------------------------------------

    def _pass_over_silent(self) -> None:
        """Pass over a live partition that has been silent for too long, so that others go on."""
        sequencer = self.sequencer
        waiting = sequencer.waiting_for()
        if not waiting:
            self._waiting_since = None
            return
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        waited = now - self._waiting_since >= self._order.idle_timeout
        if all(sequencer.silent(name) or (waited and self._is_empty(name)) for name in waiting):
            passes = sequencer.pass_over(waiting, round(1000 * self._order.idle_timeout))
            self.write_passes(passes)
            self._waiting_since = None
            for name in waiting:
                _log.info("partition %s is silent; the others go on", name)

    def _is_empty(self, partition: str) -> bool:
        """Return whether everything there is of a live partition was read."""
        if self.sequencer.ends[partition] is not None:
            return False
        try:
            end = self._source.end(partition)
        except Unavailable:
            return False  # nobody knows, and the run waits
        return end is None or not self._lacks(partition, end)

    # --- holes ------------------------------------------------------------------------------------

    def _recover(self, error: OffsetOutOfRange) -> None:
        """The next offset of a partition does not exist: follow the policy."""
        partition, wanted = error.partition, error.offset
        if partition not in self.sequencer.partitions:
            return  # given up meanwhile: the group has moved on
        at = self.sequencer.next_offset(partition)
        if wanted < at:  # said of a position that was left already: a client's late answer
            self._source.seek(partition, at)
            return
        first, end = self._source.start(partition), self._source.end(partition)
        if self._data_loss == "fail":
            gone = f"{first - wanted:,} offsets are" if first > wanted else "the events between are"
            found = error if end is None else f"holds {first} to {end}: {gone} gone"
            raise EngineError(
                f"partition {partition} should go on from offset {wanted}, but {found}. To go on "
                f'anyway choose data_loss="earliest" (--data-loss earliest), at offset {first}, '
                'or "latest", at the end'
            ) from error
        target = first if self._data_loss == "earliest" or end is None else end
        self.sequencer.jump(partition, target)
        self._source.seek(partition, target)
        self.record_lost(partition, wanted, target, "gone from the source")
        if target < wanted:  # a log that was made anew
            self._note_range(partition, target)

    def begin_anew(self, places: Mapping[str, Any], replaced: Mapping[str, str]) -> None:
        """Move the places of partitions that others of their names have replaced in the source.

        `replaced` says how each is another.

        Raises
        ------
        EngineError
            If `data_loss` is "fail".
        """
        for partition, how in replaced.items():
            if partition not in places:
                continue
            place = places[partition]
            where = f"partition {partition}, read to offset {place['offset']} by the checkpoint,"
            if self._data_loss == "fail":
                raise EngineError(
                    f'{where} {how}. To read the new one choose data_loss="earliest"'
                    ' (--data-loss earliest), from its first event on, or "latest", from its end'
                )
            first, end = self._source.start(partition), self._source.end(partition)
            target = first if self._data_loss == "earliest" or end is None else end
            place |= {"offset": target, "end": None, "passes": []}
            _log.warning("%s %s: going on at offset %d of the new one", where, how, target)

    def record_lost(self, partition: str, start: int, stop: int, reason: str) -> None:
        """Put a range of offsets that this model will never hold on record."""
        if start < stop:
            lost = {"partition": partition, "start": start, "stop": stop, "reason": reason}
            self.lost.append(lost)
            words = "lost: %s offsets, %d to %d, of partition %s, %s"
            _log.warning(words, f"{stop - start:,}", start, stop, partition, reason)

    def miss(self, partition: str, start: int, stop: int, reason: str) -> None:
        """Put a range on record as `record_lost` does, except what was learned here or is there."""
        lost = ([x["start"], x["stop"]] for x in self.lost if x["partition"] == partition)
        for known_start, known_stop in sorted([*self.learned.get(partition, ()), *lost]):
            self.record_lost(partition, start, min(known_start, stop), reason)
            start = max(start, known_stop)
        self.record_lost(partition, start, stop, reason)

    def _note_range(self, partition: str, offset: int) -> None:
        ranges = self._learned.setdefault(partition, [])
        if not ranges or ranges[-1][1] != offset:
            ranges.append([offset, offset])

    # --- state ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The place in the sequence after the last batch taken, as JSON data."""
        return {
            "sequence": self.sequencer.to_json(),
            "learned": self.learned,
            "lost": [dict(lost) for lost in self.lost],
        }

    def restore(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Go on where `to_json` was called; returns the places of partitions, to be assigned.

        Raises
        ------
        StateError
            If the data is not its own.
        """
        try:
            self.sequencer = Sequencer.from_json({**data["sequence"], "partitions": {}}, self._skew)
            places: dict[str, Any] = dict(data["sequence"]["partitions"])
            self._learned = {n: [[a, b] for a, b in r] for n, r in data["learned"].items()}
            self.lost = [dict(lost) for lost in data["lost"]]
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the feed in the checkpoint cannot be read: {error!r}") from error
        return places
