"""Kafka topics as sources: groups, offsets, rebalances, and records in large fetches."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial

import numpy as np

from connectors.base import AssignedCallback, Chunk, RevokedCallback, SourceBase, Trouble
from connectors.cells import check_names
from connectors.errors import Aborted, BadURL, ConnectorError, Revoked
from connectors.formats import FramedFormat, enveloped, open_format
from connectors.kafka.client import Gone, Link, Listener, Reader, Reading, Records
from connectors.kafka.cluster import TopicWatch, out_of_range, partition_name, split_partition
from connectors.kafka.security import Security
from connectors.kafka.transaction import Transaction
from connectors.records import FRAMED


class KafkaSource(SourceBase):
    """One topic, read by a consumer group or, without a group, whole.

    With a `group` the partitions are those that the group gives to this member; they come and
    go during `poll` (see `set_rebalance`). Without one they are all that the topic has, those that
    it gets later come during `poll` (as `trouble` has seen them), and `commit` does nothing.

    A partition that nobody has sought starts at the group's committed offset, else where `start`
    says. A position that is gone raises `OffsetOutOfRange` and never moves by itself.

    Parameters
    ----------
    servers : tuple of str
        ``host:port`` of one broker or more.
    topic : str
    encoding : str
        Encoding of the values: "json", "float32", "csv", or "avro", "json-schema" or "protobuf"
        for framed records (`connectors.records`).
    fields : tuple of str, optional
        Names of the values in one event, where the events carry none.
    schemas : str, optional
        The address of a schema registry, or a directory of schemas, for "avro" and "protobuf".
    reader_schema : int, optional
        The number of the schema of Avro whose names fields get where their own are its aliases.
    envelope : str, optional
        "debezium" where the event is the `after` of the record (`connectors.formats`).
    group, group_instance_id : str, optional
        The consumer group, and the name of a static member in it (a static member that returns
        within `session_timeout` gets its partitions back without a rebalance).
    group_protocol : str
        "classic", or "consumer" where the broker divides the partitions (KIP-848), which takes the
        client "confluent".
    start : str
        Where to begin without a committed offset: "earliest", "latest", or a time, in ISO 8601 (UTC
        if it names no offset) or milliseconds since 1970: at the first event of that time or later,
        at the end where there is none.
    isolation_level : str
        "read_committed" (events of aborted transactions are not seen) or "read_uncommitted".
    session_timeout : float, optional
        Seconds without a heartbeat after which the group gives up a member; by default 45, or what
        the broker says.
    connect_timeout : float
        Seconds to wait for the first answer of a broker.
    security : Security, optional
        Default: from the environment (``STREAMK_KAFKA_*``).
    client : str, optional
        "confluent" (librdkafka, from the extra ``confluent``) or "kafka-python". Default: the
        first of them that is installed.

    Raises
    ------
    Unavailable
        No broker or registry answers, there is no such topic, or a package is not installed.
    BadURL
        An option has a value that cannot be used.

    Examples
    --------
    ::

        source = KafkaSource(("localhost:9092",), "clicks", group="model-7")
        chunks = source.poll(1000, timeout=0.5)
    """

    has_times = True

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        *,
        encoding: str = "json",
        fields: tuple[str, ...] | None = None,
        schemas: str | None = None,
        reader_schema: int | None = None,
        envelope: str = "",
        group: str | None = None,
        group_instance_id: str | None = None,
        group_protocol: str = "classic",
        start: str = "earliest",
        isolation_level: str = "read_committed",
        session_timeout: float | None = None,
        connect_timeout: float = 10.0,
        security: Security | None = None,
        client: str | None = None,
    ) -> None:
        if encoding not in _ENCODINGS:
            known = f"{', '.join(_ENCODINGS[:-1])} or {_ENCODINGS[-1]}"
            raise BadURL(f"kafka: encoding {encoding!r} must be {known}")
        check_names(fields or (), "kafka: fields")
        self._reading = Reading(
            topic, group, group_instance_id, group_protocol, isolation_level, session_timeout
        )
        self._format = open_format(encoding, schemas, reader_schema)
        self.record_format = enveloped(envelope, encoding, self._format)
        """The format of the records; None where they are read as the encoding says."""
        self.encoding = encoding
        self.fields = fields
        self._start = parse_start(start)
        self._topic, self.group = topic, group
        self._names: dict[int, str] = {}
        self._held: frozenset[str] = frozenset()
        self._on_revoked: RevokedCallback | None = None
        self._on_assigned: AssignedCallback | None = None
        self._callback_error: BaseException | None = None
        self._lost = False
        self._transaction: Transaction | None = None
        self.link = Link.to(servers, security, connect_timeout, client)
        """The way to Kafka."""
        self._errors = self.link.errors
        self._reader: Reader = self.link.client.reader(self.link.cluster, self._reading)
        self._watch = TopicWatch(topic, self._reader.describe)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that this member owns now, by number."""
        return tuple(self._names[number] for number in sorted(self._names))

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """At most `max_events` new events, one chunk a partition, waiting up to `timeout` seconds.

        A record without a value (a tombstone) has the value None. Rebalances happen in here: the
        callbacks are called, and an error that they raise is raised here. Records whose schema
        cannot be fetched, because no registry answers, are read again later.

        Raises `OffsetOutOfRange` where the next position of a partition is gone, `ConnectorError`
        where the topic is.
        """
        self._watch.check()
        if self.group is None and len(self._watch.numbers) > len(self._names):
            self._take(self._watch.numbers - self._names.keys())
        if self._format is not None and self._format.rest > 0.0:
            time.sleep(min(timeout, self._format.rest))
            return []
        self._callback_error = None
        try:
            found = self._reader.read(max_events, timeout)
        except Gone as gone:
            raise self._out_of_range(gone) from None
        except self.link.client.error as error:
            raise self.link.explain(error, f"reading {self._topic}") from None
        finally:
            # Clients make of a callback's error one of their own; the caller wants the original.
            wanted, self._callback_error = self._callback_error, None
            if wanted is not None:
                raise wanted
        chunks = []
        for records in sorted(found):
            name = self._names.get(records.number)
            if name is not None and self._format is not None:
                records = self._with_schemas(records, self._format)
            if name is None or not records.offsets:
                continue
            keys = list(records.keys)
            offsets = np.array(records.offsets, np.int64)
            times = np.array(records.timestamps, np.int64)
            no_keys = keys.count(None) == len(keys)
            chunks.append(Chunk(name, offsets, times, records.values, None if no_keys else keys))
        return chunks

    def seek(self, partition: str, offset: int) -> None:
        """The next event from `partition` is the first at or after `offset`.

        Raises `ConnectorError` for a partition that this member does not own. A position that is
        gone shows in the next `poll`.
        """
        number = self._owned(partition)
        with self._errors(f"seeking offset {offset} of {partition}"):
            self._reader.place(number, offset)

    def position(self, partition: str) -> int:
        """The next offset to read; `end` once every event up to there was polled.

        Not always the last event's offset plus one: transactions and compaction leave gaps, and
        a partition may end in one.
        """
        number = self._owned(partition)
        with self._errors(f"asking for the position of {partition}"):
            return self._reader.position(number)

    def hold(self, partitions: Collection[str]) -> None:
        """Do not read these partitions until the next call, which names those to hold then.

        For a reader that is far ahead in some partitions: nothing is lost, and no more of them is
        kept in memory. A partition that comes in a rebalance is not held.
        """
        held = frozenset(partitions)
        self._reader.hold({self._owned(name) for name in held - self._held})
        self._reader.unhold({n for n, name in self._names.items() if name in self._held - held})
        self._held = held

    def start(self, partition: str) -> int:
        """The earliest offset that can still be read."""
        number = self._known(partition)
        with self._errors(f"asking for the start of {partition}"):
            return self._reader.start(number)

    def identity(self, partition: str, offset: int) -> str | None:
        """The topic's identifier; a topic created again under the name has another one.

        None where brokers do not tell (before Kafka 2.8), none answers, or it is of another topic.
        """
        parts = split_partition(partition)
        return self._watch.identity() if parts is not None and parts[0] == self._topic else None

    def recognize(self, partition: str, identity: str) -> str | None:
        """Return a text if the topic is not the one of this identifier; else None."""
        if self.identity(partition, 0) in (None, identity):
            return None
        return (
            "is of another topic of this name: the former was deleted, and its unread records are "
            "lost"
        )

    def beginning(self, partition: str) -> int:
        """The offset where a job begins that has no position of its own; see `start`."""
        if self._start == "earliest":
            return self.start(partition)
        if self._start == "latest":
            return self.end(partition)
        number = self._known(partition)
        with self._errors(f"looking for a time in {partition}"):
            found = self._reader.at_time(number, int(self._start))
        return self.end(partition) if found is None else found

    def end(self, partition: str) -> int:
        """One past the last offset that can be read now.

        Reading committed events only, that is the last stable offset: nothing at or after the
        first open transaction. It counts the gaps too; compare it with `position`.
        """
        number = self._known(partition)
        with self._errors(f"asking for the end of {partition}"):
            return self._reader.ends((number,))[number]

    def lag(self) -> int | None:
        """Offsets not polled yet, as of the last fetches; None before every partition had one."""
        total = 0
        with self._errors("asking for the lag"):
            for number in self._names:
                highwater = self._reader.highwater(number)
                if highwater is None:
                    return None
                total += max(0, highwater - self._reader.position(number))
        return total

    def every(self) -> list[str]:
        """All partitions of the topic, whoever reads them, by number."""
        with self._errors(f"asking for the partitions of {self._topic}"):
            numbers = self._reader.numbers()
        return [partition_name(self._topic, number) for number in sorted(numbers)]

    def committed(self, partition: str) -> tuple[int, str] | None:
        """Offset and metadata that the group has committed; None without any, or without group."""
        if self.group is None:
            return None
        number = self._known(partition)
        with self._errors(f"asking for the committed offset of {partition}"):
            return self._reader.committed(number)

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        """Commit the next offset of each partition to the group, with metadata, all at once.

        Returns when the group has it. Without a group nothing is committed.

        Raises `Revoked` where this member has lost the partitions (what it read after its last
        commit will be read again by their new owner).
        """
        if self.group is None or not offsets:
            return
        if self._lost:
            raise Revoked(f"group {self.group} has given {', '.join(offsets)} to another member")
        wanted = {self._owned(name): (offset, metadata[name]) for name, offset in offsets.items()}
        try:
            with self._errors(f"committing to group {self.group}"):
                if self._transaction is None:
                    self._reader.commit(wanted)
                else:
                    self._transaction.commit(self._reader.for_transaction(wanted))
        except Revoked as error:
            # Any change of the group makes a commit outdated, also where this member keeps its
            # partitions and no rebalance comes.
            if self._reading.group_protocol == "consumer":
                raise Aborted(str(error)) from None
            raise

    def cluster_id(self) -> str | None:
        """Return the identifier that the cluster gives itself."""
        with self._errors("asking which cluster that is"):
            return self._reader.cluster_id()

    def join(self, transaction: Transaction) -> None:
        """Commit in a transaction from here on.

        Raises `BadURL` where the group may tell offsets that are about to change.
        """
        if self._reading.isolation_level != "read_committed":
            raise BadURL("kafka: transactions need isolation_level=read_committed")
        self._transaction = transaction

    def finished(self) -> bool:
        """False: a topic has no last event."""
        return False

    def set_rebalance(self, on_revoked: RevokedCallback, on_assigned: AssignedCallback) -> None:
        """Be told, during `poll`, which partitions go (before they do) and which have come.

        Every rebalance first revokes all partitions of this member, then assigns all that it has
        next; most come back. In `on_revoked` they are still owned and offsets can be committed
        (unless the group has already given them away: then `commit` raises `Revoked`). In
        `on_assigned` they can be sought. The callbacks may run in another thread while `poll`
        waits for them; they must not call `poll`.
        """
        self._on_revoked = on_revoked
        self._on_assigned = on_assigned

    def trouble(self) -> Trouble | None:
        """Tell of brokers that are gone, or of a registry; else see that the topic is there."""
        found = self.link.cluster.trouble(self._reader.connected())
        if found is None and self._format is not None:
            found = self._format.trouble()
        if found is None:
            self._watch.look()
        return found

    def close(self) -> None:
        """Leave the group and close the connections; commits nothing. May be called twice.

        `on_revoked` is not called.
        """
        with self._errors("closing"):
            self._reader.close()

    def __repr__(self) -> str:
        group = f", group={self.group!r}" if self.group else ""
        return f"KafkaSource({','.join(self.link.cluster.servers)!r}, {self._topic!r}{group})"

    def _open(self) -> None:
        """Find the topic; take its partitions, or join the group."""
        with self._errors(f"looking for topic {self._topic}"):
            numbers = self._reader.numbers()
            if not numbers:
                raise self.link.cluster.no_topic(self._topic, self._reader.topics())
            if self.group is not None:
                listener = Listener(
                    revoked=self._keeping_errors(partial(self._revoke, lost=False), self._without),
                    lost=self._keeping_errors(partial(self._revoke, lost=True), self._without),
                    assigned=self._keeping_errors(self._assign, self._named),
                )
                self._reader.join(listener)
                return
        self._take(numbers)
        for number in numbers:
            self._begin(number)

    def _take(self, numbers: Collection[int]) -> None:
        with self._errors(f"taking partitions of {self._topic}"):
            self._reader.take(numbers)
        self._names |= self._named(numbers)

    def _named(self, numbers: Collection[int]) -> dict[int, str]:
        return {number: partition_name(self._topic, number) for number in numbers}

    def _out_of_range(self, gone: Gone) -> ConnectorError:
        # The offset may be gone because the topic was created again. The first answer may have been
        # under way before that; the second is of the new topic.
        for _ in range(2):
            self._watch.look()
            self._watch.check()
        name = partition_name(self._topic, gone.number)
        try:
            return out_of_range(name, gone.offset, self.start(name), self.end(name))
        except ConnectorError:
            return out_of_range(name, gone.offset, None, None)

    def _with_schemas(self, records: Records, of: FramedFormat) -> Records:
        """Return the records whose schemas are known, and go back to the first of the others."""
        count = of.ready(records.values)
        if count == len(records.values):
            return records
        self._reader.place(records.number, records.offsets[count])
        return records.first(count)

    def _known(self, partition: str) -> int:
        """The number of any partition of the topic, owned or not."""
        parts = split_partition(partition)
        if parts is None or parts[0] != self._topic:
            raise ConnectorError(
                f"{partition!r} is not a partition of topic {self._topic!r}; they are named "
                f"{partition_name(self._topic, 0)!r} and so on"
            )
        return parts[1]

    def _owned(self, partition: str) -> int:
        number = self._known(partition)
        if number not in self._names:
            raise Revoked(
                f"{partition} does not belong to this reader (it has: "
                f"{', '.join(self.partitions()) or 'none'})"
            )
        return number

    def _revoke(self, numbers: Collection[int], *, lost: bool) -> None:
        """Tell the reader that partitions go; afterwards they are not owned any more."""
        self._lost = lost
        try:
            if self._on_revoked is not None and self._names:
                self._on_revoked(self.partitions())
        finally:
            self._names = self._without(numbers)
            self._lost = False

    def _without(self, numbers: Collection[int]) -> dict[int, str]:
        return {n: name for n, name in self._names.items() if n not in numbers}

    def _assign(self, numbers: Collection[int]) -> None:
        """Place new partitions at the group's offsets, then tell the reader, which may seek."""
        self._names = self._named(numbers)
        self._held = frozenset()
        self._reader.unhold(numbers)
        for number, name in self._names.items():
            committed = self.committed(name)
            if committed is None:
                self._begin(number)
            else:
                self._reader.place(number, committed[0])
        if self._on_assigned is not None:
            self._on_assigned(self.partitions())

    def _keeping_errors(
        self,
        tell: Callable[[Collection[int]], None],
        owned: Callable[[Collection[int]], dict[int, str]],
    ) -> Callable[..., None]:
        """Return what tells of a rebalance; its error goes to `poll`, not into the client.

        After an error only `owned` is asked for what there is now: the engine hears of the error
        first, and reads the partitions again if that does not end the run.
        """

        def told(numbers: Collection[int]) -> None:
            if self._callback_error is not None:
                self._names = owned(numbers)
                return
            try:
                tell(numbers)
            except BaseException as error:
                self._callback_error = error

        return told

    def _begin(self, number: int) -> None:
        earliest = self._start == "earliest"
        self._reader.place(number, None if earliest else self.beginning(self._names[number]))


# --- options --------------------------------------------------------------------------------------


_ENCODINGS = ("json", "float32", "csv", *FRAMED)


def parse_start(text: str) -> str | int:
    """Return "earliest", "latest", or the milliseconds since 1970 of a time. Raises `BadURL`.

    >>> parse_start("1700000000000"), parse_start("2023-11-14T23:13:20+01:00")
    (1700000000000, 1700000000000)
    """
    if text in ("earliest", "latest"):
        return text
    if text.isdecimal():
        return int(text)
    # In an address a plus stands for a space.
    for written in (text, "+".join(text.rsplit(" ", 1))):
        with contextlib.suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(written)
            return round(1000 * moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    raise BadURL(
        f"kafka: start {text!r} must be earliest, latest, a time of ISO 8601 such as"
        " 2024-02-29T18:30:00Z, or milliseconds since 1970"
    )
