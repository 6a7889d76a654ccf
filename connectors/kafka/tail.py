"""Finds the end of an output topic, and the outputs of a writer that it already holds."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from connectors.base import Output
from connectors.errors import ConnectorError
from connectors.formats import JSONOutputs
from connectors.kafka.client import MAX_UNFLUSHED, Gone, Headers, Link, Reader, Reading, Records
from connectors.kafka.cluster import partition_name, split_partition

_log = logging.getLogger("streamk.connectors")

Place = tuple[str, int]
"""Partition and offset of the input of an output."""


class Standing:
    """The outputs of one writer that its sink already holds after a mark.

    A job that is resumed from a checkpoint produces the same outputs again, in the same order.
    Kafka cannot take records back, so the sink reads those that it wrote after the mark and skips
    each that comes again. If one differs (another version of the model or the library), the record
    that was written first stays, and the difference is counted. A prediction marked as a revision
    replaces the record, so it is written unless it says the same.

    `where` names the sink, for messages. It may have accepted `held_back` outputs, at most, that
    were not written when its process died: when more in a row than that are not among those held,
    the rest will not come again, because their events are gone, or another process has them.

    Examples
    --------
    >>> standing = Standing("topic 'scores'", held_back=100)
    >>> standing.add("clicks:0", 7, None, {"prediction": 1})
    >>> seven = Output("clicks:0", 7, 0, None, {"prediction": 1})
    >>> [output.offset for output in standing.without([seven, seven._replace(offset=8)])]
    [8]
    """

    def __init__(self, where: str, held_back: int) -> None:
        self._where, self._held_back = where, held_back
        self._found: dict[Place, bytes] = {}
        self._by_key: defaultdict[bytes, list[Place]] = defaultdict(list)
        self._missed = 0
        self.differing = 0
        """Outputs that the sink holds with another content than they have now."""

    def __len__(self) -> int:
        return len(self._found)

    def add(self, partition: str, offset: int, key: bytes | None, value: Mapping[str, Any]) -> None:
        """Add a record that the sink holds; of several for one input the last counts."""
        place = partition, offset
        self._found[place] = _digest(value)
        if key is not None:
            self._by_key[key].append(place)

    def without(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Return the outputs that the sink does not hold, in their order."""
        return [output for output in outputs if not self._has(output)] if self._found else outputs

    def _has(self, output: Output) -> bool:
        digest = self._found.pop((output.partition, output.offset), None)
        if digest is None:
            self._missed += 1
            # In a compacted topic a later record of the same key may still be there. It is written
            # again after this one, so that the last record of a key stays the last.
            for place in self._by_key.pop(output.key, ()) if output.key is not None else ():
                self._found.pop(place, None)
            return False
        self._missed = 0
        if digest == _digest(output.value):
            return True
        if output.value.get("revision") is True:
            return False
        self.differing += 1
        if self.differing == 1:
            _log.warning(
                "the output for %s offset %d differs from its record in %s, written before a "
                "restart: the model or the library has changed. The record stays, and further "
                "differences are only counted",
                *(output.partition, output.offset, self._where),
            )
        return True

    def is_over(self) -> bool:
        """Return whether none of the records that the sink holds will come again."""
        if self._missed > self._held_back:
            self._found.clear()
        if self._found:
            return False
        self._by_key.clear()
        if self.differing:
            _log.warning(
                "%s outputs differ from their records in %s, written before a restart",
                *(f"{self.differing:,}", self._where),
            )
            self.differing = 0
        return True


def _digest(value: Mapping[str, Any]) -> bytes:
    """Return a digest of a record, leaving out whether it is a revision.

    The order of an object's entries does not count: Protobuf has an order of its own.
    """
    content = {name: entry for name, entry in value.items() if name != "revision"}
    return hashlib.blake2b(
        msgspec.json.encode(content, order="deterministic"), digest_size=16
    ).digest()


WRITER = "streamk-writer"
"""The header that tells whose record it is."""
_TOPIC, _PARTITION, _OFFSET = "streamk-topic", "streamk-partition", "streamk-offset"

_AT_ONCE = 10_000
"""Records of a poll."""
_SILENCE = 10.0
"""Seconds without a record after which the reason is told."""


def origin_of(partition: str, writer: str) -> list[tuple[str, bytes]]:
    """Return the headers that all outputs of a writer for a partition have in common."""
    position = split_partition(partition)
    if position is None:
        where = [(_PARTITION, partition.encode())]
    else:
        topic, number = position
        where = [(_TOPIC, topic.encode()), (_PARTITION, b"%d" % number)]
    return [(WRITER, writer.encode()), *where]


