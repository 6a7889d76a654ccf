"""Events and labels as one source, whose partitions the engine puts into one sequence."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from connectors.base import (
    Chunk,
    Source,
    SourceBase,
    Trouble,
    Troubled,
)
from connectors.errors import OffsetOutOfRange
from streamk.encoding import FieldReader, Name, Rejected, milliseconds_of
from streamk.engine.late.options import LateLabels
from streamk.engine.order.clocks import NEVER
from streamk.engine.order.feed import Holding, Positioned
from streamk.errors import InvalidInput
from streamk.learners.base import Learner

__all__ = ["EVENTS", "LABELS", "JoinedSource", "joined"]

EVENTS, LABELS = "stream/", "labels/"
"""Beginnings of the names of partitions. Where clocks are equal the names decide: labels that
came until an event are learned before it is predicted."""


class JoinedSource(SourceBase):
    """Two sources as one: its partitions are those of both, with "stream/" or "labels/" before.

    Parameters
    ----------
    events, labels : Source
    time : str, optional
        The field that holds when a record was, see `LateLabels`. A record without one has the
        timestamp `NEVER`, which moves no clock.

    Examples
    --------
    >>> from connectors.memory import MemorySource
    >>> source = JoinedSource(MemorySource([{"id": 1}]), MemorySource([{"id": 1, "y": 2.0}]))
    >>> source.partitions()
    ('labels/0', 'stream/0')
    """

    def __init__(self, events: Source, labels: Source, *, time: Name | None = None) -> None:
        self._sources = {EVENTS: events, LABELS: labels}
        self.encoding, self.fields = events.encoding, events.fields
        self.record_format = events.record_format
        self._held: frozenset[str] = frozenset()
        self._times: dict[str, FieldReader] = {}
        if time is not None:
            self._times = {
                prefix: FieldReader.of_source(source, (time,))
                for prefix, source in self._sources.items()
            }

    @property
    def delimiter(self) -> str:
        """The character between the cells of the events' CSV."""
        return self._sources[EVENTS].delimiter

    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions of both, sorted."""
        names = [prefix + name for prefix, of in self._sources.items() for name in of.partitions()]
        return tuple(sorted(names))

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """Return new events of both, waiting for the first half the time for either."""
        found = self._polled(max_events, 0.0)
        if not found and timeout > 0.0:
            found = self._polled(max_events, timeout / 2.0)
        return found

    def _polled(self, max_events: int, timeout: float) -> list[Chunk]:
        found = []
        for prefix, source in self._sources.items():
            held = self._held_of(prefix)
            if held and held >= set(source.partitions()):
                continue  # there is nothing to ask for
            try:
                chunks = source.poll(max_events, timeout)
            except OffsetOutOfRange as error:
                raise OffsetOutOfRange(
                    str(error), partition=prefix + error.partition, offset=error.offset
                ) from error
            for chunk in chunks:
                if chunk.partition in held and not isinstance(source, Holding):
                    source.seek(chunk.partition, int(chunk.offsets[0]))
                else:
                    found.append(self._joined(prefix, chunk))
        return found

    def _joined(self, prefix: str, chunk: Chunk) -> Chunk:
        times = chunk.timestamps
        if self._times:
            cells = self._times[prefix].many(chunk.values)
            read = [None if isinstance(one, Rejected) else milliseconds_of(one[0]) for one in cells]
            times = np.array([NEVER if one is None else one for one in read], np.int64)
        return replace(chunk, partition=prefix + chunk.partition, timestamps=times)

    def hold(self, partitions: Collection[str]) -> None:
        """Do not read these partitions until the next call."""
        self._held = frozenset(partitions)
        for prefix, source in self._sources.items():
            if isinstance(source, Holding):
                source.hold(self._held_of(prefix))

    def _held_of(self, prefix: str) -> frozenset[str]:
        return frozenset(
            name.removeprefix(prefix) for name in self._held if name.startswith(prefix)
        )

    def seek(self, partition: str, offset: int) -> None:
        """Go to a position. Raises `OffsetOutOfRange` as the source does."""
        source, name = self._place(partition)
        try:
            source.seek(name, offset)
        except OffsetOutOfRange as error:
            raise OffsetOutOfRange(str(error), partition=partition, offset=error.offset) from error

    def position(self, partition: str) -> int:
        """Return the next offset to read, as far as the source knows it, else 0."""
        source, name = self._place(partition)
        return source.position(name) if isinstance(source, Positioned) else 0

    def start(self, partition: str) -> int:
        """Return the earliest position that can still be read."""
        source, name = self._place(partition)
        return source.start(name)

    def beginning(self, partition: str) -> int:
        """Return the position where a job begins that has none of its own."""
        source, name = self._place(partition)
        return source.beginning(name)

    def end(self, partition: str) -> int | None:
        """Return one past the last record there is now; None where that is not known."""
        source, name = self._place(partition)
        return source.end(name)

    def lag(self) -> int | None:
        """Return the records of both that were not polled yet, if known."""
        lags = [source.lag() for source in self._sources.values()]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    def finished(self) -> bool:
        """Return whether both have given their last record."""
        return all(source.finished() for source in self._sources.values())

    def ended(self) -> list[str]:
        """Return the partitions that have given their last record, where one source has."""
        return [
            prefix + name
            for prefix, source in self._sources.items()
            if source.finished()
            for name in source.partitions()
        ]

    def identity(self, partition: str, offset: int) -> str | None:
        """Return by what a partition is known again, if its source can tell."""
        source, name = self._place(partition)
        return source.identity(name, offset)

    def recognize(self, partition: str, identity: str) -> str | None:
        """Return how a partition is another by now; None if it is the same, as far as is known."""
        source, name = self._place(partition)
        return source.recognize(name, identity)

    def provisional(self, partition: str) -> int | None:
        """Return the position from which on events may be others when they are read again."""
        source, name = self._place(partition)
        return source.provisional(name)

    def unfinished(self) -> list[str]:
        """Return a sentence for everything that is not read of both."""
        return [told for source in self._sources.values() for told in source.unfinished()]

    def trouble(self) -> Trouble | None:
        """Return what is wrong with one of them; None if nothing is."""
        asked = [s.trouble() for s in self._sources.values() if isinstance(s, Troubled)]
        return next((trouble for trouble in asked if trouble is not None), None)

    def close(self) -> None:
        """Close both."""
        for source in self._sources.values():
            source.close()

    def _place(self, partition: str) -> tuple[Source, str]:
        prefix = EVENTS if partition.startswith(EVENTS) else LABELS
        return self._sources[prefix], partition.removeprefix(prefix)


def joined(
    events: Source, late: LateLabels, label: Name | None, model: Learner, *, learn: bool
) -> JoinedSource:
    """Return events and labels as one source.

    Raises `InvalidInput` where a job cannot have late labels.
    """
    late.check(events, label)
    if not learn:
        raise InvalidInput("labels= is for a job that learns")
    if model.models:
        raise InvalidInput(
            "challengers do not take late labels; leave out labels=, or give the champion alone"
        )
    return JoinedSource(events, late.source, time=late.time)
