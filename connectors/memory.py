"""Events from Python objects, outputs into a list: for tests, demos and embedding."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import (
    URL,
    Chunk,
    Connector,
    Output,
    Rows,
    Source,
    SourceBase,
    concatenate,
    split_evenly,
)
from connectors.errors import BadRecord, BadURL, OffsetOutOfRange

_POLL_INTERVAL_S = 0.005


class MemorySource(SourceBase):
    """A source over events that are already in memory. Commits are kept in the object.

    Parameters
    ----------
    data : the events of one partition, or a mapping of partition name to such
        Events are one of: `Rows`; a pair of arrays `(X, y)` or an array `X`; a list of dicts; a
        list of pairs `(dict, label)`; a list of bytes. All partitions hold the same sort.
    label : str
        The field that the label of a `(dict, label)` pair becomes.
    columns : tuple of str, optional
        The names of the columns of arrays.
    encoding : "json", "float32" or "csv"
        Encoding of the bytes.
    timestamps : sequence of int, or a mapping of partition to such, optional
        Milliseconds, ascending or not, one an event; an event's ordinal otherwise.
    live : bool
        More events may come through `extend`; the source is finished after `finish`.

    Attributes
    ----------
    commits : dict of partition to (offset, metadata)

    Examples
    --------
    >>> source = MemorySource([({"x": 1.0}, "up"), ({"x": 2.0}, "down")])
    >>> [chunk] = source.poll(10, 0.0)
    >>> chunk.values[0], source.finished()
    ({'x': 1.0, 'label': 'up'}, True)
    """

    def __init__(
        self,
        data: Any = (),
        *,
        label: str = "label",
        columns: tuple[str, ...] | None = None,
        encoding: str = "json",
        timestamps: Any = None,
        live: bool = False,
    ) -> None:
        parts = data if isinstance(data, Mapping) else {"0": data}
        self._label = label
        self._bytes_encoding = encoding
        self._values: dict[str, Sequence[Any]] = {}
        self._times: dict[str, npt.NDArray[np.int64] | None] = {}
        self._next: dict[str, int] = dict.fromkeys(sorted(parts), 0)
        self._live = live
        self.encoding = ""
        self.fields = columns
        self.commits: dict[str, tuple[int, str]] = {}
        for name in sorted(parts):
            self._values[name] = self._events(parts[name])
            given = timestamps.get(name) if isinstance(timestamps, Mapping) else timestamps
            self._times[name] = _as_times(given, len(self._values[name]))
        self.encoding = self.encoding or "dict"

    def _events(self, data: Any) -> Sequence[Any]:
        """`data` in the form it is polled in; notes the encoding it has."""
        values: Sequence[Any]
        if isinstance(data, Rows):
            encoding, values = "rows", data
        elif isinstance(data, np.ndarray):
            encoding, values = "rows", Rows(data)
        elif isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], np.ndarray):
            encoding, values = "rows", Rows(*data)
        else:
            values = list(data)
            if not values:
                return values
            first = values[0]
            if isinstance(first, tuple):
                encoding = "dict"
                values = [_labelled(x, y, self._label) for x, y in values]
            else:
                encoding = self._bytes_encoding if isinstance(first, bytes) else "dict"
        if self.encoding not in ("", encoding):
            raise BadRecord(f"one source holds both {self.encoding} and {encoding} events")
        self.encoding = encoding
        return values

    def extend(self, partition: str, data: Any, timestamps: Sequence[int] | None = None) -> None:
        """Add events at the end of a partition of a live source."""
        if not self._live:
            raise BadRecord("only a source with live=True can be extended")
        old, new = self._values[partition], self._events(data)
        times, more = self._times[partition], _as_times(timestamps, len(new))
        if len(old) and (times is None) != (more is None):
            raise BadRecord("either all events of a partition have timestamps or none has")
        if len(old) and times is not None and more is not None:
            more = np.concatenate([times, more])
        self._values[partition] = concatenate([old, new]) if len(old) else new
        self._times[partition] = more

    @property
    def has_times(self) -> bool:
        """True if timestamps were given for all partitions."""
        return all(times is not None for times in self._times.values())

    def finish(self) -> None:
        """No more events will come."""
        self._live = False

    def partitions(self) -> tuple[str, ...]:
        """The names of the partitions, sorted."""
        return tuple(self._next)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """The next events, shared evenly among the partitions."""
        deadline = time.monotonic() + timeout
        while not any(waiting := [len(self._values[p]) - at for p, at in self._next.items()]):
            left = deadline - time.monotonic()
            if left <= 0 or not self._live:
                return []
            time.sleep(min(left, _POLL_INTERVAL_S))
        shares = split_evenly(max_events, waiting)
        return [self._take(name, n) for name, n in zip(self._next, shares, strict=True) if n]

    def _take(self, partition: str, n: int) -> Chunk:
        start = self._next[partition]
        self._next[partition] = start + n
        offsets = np.arange(start, start + n, dtype=np.int64)
        times = self._times[partition]
        stamps = offsets if times is None else times[start : start + n]
        return Chunk(partition, offsets, stamps, self._values[partition][start : start + n])

    def seek(self, partition: str, offset: int) -> None:
        """Raises `OffsetOutOfRange` outside 0..end."""
        end = len(self._values[partition])
        if not 0 <= offset <= end:
            raise OffsetOutOfRange(
                f"partition {partition!r} holds offsets 0 to {end}, not {offset}",
                partition=partition,
                offset=offset,
            )
        self._next[partition] = offset

    def end(self, partition: str) -> int:
        """The number of events in the partition so far."""
        return len(self._values[partition])

    def lag(self) -> int:
        """The events not polled yet."""
        return sum(len(self._values[name]) - at for name, at in self._next.items())

    def committed(self, partition: str) -> tuple[int, str] | None:
        """The offsets that `commit` recorded in this object."""
        return self.commits.get(partition)

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        """Record offsets in `commits`."""
        self.commits.update({name: (offset, metadata[name]) for name, offset in offsets.items()})

    def finished(self) -> bool:
        """Return whether all was polled and no more can come."""
        return not self._live and self.lag() == 0


def _labelled(x: Mapping[Any, Any], y: Any, label: str) -> dict[Any, Any]:
    if label in x:
        raise BadRecord(f"an event has a field {label!r} beside its label; choose another label=")
    return {**x, label: y}


def _as_times(given: Any, n: int) -> npt.NDArray[np.int64] | None:
    if given is None:
        return None
    times = np.asarray(given, dtype=np.int64)
    if times.shape != (n,):
        raise BadRecord(f"{n} events and timestamps of shape {times.shape}")
    return times


class MemorySink:
    """A sink that is a list.

    Attributes
    ----------
    outputs : list of Output
        Everything written, in order.
    """

    def __init__(self) -> None:
        self.outputs: list[Output] = []

    def write(self, outputs: Sequence[Output]) -> None:
        """Append the outputs."""
        self.outputs.extend(outputs)

    def flush(self) -> None:
        """Does nothing: a list is as durable as its process."""

    def mark(self) -> int:
        """The number of outputs so far."""
        return len(self.outputs)

    def rewind(self, mark: int | None) -> None:
        """Drop the outputs after the mark. Raises `BadRecord` if the sink has fewer."""
        if mark is None:
            return
        if mark > len(self.outputs):
            raise BadRecord(f"the sink holds {len(self.outputs)} outputs, the mark says {mark}")
        del self.outputs[mark:]

    def close(self) -> None:
        """Does nothing."""


def _open_source(
    url: URL,
    *,
    data: Any = None,
    label: str = "label",
    columns: tuple[str, ...] | None = None,
    timestamps: Any = None,
    encoding: str = "json",
) -> Source:
    if data is None:
        raise BadURL(f"{url.text} has no events: open_source('memory:', data=...)")
    return MemorySource(
        data, label=label, columns=columns, timestamps=timestamps, encoding=encoding
    )


CONNECTOR = Connector(source=_open_source, sink=lambda _url: MemorySink())
