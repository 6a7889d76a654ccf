"""Writing to topics of the tests' broker, changing them, and deleting from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any


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
