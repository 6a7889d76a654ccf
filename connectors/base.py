"""The two protocols, `Source` and `Sink`, and the few types that pass through them.

A position is an integer offset inside a named partition. Offsets of one partition ascend but
need not be dense (Kafka leaves gaps where transactions end). "The offset of a partition" always
means the next event to read, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from connectors.records import RecordFormat

ENCODINGS = ("json", "float32", "csv", "dict", "rows", "avro", "json-schema", "protobuf")
"""The encodings of a source's values.

json      bytes, one JSON object
float32   bytes, little-endian float32 numbers, the label last unless the fields say otherwise
csv       bytes, one CSV record; the source's `fields` are the header (see also its `delimiter`)
dict      a mapping of column name to value
rows      a `Rows` slice: the numbers are already in an array
avro, json-schema, protobuf   bytes, a framed record (see `connectors.records`)
"""

MAX_EVENT_BYTES = 1 << 20
"""Default limit on the size of one event, 1 MiB: Kafka's own default for a message."""

Int64s = npt.NDArray[np.int64]


class Rows(Sequence[tuple[npt.NDArray[np.float64], Any]]):
    """Events that are already numbers. Slices are views; nothing is copied.

    Parameters
    ----------
    X : float64 array (n, d)
        Other numeric types are converted once.
    y : sequence (n,) or None
        Labels; None or NaN in it marks an event that is only to be predicted. Without `y` all
        events are.

    Examples
    --------
    >>> rows = Rows(np.eye(3), ["a", "b", None])
    >>> len(rows[1:]), rows[1:].y
    (2, ['b', None])
    """

    __slots__ = ("X", "y")

    def __init__(self, X: npt.ArrayLike, y: Sequence[Any] | npt.NDArray[Any] | None = None) -> None:
        self.X: npt.NDArray[np.float64] = np.asarray(X, dtype=np.float64)
        self.y = y
        if self.X.ndim != 2:
            raise ValueError(f"X must have two dimensions (events, columns), not {self.X.ndim}")
        if y is not None and len(y) != len(self.X):
            raise ValueError(f"X has {len(self.X)} events and y has {len(y)} labels")

    def __len__(self) -> int:
        return len(self.X)

    @overload
    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.float64], Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Any:
        y = None if self.y is None else self.y[index]
        return Rows(self.X[index], y) if isinstance(index, slice) else (self.X[index], y)

    @staticmethod
    def join(parts: Sequence[Rows]) -> Rows:
        """One `Rows` of several with the same columns; `y` becomes a list."""
        if len(parts) == 1:
            return parts[0]
        X = np.concatenate([part.X for part in parts])
        if all(part.y is None for part in parts):
            return Rows(X)
        y: list[Any] = []
        for part in parts:
            if part.y is None:
                y.extend([None] * len(part))
            else:
                y.extend(part.y.tolist() if isinstance(part.y, np.ndarray) else part.y)
        return Rows(X, y)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive events of one partition."""

    partition: str
    offsets: Int64s
    """Ascending (n,)."""
    timestamps: Int64s
    """Milliseconds since 1970; the event's ordinal where the source has no time of its own (n,)."""
    values: Sequence[Any]
    """Raw events (n,), to be read as the source's `encoding` says; slices have the same type."""
    keys: list[bytes | None] | None = None
    """One key an event, where the source has keys."""

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, start: int, stop: int) -> Chunk:
        """Events `start` to `stop`, counted inside this chunk."""
        cut = slice(start, stop)
        keys = None if self.keys is None else self.keys[cut]
        return Chunk(
            self.partition, self.offsets[cut], self.timestamps[cut], self.values[cut], keys
        )


