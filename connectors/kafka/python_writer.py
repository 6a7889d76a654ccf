"""Writing to a topic by kafka-python."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

from kafka import KafkaProducer, errors
from kafka.partitioner.abc import Partitioner
from kafka.partitioner.default import murmur2

from connectors.kafka.client import (
    MAX_UNFLUSHED,
    Failures,
    TooLarge,
    Writing,
    persist,
)


def is_connected(net: Any) -> bool:
    """Return whether a client has a connection to any broker."""
    return any(net.connected(broker.node_id) for broker in net.cluster.brokers())


class PythonWriter:
    """The `Writer` on a KafkaProducer."""

    def __init__(self, producer: Any, net: Any, writing: Writing) -> None:
        self._producer = producer
        self.connected = functools.partial(is_connected, net)
        self._topic = writing.topic
        self._timeout = writing.delivery_timeout
        # A result is asked for when it is there: a callback a record would cost more.
        self._results: deque[Any] = deque()
        self._failures = Failures()
        self.failures = self._failures.take

    def find(self) -> bool:
        """Return whether the topic exists; the producer waits for its metadata."""
        try:
            return bool(self._producer.partitions_for(self._topic))
        except errors.KafkaTimeoutError:
            return False

    def send(self, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        """Hand over one record."""
        try:
            self._results.append(self._producer.send(self._topic, value, key, headers))
        except errors.MessageSizeTooLargeError as error:
            raise TooLarge(str(error)) from None

    def settle(self) -> None:
        """Take note of what was delivered, and wait while more than enough is not."""
        results = self._results
        while results and results[0].is_done:
            self._note(results.popleft())
        # The producer has no bound of its own on what it holds.
        if len(results) > MAX_UNFLUSHED:
            self.flush()

    def flush(self) -> None:
        """Wait until everything was delivered or has failed."""
        # A little longer than the deliveries, so that theirs is the reason that is told.
        self._producer.flush(timeout=self._timeout + 5)
        while self._results:
            self._note(self._results.popleft())

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)

    def _note(self, result: Any) -> None:
        if result.exception is not None:
            self._failures.add(result.exception)


class PythonProducer:
    """The `Producer` of transactions on a KafkaProducer, which begins with its identifier here."""

    def __init__(self, producer: Any, net: Any) -> None:
        self._producer, self._net = producer, net
        self.begin, self.add_offsets = (
            producer.begin_transaction,
            producer.send_offsets_to_transaction,
        )
        self.abort = producer.abort_transaction
        try:
            persist(
                lambda _: producer.init_transactions(), errors.KafkaTimeoutError, lambda _: True
            )
        except BaseException:
            self.close()
            raise

    def commit(self) -> None:
        """Commit the transaction."""
        self._producer.commit_transaction()

    def writer(self, writing: Writing) -> PythonWriter:
        """A writer to a topic within its transactions."""
        return PythonWriter(self._producer, self._net, writing)

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)


class _Producer(KafkaProducer):  # type: ignore[misc]
    """A producer whose name is not put together anew for every record, as KafkaProducer's is."""

    def __str__(self) -> str:
        return "<KafkaProducer of streamk>"


class _Partitioner(Partitioner):  # type: ignore[misc]
    """Kafka's choice: by the key's hash, else one partition for a whole batch, then the next.

    kafka-python's own sort and search the topic's partitions for every record. Here that is done
    for every batch, and once in `_STAY` records.
    """

    _STAY = 1024

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._chosen = -1
        self._left = 0

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: Any,
        value: Any,
        serialized_value: Any,
        cluster: Any,
    ) -> int:
        """The partition for a record."""
        self._left -= 1
        if self._left < 0:
            self.on_new_batch(topic, cluster, self._chosen)
        if serialized_key is None:
            return self._chosen
        return self._numbers[_hash(serialized_key) % len(self._numbers)]

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """Go on to the next partition that has a leader."""
        self._left = self._STAY
        self._numbers = sorted(cluster.partitions_for_topic(topic))
        there = sorted(cluster.available_partitions_for_topic(topic)) or self._numbers
        self._chosen = next((number for number in there if number > prev_partition), there[0])


@functools.lru_cache(maxsize=1 << 14)
def _hash(key: bytes) -> int:
    """The murmur2 hash that every client of Kafka takes."""
    return int(murmur2(key)) & 0x7FFFFFFF