class Tail:
    """The end of a topic, for a sink that writes to it; connects when it is first asked."""

    def __init__(self, link: Link, topic: str, read_as: JSONOutputs) -> None:
        self._link, self._topic, self._format = link, topic, read_as
        self._connections = contextlib.ExitStack()

    @functools.cached_property
    def _asking(self) -> Reader:
        """The reader that tells the ends, those of open transactions included."""
        question = Reading(self._topic, isolation_level="read_uncommitted", polled=False)
        reader = self._link.client.reader(self._link.cluster, question)
        self._connections.callback(reader.close)
        return reader

    def ends(self) -> dict[int, int]:
        """Return the offset behind the last record of each partition."""
        with self._link.errors(f"asking for the end of {self._topic}"):
            return dict(self._asking.ends(self._asking.numbers()))

    def find(self, writer: str, after: Mapping[int, int]) -> tuple[Standing, dict[int, int]]:
        """Return the outputs of a writer after some offsets, and where each partition was begun.

        A partition that `after` lacks, and one that ends before its offset because the topic was
        made anew, is read from its start. Of transactions only those count that were committed;
        waits for the end of those that are open.
        """
        # A writer may have begun one batch more than it holds back.
        standing = Standing(f"topic {self._topic!r}", 2 * MAX_UNFLUSHED)
        begun: dict[int, int] = {}
        for records in self._behind(after, begun):
            self._collect(records, writer.encode(), standing)
        if standing:
            _log.info(
                "%s outputs are in %s already", f"{len(standing):,}", f"topic {self._topic!r}"
            )
        return standing, begun

    def count(self, writer: str, after: Mapping[int, int]) -> int:
        """Return how many records of a writer `find` would look at."""
        name = writer.encode()
        return sum(
            dict(headers).get(WRITER) == name
            for records in self._behind(after, {})
            for headers in records.headers
        )

    def _behind(self, after: Mapping[int, int], begun: dict[int, int]) -> Iterator[Records]:
        """Yield the committed records behind some offsets; `begun` gets where each was begun."""
        with self._link.errors(f"reading the end of {self._topic}"):
            left = {}
            for number, end in self.ends().items():
                begin = after.get(number, 0)
                begun[number] = begin if begin <= end else 0
                start = max(self._asking.start(number), begun[number])
                if start < end:
                    left[number] = start, end
            if left:
                yield from self._read(left)

    def _read(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Records]:
        """Yield the committed records of ranges of offsets, by partition."""
        reader = self._link.client.reader(self._link.cluster, Reading(self._topic, headers=True))
        with contextlib.closing(reader):
            reader.take(ranges)
            for number, (start, _) in ranges.items():
                reader.place(number, start)
            told, heard = False, time.monotonic()
            while any(reader.position(number) < end for number, (_, end) in ranges.items()):
                try:
                    found = reader.read(_AT_ONCE, 0.2)
                except Gone as gone:  # deleted since it was asked where the partition starts
                    reader.place(gone.number, reader.start(gone.number))
                    continue
                yield from found
                if found:
                    heard = time.monotonic()
                elif not told and time.monotonic() - heard > _SILENCE:
                    told = True
                    _log.warning(
                        "waiting for the end of topic %r: the transaction of another producer"
                        " is open there, or no broker answers",
                        self._topic,
                    )

    def _collect(self, records: Records, writer: bytes, standing: Standing) -> None:
        found = [_place(headers, writer) for headers in records.headers]
        own = [n for n, place in enumerate(found) if place is not None]
        contents = self._format.contents([records.values[n] for n in own])
        for n, content in zip(own, contents, strict=True):
            partition, offset = found[n] or ("", 0)
            standing.add(partition, offset, records.keys[n], content)

    def cluster_id(self) -> str | None:
        """Return the identifier that the cluster gives itself."""
        with self._link.errors("asking which cluster that is"):
            return self._asking.cluster_id()

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._connections.close()


def _place(headers: Headers, writer: bytes) -> tuple[str, int] | None:
    """Return partition and offset of the input of a record; None for one of another writer."""
    found = dict(headers)
    if found.get(WRITER) != writer:
        return None
    try:
        partition, offset = (found[_PARTITION] or b"").decode(), int(found[_OFFSET] or b"")
        topic = found.get(_TOPIC)
        name = partition if topic is None else partition_name(topic.decode(), int(partition))
    except (KeyError, ValueError) as error:
        raise ConnectorError(f"a record of the writer {writer!r} has other headers") from error
    return name, offset