def concatenate(values: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """One sequence of raw events out of several of the same encoding, in the given order.

    >>> concatenate([[b"1"], [b"2", b"3"]])
    [b'1', b'2', b'3']
    """
    if len(values) == 1:
        return values[0]
    rows = [part for part in values if isinstance(part, Rows)]
    if rows:
        return Rows.join(rows)
    return [value for part in values for value in part]


class Output(NamedTuple):
    """One thing to write: a prediction or a dead letter, with the position of its input.

    `value` holds only what JSON can: str, int, float, bool, None, lists and dicts of them. A tuple,
    as one is made for every event.
    """

    partition: str
    offset: int
    timestamp: int
    key: bytes | None
    value: dict[str, Any]


RevokedCallback = Callable[[tuple[str, ...]], None]
AssignedCallback = Callable[[tuple[str, ...]], None]


@runtime_checkable
class Source(Protocol):
    """A place that events come from; a class of one gets plain answers from `SourceBase`."""

    encoding: str
    """One of `ENCODINGS`."""
    fields: tuple[str, ...] | None
    """The names of the values in one event where the events carry none themselves: the header of a
    CSV file, the numbers of a float32 record (label included), the columns of `Rows` (label not
    included)."""

    @property
    def delimiter(self) -> str:
        """The character between the cells of CSV."""
        return ","

    @property
    def has_times(self) -> bool:
        """True if timestamps are times of events, not ordinals."""
        return False

    @property
    def record_format(self) -> RecordFormat | None:
        """The format of framed records; None where records are read as the encoding says."""

    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that are read by this member now, sorted.

        Where it reads alone, `poll` may add to them.
        """

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """At most `max_events` new events, waiting up to `timeout` seconds for the first.

        An empty list means that there was nothing yet; `finished` tells whether there will be.
        Raises `OffsetOutOfRange` where the next position is gone.
        """

    def seek(self, partition: str, offset: int) -> None:
        """The next event read from `partition` is the first at or after `offset`.

        Raises `OffsetOutOfRange` where the source can tell at once that it cannot.
        """

    def start(self, partition: str) -> int:
        """The earliest position that can still be read."""
        return 0

    def beginning(self, partition: str) -> int:
        """The position where a job begins that has no checkpoint and no committed offset."""
        return self.start(partition)

    def end(self, partition: str) -> int | None:
        """One past the last event now in the partition; None if unknown."""

    def lag(self) -> int | None:
        """Number of events in all partitions that were not polled yet; None if unknown."""
        return None

    def share_read(self) -> float | None:
        """Part of a bounded source that was read, from 0 to 1; None where that is not known."""
        return None

    def committed(self, partition: str) -> tuple[int, str] | None:
        """Offset and metadata of the last commit; None where the source keeps none."""
        return None

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        """Record the next position of each partition and a text, where the source can keep it.

        Raises `Revoked` where a group has given the partitions to another member.
        """

    def finished(self) -> bool:
        """True once a bounded source has given its last event."""

    def set_rebalance(self, on_revoked: RevokedCallback, on_assigned: AssignedCallback) -> None:
        """Be told, during `poll`, which partitions go (before they do) and which come."""

    def identity(self, partition: str, offset: int) -> str | None:
        """Return a fingerprint of what was read up to an offset, for `recognize`.

        None where the source cannot tell.
        """
        return None

    def recognize(self, partition: str, identity: str) -> str | None:
        """Return how the partition differs from the one that `identity` describes.

        None if it is the same, or if the source cannot tell; its offsets then mean the same events.
        Called before `seek`.
        """
        return None

    def provisional(self, partition: str) -> int | None:
        """Return the first position whose event may differ when it is read again.

        None if all that were polled are final; not so the last line of a file being written.
        """
        return None

    def unfinished(self) -> list[str]:
        """Return a sentence for each part of the data that is not read."""
        return []

    def close(self) -> None:
        """Close files and connections. May be called twice."""


@runtime_checkable
class InGroup(Protocol):
    """A source whose partitions may be divided among several processes of one job."""

    @property
    def group(self) -> str | None:
        """The name by which they find each other; None if this one reads alone."""

    def every(self) -> Sequence[str]:
        """Names of all partitions, new ones last."""


def group_of(source: object) -> str | None:
    """Return the name by which a source shares its partitions; None if it reads alone."""
    return (source.group or None) if isinstance(source, InGroup) else None


class Trouble(NamedTuple):
    """A condition that keeps a source or a sink from working at the moment.

    `short` says it in two words, `text` in a sentence; `over` is what to say when it is over.
    """

    short: str
    text: str
    over: str = "over"


@runtime_checkable
class Troubled(Protocol):
    """A source or a sink that can tell what it waits for, such as a broker that is down."""

    def trouble(self) -> Trouble | None:
        """Return a description of the current trouble; None if there is none.

        Asked about once a second, in another thread, also while a call of another method waits. May
        take two seconds.
        """


class SourceBase(Source):
    """A source with a fixed set of partitions, no commits, and nothing to report."""

    fields: tuple[str, ...] | None = None
    record_format: RecordFormat | None = None

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        """Does nothing: the position lives in the reader's own checkpoint."""

    def set_rebalance(self, on_revoked: RevokedCallback, on_assigned: AssignedCallback) -> None:
        """Does nothing: the partitions never change."""

    def close(self) -> None:
        """Does nothing."""


@runtime_checkable
class Sink(Protocol):
    """A place that outputs go to."""

    def write(self, outputs: Sequence[Output]) -> None:
        """Take the outputs; they are safe only after the next `flush`."""

    def flush(self) -> None:
        """Return once all written outputs are durable; raise if one could not be written."""

    def mark(self) -> Any:
        """Flush, and name this point (a JSON value); None where the sink cannot be rewound."""

    def rewind(self, mark: Any) -> None:
        """Go back to where `mark` was taken; nothing happens on a mark of None.

        What was written after it is dropped, or stays and is not written again.
        """

    def close(self) -> None:
        """Flush and close. May be called twice."""


class Transactions(Protocol):
    """The transactions of some sinks, one after the other."""

    def begin_as(self, name: str) -> None:
        """Become the only writer of this name, with an empty transaction.

        When it returns, transactions begun under the name, here or by another process, are
        committed or aborted. The other process can commit nothing any more.

        Raises `ConnectorError` if a third process has taken the name since.
        """


@runtime_checkable
class Transactional(Protocol):
    """A sink that can write in transactions."""

    def transact(self, source: Source, others: Sequence[Sink], seconds: float) -> Transactions:
        """Write in transactions after `begin_as`, together with the other transactional sinks.

        One is committed by `Sink.mark`; where the source is in a group, by `Source.commit`, with
        the offsets. It must be committed within so many seconds.

        Raises `BadURL` for sinks and groups that cannot be in one transaction.
        """


class EventLog(Protocol):
    """A log that events are added to, which a source of the same address reads."""

    def append(self, events: Sequence[bytes]) -> None:
        """Add events, each one object of JSON in one line; durable when it returns.

        Raises `BadRecord` if one of them can never be added, and `ConnectorError` if they cannot be
        added now.
        """

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True, slots=True)
class URL:
    """An address taken apart: `scheme:path?option=value&...` or `scheme://host/path?...`."""

    text: str
    """The address without its options, fit to be shown."""
    scheme: str
    host: str
    """The part between `//` and the next slash, several with commas between them; else ""."""
    path: str
    """It has no leading slash where there is a host."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connector:
    """The object of an entry point of the group `streamk.connectors`; its name is the scheme.

    `source`, `sink` and `log` are called with the `URL` and options by keyword. Options are the
    keyword-only parameters of the function: `bool`, `int`, `float`, `str` and `tuple[str, ...]`
    (separated by commas) are converted from the text in the address by their annotation; an
    option that the function does not have is refused before it is called, unless it takes
    `**options`.
    """

    source: Callable[..., Source] | None = None
    sink: Callable[..., Sink] | None = None
    log: Callable[..., EventLog] | None = None


def split_evenly(total: int, wanted: Iterable[int]) -> list[int]:
    """Share `total` among takers that want the given amounts, as evenly as that allows.

    >>> split_evenly(10, [2, 9, 9])
    [2, 4, 4]
    """
    amounts = list(wanted)
    shares = [0] * len(amounts)
    order = sorted(range(len(amounts)), key=amounts.__getitem__)
    for done, i in enumerate(order):
        shares[i] = min(amounts[i], total // (len(amounts) - done))
        total -= shares[i]
    return shares
