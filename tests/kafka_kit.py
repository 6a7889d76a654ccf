"""Writing to topics of the tests' broker."""

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
