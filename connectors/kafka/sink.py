"""Kafka topics as sinks of outputs, and as logs that events are added to."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from connectors.base import Output, Sink, Source, Trouble
from connectors.errors import Aborted, BadRecord, ConnectorError, Unavailable
from connectors.fields import RecordType
from connectors.formats import open_output_format
from connectors.kafka.client import Link, Producer, TooLarge, Writer, Writing
from connectors.kafka.security import Security
from connectors.kafka.source import KafkaSource
from connectors.kafka.tail import Standing, Tail, origin_of
from connectors.kafka.transaction import Transaction

_MOST_PARTITIONS = 1 << 12
"""Partitions of inputs whose headers are kept."""


class KafkaSink:
    """Writes each output as one record, idempotently, to every in-sync replica.

    The record has the input's key and, in its headers, the input's position: ``streamk-topic``,
    ``streamk-partition`` and ``streamk-offset``, decimal numbers as text (for an input that did
    not come from Kafka there is no topic, and the partition is the source's name of it). The header
    ``streamk-writer`` tells the sink whose record it is: 12 hexadecimal digits, drawn at random for
    a job and kept in its marks.

    Nothing is written twice: after `rewind` the sink reads what it has written behind the mark, and
    leaves out what is there already (`connectors.kafka.tail`). A topic may have several partitions,
    other writers, and more partitions than before. Where records of the sink were deleted from the
    topic meanwhile, they are written again, and those of their keys that came later. What brokers
    take from a dead process after the topic was read, or have not replicated then, is not seen.

    After `transact` it writes in transactions (`connectors.kafka.transaction`): what is open when a
    process dies is aborted before the topic is read.

    Records are JSON, or framed records of Avro, JSON Schema or Protobuf (`connectors.records`) with
    a schema that is made of the fields which `declare` tells, and kept under the subject
    ``TOPIC-value``.

    Parameters
    ----------
    servers : tuple of str
        ``host:port`` of one broker or more.
    topic : str
        Where the broker creates topics by itself, it need not exist.
    delivery_timeout : float
        Seconds in which the brokers must have taken a record, retries included.
    encoding : str
        "json", "avro", "json-schema" or "protobuf".
    schemas : str, optional
        The address of a schema registry, or a directory of schemas, for all but "json".
    connect_timeout, security, client
        See `KafkaSource`.

    Raises
    ------
    Unavailable
        No broker or registry answers, there is no such topic, or a package is not installed.
    BadURL
        An option has a value that cannot be used.
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        *,
        encoding: str = "json",
        schemas: str | None = None,
        delivery_timeout: float = 120.0,
        connect_timeout: float = 10.0,
        security: Security | None = None,
        client: str | None = None,
    ) -> None:
        self._topic = topic
        self._format = open_output_format(encoding, schemas)
        self.link = Link.to(servers, security, connect_timeout, client)
        """The way to Kafka."""
        self._writing = Writing(topic, delivery_timeout)
        self._writer: Writer = self.link.writer(self._writing)
        self._tail = Tail(self.link, topic, self._format)
        self.cluster_id = self._tail.cluster_id
        self._name = secrets.token_hex(6)
        self._headers: dict[str, list[tuple[str, bytes]]] = {}
        self._standing = Standing("", 0)
        self._ends: Mapping[int, int] | None = None
        """The last that is known of the topic's ends."""
        self._found_ends: Mapping[int, int] | None = None
        """Those of the transaction that is being committed."""
        self._from: Mapping[int, int] | None = None
        """The offsets where reading began, while outputs that the topic holds are to come again."""
        self._transaction: Transaction | None = None
        self._closed = False
        self._connections = contextlib.ExitStack()
        self._connections.callback(lambda: (self._transaction or self._writer).close())
        self._connections.callback(self._tail.close)

    @property
    def address(self) -> str:
        """The topic: by it a mark is known to be of this sink."""
        return f"kafka:{self._topic}"

    def declare(self, record: RecordType) -> None:
        """Write outputs of this type from here on; see `connectors.fields.Declaring`."""
        self._format.declare(record, f"{self._topic}-value")

    def write(self, outputs: Sequence[Output]) -> None:
        """Hand the outputs to the producer; they are safe only after the next `flush`.

        Raises `BadRecord` for an output that is too large or that the format cannot hold.
        """
        if self._from is not None:
            outputs = self._standing.without(outputs)
        if self._transaction is not None and outputs:
            self._transaction.begin()
        # What can be is done once for all outputs: this is the hot loop of a run that predicts.
        encode, send = self._format.encode, self._writer.send
        partition: str | None = None
        for output in outputs:
            if output.partition != partition:
                partition = output.partition
                origin = self._headers.get(partition) or self._origin(partition)
            try:
                value = encode(output.value)
            except (TypeError, ValueError) as error:
                raise BadRecord(
                    f"{_place(output)} cannot be written as {self._format.name}: {error}"
                ) from None
            try:
                send(value, output.key, [*origin, ("streamk-offset", b"%d" % output.offset)])
            except TooLarge as error:
                raise BadRecord(f"{_place(output)} is too large for Kafka: {error}") from None
            except self.link.client.error as error:
                raise self._explained(error, f"writing {_place(output)} to {self._topic}") from None
        with self._errors():
            self._writer.settle()

    def flush(self) -> None:
        """Return once the brokers have all outputs; raise if they refused one.

        What is written in a transaction is visible once that is committed.

        Raises `ConnectorError` with the number of failed outputs and the first reason. The sink
        is not to be written to after that: an idempotent producer keeps its order or stops.
        """
        if self._transaction is not None and not self._transaction.is_open:
            return
        with self._errors():
            self._writer.flush()
        count, first = self._writer.failures()
        if first is not None:
            told = self._explained(first, f"writing to {self._topic}")
            fenced = self._transaction is not None and self.link.client.is_fenced(first)
            if fenced or isinstance(told, Aborted):
                raise told
            raise self.link.cluster.not_taken(count, "outputs", self._topic, first)

    def _origin(self, partition: str) -> list[tuple[str, bytes]]:
        if len(self._headers) >= _MOST_PARTITIONS:
            self._headers.clear()
        made = self._headers[partition] = origin_of(partition, self._name)
        return made

    def mark(self) -> dict[str, Any]:
        """Flush, and return the name of the writer and the offset behind each partition.

        Where offsets of a group are not in it, the transaction is committed.
        """
        if self._transaction is None or self._transaction.with_offsets:
            self.flush()
            ends = None
        else:
            self._transaction.commit()
            ends = self._ends  # another process may have begun, and have written behind them
        if self._from is not None and self._standing.is_over():
            self._from = None
        ends = self._from or ends or self._known_ends()
        return {"writer": self._name, "ends": {str(number): end for number, end in ends.items()}}

    def _known_ends(self) -> Mapping[int, int]:
        """Return the ends of the topic; while no broker answers, the last ones known.

        So a run that has nothing to deliver can save its checkpoint all the same. After older ends
        more is read than necessary.
        """
        try:
            self._ends = self._tail.ends()
        except Unavailable:
            if self._ends is None:
                raise
        return self._ends

    def rewind(self, mark: Any) -> None:
        """Find the outputs after the mark: they stay, and are not written again.

        Raises `ConnectorError` if that is not a mark of this kind of sink.
        """
        if mark is None:
            return
        name, ends = _parsed(mark)
        if self._transaction is None:
            self.flush()
        else:
            self._transaction.drop()
        self._standing, self._from = self._tail.find(name, ends)
        self._name, self._ends = name, self._from
        self._headers.clear()

    def transact(self, source: Source, others: Sequence[Sink], seconds: float) -> Transaction:
        """Write in transactions from here on; see `connectors.base.Transactional`."""
        sinks = [self, *(sink for sink in others if isinstance(sink, KafkaSink))]
        return Transaction(
            sinks,
            source if isinstance(source, KafkaSource) and source.group is not None else None,
            seconds=seconds,
            delivery_timeout=max(sink._writing.delivery_timeout for sink in sinks),
        )

    def join(self, transaction: Transaction) -> None:
        """Write in a transaction from here on; its producer comes by `write_by`."""
        self._writer.close()
        self._transaction = transaction

    def write_by(self, producer: Producer) -> None:
        """Write by a transactional producer from here on."""
        self._writer = producer.writer(self._writing)

    def find_ends(self) -> None:
        """Note where the topic ends, with everything written and nothing committed."""
        self._found_ends = self._tail.ends()

    def committed(self) -> None:
        """Note that up to the ends found last no other process has written as this sink."""
        self._ends = self._found_ends

    def is_alone(self) -> bool:
        """Return whether no other process has committed outputs as this sink since `committed`."""
        return self._ends is None or not self._tail.count(self._name, self._ends)

    def trouble(self) -> Trouble | None:
        """Tell of brokers that are gone, or a registry that is needed."""
        return self.link.cluster.trouble(self._writer.connected()) or self._format.trouble()

    def close(self) -> None:
        """Flush and close the connections; abort a transaction. May be called twice."""
        if self._closed:
            return
        self._closed = True
        with self._connections:
            if self._transaction is None:
                self.flush()

    def _explained(self, error: Exception, doing: str) -> ConnectorError:
        if self._transaction is not None:
            return self._transaction.explain(error, doing)
        return self.link.explain(error, doing)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self.link.client.error as error:
            raise self._explained(error, f"writing to {self._topic}") from None

    def __repr__(self) -> str:
        return f"KafkaSink({','.join(self.link.cluster.servers)!r}, {self._topic!r})"


