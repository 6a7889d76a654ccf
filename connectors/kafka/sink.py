"""Kafka topics as sinks: outputs as JSON, with the position of their input in the headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from connectors.base import Output
from connectors.errors import BadRecord, ConnectorError
from connectors.kafka.client import Cluster, split_partition
from connectors.kafka.security import Security

__all__ = ["KafkaSink"]

MAX_UNFLUSHED = 100_000
"""kafka-python's producer has no bound on what it holds; the sink waits at this many outputs."""


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

    Raises
    ------
    Unavailable
        No broker answers, or there is no such topic.
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        *,
        connect_timeout: float = 10.0,
        delivery_timeout: float = 120.0,
        security: Security | None = None,
    ) -> None:
        self._topic = topic
        self._cluster = Cluster(
            servers, Security.load() if security is None else security, connect_timeout
        )
        self._delivery_timeout = delivery_timeout
        self._encoder = msgspec.json.Encoder()
        self._failures: list[Exception] = []
        self._unflushed = 0
        self._closed = False
        kafka = self._cluster.kafka()
        self._producer = self._cluster.connect(
            kafka.KafkaProducer,
            acks="all",
            enable_idempotence=True,
            batch_size=256 << 10,
            delivery_timeout_ms=int(1000 * delivery_timeout),
            request_timeout_ms=int(1000 * min(30.0, delivery_timeout)),
            max_block_ms=int(1000 * connect_timeout),
        )
        try:
            self._find_topic()
        except BaseException:
            self.close()
            raise

    def write(self, outputs: Sequence[Output]) -> None:
        """Hand the outputs to the producer; they are safe only after the next `flush`.

        Raises `BadRecord` for an output that is too large or that JSON cannot hold.
        """
        for output in outputs:
            try:
                value = self._encoder.encode(output.value)
            except (TypeError, ValueError) as error:
                raise BadRecord(f"{_place(output)} cannot be written as JSON: {error}") from None
            self._send(output, value)
        if self._unflushed > MAX_UNFLUSHED:
            self.flush()

    def flush(self) -> None:
        """Return when the brokers have everything written; raise if they did not take all of it.

        Raises `ConnectorError` with the number of failed outputs and the first reason. The sink
        cannot be written to after that: an idempotent producer keeps its order or stops.
        """
        with self._cluster.errors(f"writing to {self._topic}"):
            # A little longer than the deliveries, so that theirs is the reason that is told.
            self._producer.flush(timeout=self._delivery_timeout + 5)
        self._unflushed = 0
        failures, self._failures = self._failures, []
        if failures:
            first = failures[0]
            reason = self._cluster.security.redact(f"{type(first).__name__}: {first}")
            raise ConnectorError(
                f"Kafka did not take {len(failures)} outputs for topic {self._topic!r}; the first "
                f"because of {reason}"
            )

    def mark(self) -> None:
        """Flush; a topic cannot be rewound, so there is no mark."""
        self.flush()

    def rewind(self, mark: Any) -> None:
        """Do nothing: what was written stays."""

    def close(self) -> None:
        """Flush and let go of the connections. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._producer.close(timeout=5)

    def __repr__(self) -> str:
        return f"KafkaSink({','.join(self._cluster.servers)!r}, {self._topic!r})"

    def _find_topic(self) -> None:
        from kafka.errors import KafkaTimeoutError

        with self._cluster.errors(f"looking for topic {self._topic}"):
            try:
                self._producer.partitions_for(self._topic)
            except KafkaTimeoutError:
                raise self._cluster.no_topic(self._topic, set()) from None

    def _send(self, output: Output, value: bytes) -> None:
        from kafka.errors import MessageSizeTooLargeError

        with self._cluster.errors(f"writing {_place(output)} to {self._topic}"):
            try:
                future = self._producer.send(
                    self._topic, value, key=output.key, headers=_headers(output)
                )
            except MessageSizeTooLargeError as error:
                raise BadRecord(f"{_place(output)} is too large for Kafka: {error}") from None
        future.add_errback(self._failures.append)
        self._unflushed += 1


def _headers(output: Output) -> list[tuple[str, bytes]]:
    position = split_partition(output.partition)
    if position is None:
        headers = [("streamk-partition", output.partition.encode())]
    else:
        topic, number = position
        headers = [("streamk-topic", topic.encode()), ("streamk-partition", b"%d" % number)]
    headers.append(("streamk-offset", b"%d" % output.offset))
    return headers


def _place(output: Output) -> str:
    return f"the output for {output.partition} offset {output.offset}"
