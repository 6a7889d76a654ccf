"""Plain readers and writers of one topic by the libraries that the connector can use.

They have the connector's settings (what is fetched at once, delivery to every in-sync replica
without doubles, how long a batch may fill) and nothing around them: no decoding, no order over
partitions, no positions.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from connectors.kafka.client import (
    BATCH_BYTES,
    CLIENTS,
    FETCH_MAX_BYTES,
    MAX_UNFLUSHED,
    PARTITION_FETCH_BYTES,
)

AT_ONCE = 4096
"""Records of one read."""
_LIBRARIES = {"confluent": "confluent_kafka", "kafka-python": "kafka"}
_NAP_MS = 10
"""Longest wait inside kafka-python, as in the connector: longer ones go on though records came."""
LINGER_MS = 2
"""How long a batch of librdkafka may fill, as in the connector."""

Take = Callable[[float], list[bytes]]
"""Returns the values of the next records, waiting so many seconds for the first."""
Headers = list[tuple[str, bytes]]


class Writer(Protocol):
    """Writes records to a topic."""

    def send(
        self, value: bytes, headers: Headers, partition: int = 0, timestamp: int | None = None
    ) -> None:
        """Hand over a record; the timestamp is in milliseconds, by default that of now."""

    def close(self) -> None:
        """Wait until everything is delivered, and let go of the connections."""


def installed() -> tuple[str, ...]:
    """Names of the clients whose library is there, the connector's choice first."""
    return tuple(name for name in CLIENTS if importlib.util.find_spec(_LIBRARIES[name]))


@contextlib.contextmanager
def reader(client: str, address: str, topic: str) -> Iterator[Take]:
    """Read the only partition of a topic from its start; fetching begins with the first call."""
    consumer = (_confluent_consumer if client == "confluent" else _python_consumer)(address, topic)
    try:
        if client == "confluent":
            yield _confluent_take(consumer, topic)
        else:
            yield _python_take(consumer)
    finally:
        consumer.close()


def writer(client: str, address: str, topic: str, *, linger_ms: float = LINGER_MS) -> Writer:
    """Write to a topic; `linger_ms` is of librdkafka."""
    if client == "confluent":
        return _ConfluentWriter(address, topic, linger_ms)
    return _PythonWriter(address, topic)


def fill(address: str, topic: str, values: Sequence[bytes]) -> None:
    """Write records to the only partition of a topic."""
    one = writer(installed()[0], address, topic)
    for value in values:
        one.send(value, [])
    one.close()


# --- confluent-kafka ----------------------------------------------------------------------------


def _confluent_consumer(address: str, topic: str) -> Any:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "benchmark",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "fetch.max.bytes": FETCH_MAX_BYTES,
            "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
            "queued.min.messages": 20_000,
            "queued.max.messages.kbytes": FETCH_MAX_BYTES >> 10,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.list_topics(topic, timeout=10)
    return consumer


def _confluent_take(consumer: Any, topic: str) -> Take:
    from confluent_kafka import KafkaException, TopicPartition

    begun = False

    def take(timeout: float) -> list[bytes]:
        nonlocal begun
        if not begun:
            consumer.assign([TopicPartition(topic, 0, 0)])
            begun = True
        messages = consumer.consume(AT_ONCE, 0.0)
        if not messages:
            first = consumer.poll(timeout)
            messages = [] if first is None else [first, *consumer.consume(AT_ONCE - 1, 0.0)]
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return [message.value() for message in messages]

    return take


class _ConfluentWriter:
    def __init__(self, address: str, topic: str, linger_ms: float) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": "all",
                "enable.idempotence": True,
                "batch.size": BATCH_BYTES,
                "linger.ms": linger_ms,
                "queue.buffering.max.messages": MAX_UNFLUSHED,
            }
        )
        self._producer.list_topics(topic, timeout=10)

    def send(
        self, value: bytes, headers: Headers, partition: int = 0, timestamp: int | None = None
    ) -> None:
        when = {} if timestamp is None else {"timestamp": timestamp}
        while True:
            try:
                return self._producer.produce(
                    self._topic, value, partition=partition, headers=headers, **when
                )
            except BufferError:
                self._producer.poll(0.1)

    def close(self) -> None:
        left = self._producer.flush(120)
        assert not left, f"{left} records were not delivered"


# --- kafka-python -------------------------------------------------------------------------------


def _python_consumer(address: str, topic: str) -> Any:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=address,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=AT_ONCE,
        fetch_max_bytes=FETCH_MAX_BYTES,
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        metrics_enabled=False,
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    consumer.position(partition)
    return consumer


def _python_take(consumer: Any) -> Take:
    def take(timeout: float) -> list[bytes]:
        deadline = time.monotonic() + timeout
        while True:
            found = consumer.poll(timeout_ms=_NAP_MS)
            if found or time.monotonic() > deadline:
                return [record.value for records in found.values() for record in records]

    return take


class _PythonWriter:
    def __init__(self, address: str, topic: str) -> None:
        from kafka import KafkaProducer

        self._topic = topic
        self._producer = KafkaProducer(
            bootstrap_servers=address,
            acks="all",
            enable_idempotence=True,
            batch_size=BATCH_BYTES,
            metrics_enabled=False,
        )

    def send(
        self, value: bytes, headers: Headers, partition: int = 0, timestamp: int | None = None
    ) -> None:
        self._producer.send(
            self._topic, value, partition=partition, headers=headers, timestamp_ms=timestamp
        )

    def close(self) -> None:
        self._producer.flush()
        self._producer.close()
