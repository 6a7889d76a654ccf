"""Events and labels as one source, and how a batch of its sequence is taken apart again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from connectors.base import Chunk, Source, SourceBase, Trouble, Troubled, group_of
from connectors.errors import OffsetOutOfRange
from connectors.records import FRAMED
from streamk.encoding import (
    BadEvent,
    Decoder,
    FieldReader,
    LabelReader,
    Name,
    Rejected,
    Schema,
    key_of,
    milliseconds_of,
)
from streamk.engine.order.feed import Holding, Positioned
from streamk.engine.order.partitions import Batch
from streamk.engine.training.bad_events import tombstones_apart
from streamk.errors import InvalidInput
from streamk.memory.clock import NEVER

if TYPE_CHECKING:
    from streamk.late import LateLabels

EVENTS, LABELS = "stream/", "labels/"
"""Beginnings of the names of partitions. Where clocks are equal the names decide: labels that
came until an event are learned before it is predicted."""

NAMED = ("json", "csv", "dict", *FRAMED)
"""Encodings whose values have names."""


def check_source(source: Source, what: str, whose: str) -> None:
    """Raise `InvalidInput` unless the records of a source have named fields, for one process."""
    if source.encoding not in NAMED:
        raise InvalidInput(
            f"{whose} are for records with named fields ({', '.join(NAMED)}); the {what} are of"
            f" encoding {source.encoding!r}"
        )
    group = group_of(source)
    if group is not None:
        raise InvalidInput(
            f"a job with {whose} is one process: drop group={group} from the source of the {what}"
        )


def _asked(name: str) -> Any:
    """Return a method of `JoinedSource` that asks the source of a partition by its own name."""

    def ask(self: JoinedSource, partition: str, *more: Any) -> Any:
        source, own = self._place(partition)
        return getattr(source, name)(own, *more)

    return ask


class JoinedSource(SourceBase):
    """Two sources as one, with the partitions of both under "stream/" and "labels/".

    Without a source of labels it is that of the events, with times of their own.

    The field `time` holds when a record was, see `LateLabels`. A record without one has the
    timestamp `NEVER`, which moves no clock.

    Examples
    --------
    >>> from connectors.memory import MemorySource
    >>> source = JoinedSource(MemorySource([{"id": 1}]), MemorySource([{"id": 1, "y": 2.0}]))
    >>> source.partitions()
    ('labels/0', 'stream/0')
    """

    def __init__(self, events: Source, labels: Source | None, *, time: Name | None = None) -> None:
        self._sources = {EVENTS: events}
        if labels is not None:
            self._sources[LABELS] = labels
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

    start = _asked("start")
    beginning = _asked("beginning")
    end = _asked("end")
    identity = _asked("identity")
    recognize = _asked("recognize")
    provisional = _asked("provisional")

    def lag(self) -> int | None:
        """Return the records of both that were not polled yet, if known."""
        lags = [source.lag() for source in self._sources.values()]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    def share_read(self) -> float | None:
        """Return the lesser share of both that was read, if known."""
        shares = [source.share_read() for source in self._sources.values()]
        return None if None in shares else min(share for share in shares if share is not None)

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

    def unfinished(self) -> list[str]:
        """Return a sentence for everything that is not read of both."""
        return [told for source in self._sources.values() for told in source.unfinished()]

    def trouble(self) -> Trouble | None:
        """Return the current trouble of one of them; None if there is none."""
        asked = [s.trouble() for s in self._sources.values() if isinstance(s, Troubled)]
        return next((trouble for trouble in asked if trouble is not None), None)

    def close(self) -> None:
        """Close both."""
        for source in self._sources.values():
            source.close()

    def _place(self, partition: str) -> tuple[Source, str]:
        prefix = EVENTS if partition.startswith(EVENTS) else LABELS
        return self._sources[prefix], partition.removeprefix(prefix)


@dataclass
class Taken:
    """Events and labels of a batch of n, in its order, m of them events that can be used."""

    batch: Batch
    """With the names of partitions as the sources have them."""
    is_label: list[bool]
    keys: list[str | None]
    """None of what is bad."""
    labels: list[Any]
    rows: list[int]
    """Rows of events in `X`."""
    raw: list[Any]
    """The events of `X` as they came (m,)."""
    X: NDArray[np.float64]
    width: NDArray[np.int64]
    """Columns that there were when the event had come (m,)."""
    schema: Schema
    bad: list[BadEvent] = field(default_factory=list)
    tombstones: set[int] = field(default_factory=set)
    """Rows of the batch that are neither, but tell of a deletion."""
    slices: NDArray[np.float64] | None = None
    """Numbers of the events' slices (m,)."""

    def before(self, row: int) -> Taken:
        """Return the records before a row of the batch."""
        cut = slice(0, row)
        return replace(
            self,
            batch=self.batch.slice(0, row),
            is_label=self.is_label[cut],
            keys=self.keys[cut],
            bad=[event for event in self.bad if event.row < row],
            tombstones={place for place in self.tombstones if place < row},
        )


