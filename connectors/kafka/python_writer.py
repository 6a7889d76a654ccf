"""Writing to a topic by kafka-python."""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaProducer, errors
from kafka.partitioner.abc import Partitioner
from kafka.partitioner.default import murmur2

from connectors.kafka.client import (
    ABORT_SECONDS,
    MAX_UNFLUSHED,
    Failures,
    TooLarge,
    Writing,
    answered,
    persist,
)
from connectors.kafka.python_workarounds import keep_epoch

_STAY = 1024
"""Records after which another partition has its turn, and partitions are looked up again."""


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

    def __init__(self, producer: Any, net: Any, timeout: float) -> None:
        self._producer, self._net, self._timeout = producer, net, timeout
        self.begin = producer.begin_transaction
        keep_epoch(producer)
        try:
            persist(
                lambda _: producer.init_transactions(),
                errors.KafkaTimeoutError,
                lambda _: True,
                timeout,
            )
        except BaseException:
            self.close()
            raise

    def writer(self, writing: Writing) -> PythonWriter:
        """A writer to a topic within its transactions."""
        return PythonWriter(self._producer, self._net, writing)

    def add_offsets(self, offsets: Any, group: Any) -> None:
        """Add offsets of a group."""
        _answered(lambda: self._producer.send_offsets_to_transaction(offsets, group), self._timeout)

    def commit(self) -> None:
        """Commit the transaction."""
        _answered(self._producer.commit_transaction, self._timeout)

    def abort(self) -> None:
        """Abort the transaction."""
        _answered(self._producer.abort_transaction, ABORT_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)


def _answered(request: Callable[[], object], timeout: float) -> None:
    """Make a request of a transaction, which kafka-python would wait for without an end."""
    if not answered(request, timeout):
        raise errors.KafkaTimeoutError(f"no answer in {timeout:g} s")


class _Producer(KafkaProducer):  # type: ignore[misc]
    """A producer whose name is not put together anew for every record, as KafkaProducer's is."""

    def __str__(self) -> str:
        return "<KafkaProducer of streamk>"


@dataclass(slots=True)
class _Turn:
    """The partitions of a topic, the one whose turn it is, and for how many records."""

    numbers: Sequence[int] = ()
    chosen: int = -1
    left: int = 0


class _Partitioner(Partitioner):  # type: ignore[misc]
    """Kafka's choice: by the key's hash, else one partition for a whole batch, then the next.

    kafka-python's own sort and search the topic's partitions for every record. Here that is done
    for every batch, and once in `_STAY` records.
    """

    def __init__(self) -> None:
        self._turns: defaultdict[str, _Turn] = defaultdict(_Turn)

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
        turn = self._turns[topic]
        turn.left -= 1
        if turn.left < 0:
            self.on_new_batch(topic, cluster, turn.chosen)
        if serialized_key is None:
            return turn.chosen
        return turn.numbers[_hash(serialized_key) % len(turn.numbers)]

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """Go on to the next partition that has a leader."""
        turn = self._turns[topic]
        turn.left = _STAY
        turn.numbers = sorted(cluster.partitions_for_topic(topic))
        there = sorted(cluster.available_partitions_for_topic(topic)) or turn.numbers
        turn.chosen = next((number for number in there if number > prev_partition), there[0])


@functools.lru_cache(maxsize=1 << 14)
def _hash(key: bytes) -> int:
    """The murmur2 hash that every client of Kafka takes."""
    return int(murmur2(key)) & 0x7FFFFFFF
