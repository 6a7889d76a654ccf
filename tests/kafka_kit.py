"""Writing to topics of the tests' broker, and deleting from them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def producer(address: str, **options: Any) -> Iterator[Any]:
    from kafka import KafkaProducer

    one = KafkaProducer(bootstrap_servers=address, **options)
    try:
        yield one
    finally:
        one.close()


def delete_before(address: str, topic: str, partition: int, offset: int) -> None:
    """Let the broker forget what is before an offset, as retention does."""
    from kafka import KafkaAdminClient, TopicPartition

    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.delete_records({TopicPartition(topic, partition): offset})
    finally:
        admin.close()
