"""Kafka topics as sinks: outputs as JSON, with the position of their input in the headers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from connectors.base import Output, Trouble
from connectors.errors import BadRecord, ConnectorError
from connectors.kafka.client import TooLarge, Writer, Writing, choose, errors
from connectors.kafka.cluster import Cluster, split_partition
from connectors.kafka.security import Security

__all__ = ["KafkaSink"]


class KafkaSink:
    """Writes each output as one JSON record, idempotently, to every in-sync replica.

    The record has the input's key and, in its headers, the input's position: ``streamk-topic``,
    ``streamk-partition`` and ``streamk-offset``, decimal numbers as text (for an input that did
    not come from Kafka there is no topic, and the partition is the source's name of it).

    Within a run nothing is written twice. After a crash the outputs since the last checkpoint
    are written again, with the same headers and value: a reader tells by the headers.

    Parameters
    ----------
    servers : tuple of str
        ``host:port`` of one broker or more.
    topic : str
        Where the broker creates topics by itself, it need not exist.
    connect_timeout : float
        Seconds to wait for the first answer of a broker.
    delivery_timeout : float
        Seconds in which the brokers must have taken an output, retries included.
    security : Security, optional
        Default: from the environment (``STREAMK_KAFKA_*``).
    client : str, optional
        "confluent" (librdkafka, from the extra ``confluent``) or "kafka-python". Default: the
        first of them that is installed.

    Raises
    ------
    Unavailable
        No broker answers, there is no such topic, or the client is not installed.
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        *,
        connect_timeout: float = 10.0,
        delivery_timeout: float = 120.0,
        security: Security | None = None,
        client: str | None = None,
    ) -> None:
        self._topic = topic
        self._cluster = Cluster(
            servers, Security.load() if security is None else security, connect_timeout
        )
        self._encoder = msgspec.json.Encoder()
        self._closed = False
        self._client = choose(client)
        self._writer: Writer = self._client.writer(self._cluster, Writing(topic, delivery_timeout))
        try:
            with errors(self._client, self._cluster, f"looking for topic {topic}"):
                if not self._writer.find():
                    raise self._cluster.no_topic(topic, set())
        except BaseException:
            self.close()
            raise

    def write(self, outputs: Sequence[Output]) -> None:
        """Hand the outputs to the producer; they are safe only after the next `flush`.

        Raises `BadRecord` for an output that is too large or that JSON cannot hold.
        """
        # What can be is done once for all outputs: this is the hot loop of a run that predicts.
        encode, send = self._encoder.encode, self._writer.send
        partition: str | None = None
        for output in outputs:
            if output.partition != partition:
                partition, origin = output.partition, _origin(output.partition)
            try:
                value = encode(output.value)
            except (TypeError, ValueError) as error:
                raise BadRecord(f"{_place(output)} cannot be written as JSON: {error}") from None
            try:
                send(value, output.key, [*origin, ("streamk-offset", b"%d" % output.offset)])
            except TooLarge as error:
                raise BadRecord(f"{_place(output)} is too large for Kafka: {error}") from None
            except self._client.error as error:
                doing = f"writing {_place(output)} to {self._topic}"
                raise self._cluster.explain(self._client.fault(error), error, doing) from None
        with errors(self._client, self._cluster, f"writing to {self._topic}"):
            self._writer.settle()

    def flush(self) -> None:
        """Return when the brokers have everything written; raise if they did not take all of it.

        Raises `ConnectorError` with the number of failed outputs and the first reason. The sink
        is not to be written to after that: an idempotent producer keeps its order or stops.
        """
        with errors(self._client, self._cluster, f"writing to {self._topic}"):
            self._writer.flush()
        count, first = self._writer.failures()
        if count:
            reason = self._cluster.security.redact(f"{type(first).__name__}: {first}")
            raise ConnectorError(
                f"Kafka did not take {count} outputs for topic {self._topic!r}; the first "
                f"because of {reason}"
            )

    def mark(self) -> None:
        """Flush; a topic cannot be rewound, so there is no mark."""
        self.flush()

    def rewind(self, mark: Any) -> None:
        """Do nothing: what was written stays."""

    def trouble(self) -> Trouble | None:
        """Tell of brokers that are gone."""
        return self._cluster.trouble(self._writer.connected())

    def close(self) -> None:
        """Flush and let go of the connections. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._writer.close()

    def __repr__(self) -> str:
        return f"KafkaSink({','.join(self._cluster.servers)!r}, {self._topic!r})"


@functools.lru_cache(maxsize=1 << 12)
def _origin(partition: str) -> list[tuple[str, bytes]]:
    """The headers that all outputs for a partition have in common."""
    position = split_partition(partition)
    if position is None:
        return [("streamk-partition", partition.encode())]
    topic, number = position
    return [("streamk-topic", topic.encode()), ("streamk-partition", b"%d" % number)]


def _place(output: Output) -> str:
    return f"the output for {output.partition} offset {output.offset}"
