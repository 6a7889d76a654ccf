"""Topics of the tests' broker: writing to them, changing them, and engines that read them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from crash_kit import read_all
from engine_kit import attached, learner

from connectors.base import Chunk
from connectors.kafka import KafkaSource

PATIENCE = 120.0
"""Seconds after which what does not happen is a failure."""


def until(
    there: Callable[[], object], say: Callable[[], object] = lambda: "", process: Any = None
) -> None:
    """Wait until something is so; `say` is told where it never is, or a process ends before."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < deadline, say()
        assert process is None or process.poll() is None, say()
        time.sleep(0.02)


def producer(address: str, **options: Any) -> Any:
    from kafka import KafkaProducer

    return closing(KafkaProducer(bootstrap_servers=address, **options))


@contextmanager
def admin(address: str) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    with closing(KafkaAdminClient(bootstrap_servers=address)) as one:
        yield one


def delete_before(address: str, topic: str, partition: int, offset: int) -> None:
    """Let the broker forget what is before an offset, as retention does."""
    from kafka import TopicPartition

    with admin(address) as client:
        client.delete_records({TopicPartition(topic, partition): offset})


def read(source: KafkaSource, count: int) -> list[Chunk]:
    """Poll until there are `count` events."""
    chunks: list[Chunk] = []

    def polled() -> bool:
        chunks.extend(source.poll(1000, 0.2))
        return sum(map(len, chunks)) >= count

    until(polled, lambda: f"only {sum(map(len, chunks))} of {count} events")
    return chunks


def values(chunks: list[Chunk]) -> list[Any]:
    return [value for chunk in chunks for value in chunk.values]


def inputs(address: str, topic: str, level: str = "read_committed") -> list[int]:
    """The inputs of the records of an output topic, ascending."""
    records = read_all(address, topic, level)
    return sorted(int(dict(one.headers)["streamk-offset"]) for one in records)


class Topics:
    """Makes topics, changes them and deletes them, and waits until that is so."""

    def __init__(self, address: str) -> None:
        from kafka import KafkaAdminClient

        self._admin = KafkaAdminClient(bootstrap_servers=address)
        self.close = self._admin.close

    def partitions(self, topic: str) -> list[Any]:
        """What the broker says of each partition."""
        (found,) = self._admin.describe_topics([topic])
        return list(found["partitions"])

    def make(self, topic: str, partitions: int = 1, brokers: Collection[int] = ()) -> None:
        """Make a topic that is kept by these brokers, of which the first is to lead."""
        from kafka.admin import NewTopic

        where: Any = {"num_partitions": partitions, "replication_factor": 1}
        if brokers:
            where = {"replica_assignments": {n: list(brokers) for n in range(partitions)}}
        self._admin.create_topics([NewTopic(topic, topic_configs={"retention.ms": "-1"}, **where)])
        until(lambda: topic in self._admin.list_topics())

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])
        until(lambda: topic not in self._admin.list_topics())

    def grow(self, topic: str, total: int) -> None:
        """Give a topic partitions, so many in all."""
        self._admin.create_partitions({topic: total})
        until(lambda: len(self.partitions(topic)) >= total)

    def lead(self, topic: str, broker: int) -> None:
        """Have a broker lead all partitions as soon as it has all records."""
        self.until(topic, lambda one: len(one["isr_nodes"]) == 2)
        self._admin.elect_leaders(0, [topic], raise_errors=False)
        self.until(topic, lambda one: one["leader_id"] == broker)

    def until(self, topic: str, there: Callable[[Any], bool]) -> None:
        """Wait until something is so of all partitions."""
        until(lambda: (found := self.partitions(topic)) and all(map(there, found)))


@pytest.fixture
def topics(kafka_address: str) -> Iterator[Topics]:
    with closing(Topics(kafka_address)) as found:
        yield found


class Running:
    """An engine in a thread, and what it says of itself."""

    def __init__(self, source: Any, **options: Any) -> None:
        self.events, self.lag, self.lines, self.reports = 0, None, list[str](), list[Any]()
        options = {"on_progress": self._show, "progress_interval": 0.1, **options}
        self._engine = attached(source, learner(), label="y", **options)
        self._thread = threading.Thread(target=lambda: self.reports.append(self._engine.run()))
        self._thread.start()

    def _show(self, snapshot: Any) -> None:
        self.events, self.lag = snapshot.events, snapshot.lag
        self.lines.append(snapshot.line())

    def until(self, there: Callable[[], object]) -> None:
        def so() -> object:
            assert self._thread.is_alive() or there(), "the run has ended"
            return there()

        until(so, lambda: self.lines[-3:])

    def end(self) -> Any:
        self._engine.stop()
        self._thread.join()
        return self.reports[0]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = list(caplog.records)
    return [r.getMessage() for r in records if r.levelno == logging.WARNING]