class RecordReader:
    """Reads keys and labels of records beside the columns of events.

    Parameters
    ----------
    key : str, optional
        The field by which labels and events find each other.
    schema : Schema
        That of the job, with the label.
    time : str, optional
        The field with the time, which every record must have.
    """

    def __init__(self, key: Name | None, schema: Schema, time: Name | None) -> None:
        self._key, self.label, self._time = key, schema.label, time
        self._as_label = LabelReader(schema).one

    def read(self, batch: Batch, decoder: Decoder) -> Taken:
        """Take a batch apart. Raises `BadRecord` as decoders do."""
        is_label = np.array([name.startswith(LABELS) for name in batch.names], bool)[batch.codes]
        plain = [name.removeprefix(LABELS).removeprefix(EVENTS) for name in batch.names]
        n, known = len(batch), len(decoder.schema.columns)
        keys, labels = list[Any]([None] * n), list[Any]([None] * n)
        bad: dict[int, BadEvent] = {}
        self._read_fields(batch, is_label, keys, labels, bad)
        # Those without a key or with a bad label are not decoded: they leave no column.
        at_events = [row for row in np.flatnonzero(~is_label).tolist() if row not in bad]
        events = [batch.values[row] for row in at_events]
        decoded = decoder.decode(events)
        rows = [-1] * n
        for i, row in enumerate(decoded.good.tolist()):
            rows[at_events[row]] = i
        bad |= {at_events[e.row]: e._replace(row=at_events[e.row]) for e in decoded.bad}
        if self._time is not None:
            for row in np.flatnonzero(batch.timestamps == NEVER).tolist():
                reason = f"time missing: {self._time!r} holds no time"
                bad.setdefault(row, BadEvent(row, self._time, reason))
        for row in bad:
            keys[row] = None
        width = np.full(len(decoded.X), known, np.int64)
        for row, columns in decoded.growth:
            width[row:] = columns
        times = np.where(batch.timestamps == NEVER, np.maximum(batch.clocks, 0), batch.timestamps)
        return Taken(
            replace(batch, names=plain, timestamps=times),
            is_label.tolist(),
            keys,
            labels,
            rows,
            [events[row] for row in decoded.good.tolist()],
            decoded.X,
            width,
            decoder.schema,
            *tombstones_apart([bad[row] for row in sorted(bad)], batch.values),
        )

    @abstractmethod
    def _parts(self, is_label: NDArray[np.bool_]) -> list[tuple[FieldReader, NDArray[Any], bool]]:
        """Return readers of keys, of which records (n,), and whether a label is the last field."""

    def _read_fields(
        self,
        batch: Batch,
        is_label: NDArray[np.bool_],
        keys: list[str | None],
        labels: list[Any],
        bad: dict[int, BadEvent],
    ) -> None:
        """Read keys of records, and labels of those that have one; note unusable ones."""
        for fields, there, labelled in self._parts(is_label):
            places = np.flatnonzero(there).tolist()
            values = [batch.values[row] for row in places]
            for row, cells in zip(places, fields.many(values), strict=True):
                try:
                    if isinstance(cells, Rejected):
                        raise cells
                    key = "" if self._key is None else key_of(cells[0], self._key)
                    if labelled:
                        labels[row] = self._as_label(cells[-1])
                    keys[row] = key
                except Rejected as rejection:
                    bad[row] = BadEvent(row, rejection.column, rejection.reason)
                    continue
                if is_label[row] and labels[row] is None:
                    reason = f"label missing: the record of a label has no {self.label!r}"
                    bad[row] = BadEvent(row, self.label, reason)


class LateReader(RecordReader):
    """Reads keys of events and labels, and labels, by the schema of the job."""

    def __init__(self, events: Source, late: LateLabels, schema: Schema) -> None:
        super().__init__(late.key, schema, late.time)
        labels = late.source
        self._event_keys = FieldReader.of_source(events, (late.key,))
        names = (late.key,) if schema.label is None else (late.key, schema.label)
        self._cells = FieldReader.of_source(labels, names)
        self.default = None if late.default is None else self._read_default(late.default)

    def _read_default(self, value: Any) -> Any:
        """Return the label by default. Raises `InvalidInput` if it is none of this job."""
        try:
            label, why = self._as_label(value), "it reads as a missing one"
        except Rejected as rejected:
            label, why = None, rejected.reason
        if label is None:
            raise InvalidInput(f"default={value!r} (--label-default) is not a label: {why}")
        return label

    def _parts(self, is_label: NDArray[np.bool_]) -> list[tuple[FieldReader, NDArray[Any], bool]]:
        return [(self._event_keys, ~is_label, False), (self._cells, is_label, True)]


class SeriesReader(RecordReader):
    """Reads the labels of events, and the names of their series, by the schema of the job."""

    def __init__(
        self, events: Source, series: Name | None, schema: Schema, time: Name | None
    ) -> None:
        super().__init__(series, schema, time)
        names = [name for name in (series, schema.label) if name is not None]
        self._cells = FieldReader.of_source(events, names)

    def _parts(self, is_label: NDArray[np.bool_]) -> list[tuple[FieldReader, NDArray[Any], bool]]:
        return [(self._cells, ~is_label, True)]