class _Mark(msgspec.Struct, forbid_unknown_fields=True):
    writer: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12}$")]
    ends: dict[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)]]


def _parsed(mark: Any) -> tuple[str, dict[int, int]]:
    try:
        found = msgspec.convert(mark, _Mark, str_keys=True)
    except msgspec.ValidationError as error:
        raise ConnectorError(f"{mark!r} is not the mark of a topic: {error}") from None
    return found.writer, found.ends


def _place(output: Output) -> str:
    return f"the output for {output.partition} offset {output.offset}"


class TopicLog:
    """An `EventLog` that is a topic, one event a record without a key; see `KafkaSink`."""

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        *,
        delivery_timeout: float = 10.0,
        connect_timeout: float = 10.0,
        security: Security | None = None,
        client: str | None = None,
    ) -> None:
        self._topic = topic
        self._link = Link.to(servers, security, connect_timeout, client)
        self._writer = self._link.writer(Writing(topic, delivery_timeout))

    def append(self, events: Sequence[bytes]) -> None:
        """Add events; every in-sync replica has them when it returns.

        Raises `BadRecord` if one is too large (those before it are added), and `ConnectorError` if
        the brokers do not take them in time; they may have taken some.
        """
        with self._link.errors(f"writing to {self._topic}"):
            try:
                for event in events:
                    self._writer.send(event, None, [])
            except TooLarge as error:
                raise BadRecord(f"an event is too large for Kafka: {error}") from None
            finally:
                self._writer.flush()
        count, first = self._writer.failures()
        if first is not None:
            raise self._link.cluster.not_taken(count, "events", self._topic, first)

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()
