"""A broker, topics and plain clients of kafka-python for the parts that go through Kafka."""

from __future__ import annotations

import contextlib
import importlib.util
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from benchmarks import common
from benchmarks.data import Dataset
from connectors.kafka.client import FETCH_MAX_BYTES, PARTITION_FETCH_BYTES

LABEL = "label"
POLL_EVENTS = 4096
"""As the engine asks for."""


@contextlib.contextmanager
def broker(address: str | None) -> Iterator[str | None]:
    """The address given, else that of a broker of demos/local_kafka.py; None if there can be none.

    Why there is none is noted.
    """
    if address:
        yield address
        return
    path = common.ROOT / "demos" / "local_kafka.py"
    spec = importlib.util.spec_from_file_location("local_kafka", path)
    assert spec is not None
    assert spec.loader is not None
    local = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(local)
    lacks = local.missing()
    if lacks:
        common.note(f"no Kafka figures: needs {' and '.join(lacks)}, or --kafka HOST:PORT")
        yield None
        return
    with local.LocalKafka() as running:
        yield running.address


def encoded(data: Dataset, encoding: str) -> list[bytes]:
    """Each event of the set as the value of a record."""
    labels = data.y.astype(int)
    if encoding == "float32":
        rows = np.column_stack([data.X, labels]).astype("<f4")
        return [row.tobytes() for row in rows]
    encode = msgspec.json.Encoder().encode
    return [
        encode({**dict(zip(data.columns, row, strict=True)), LABEL: label})
        for row, label in zip(data.X.tolist(), labels.tolist(), strict=True)
    ]


def new_topic(address: str) -> str:
    """Make a topic of one partition."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    name = f"benchmark-{secrets.token_hex(6)}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics([NewTopic(name, 1, 1)])
    finally:
        admin.close()
    return name


def fill(address: str, topic: str, values: Sequence[bytes]) -> None:
    """Write records, in order."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, batch_size=256 << 10)
    try:
        for value in values:
            producer.send(topic, value)
        producer.flush()
    finally:
        producer.close()


@contextlib.contextmanager
def consumer(address: str, topic: str) -> Iterator[Any]:
    """A plain consumer of the topic's only partition from its start, with the engine's fetches."""
    from kafka import KafkaConsumer, TopicPartition

    one = KafkaConsumer(
        bootstrap_servers=address,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=POLL_EVENTS,
        fetch_max_bytes=FETCH_MAX_BYTES,
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
    )
    try:
        partition = TopicPartition(topic, 0)
        one.assign([partition])
        one.seek_to_beginning(partition)
        one.position(partition)
        yield one
    finally:
        one.close()


def records(one: Any, timeout: float) -> list[Any]:
    """What one poll gives."""
    return [r for some in one.poll(timeout_ms=int(1000 * timeout)).values() for r in some]
