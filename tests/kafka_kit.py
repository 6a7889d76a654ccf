"""Writing to topics of the tests' broker, reading and changing them, and deleting from them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from connectors.base import Chunk
from connectors.kafka import KafkaSource


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


def read(source: KafkaSource, count: int, seconds: float = 30.0) -> list[Chunk]:
    """Poll until there are `count` events."""
    chunks: list[Chunk] = []
    deadline = time.monotonic() + seconds
    while sum(map(len, chunks)) < count:
        assert time.monotonic() < deadline, f"only {sum(map(len, chunks))} of {count} events"
        chunks += source.poll(1000, 0.2)
    return chunks


def values(chunks: list[Chunk]) -> list[Any]:
    return [value for chunk in chunks for value in chunk.values]
