"""Compressed topics: every client reads every codec, however large its batches are."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka_kit import read, values

from connectors.errors import Unavailable
from connectors.kafka import KafkaSource

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(90)]

CODECS = ("gzip", "lz4", "snappy", "zstd")
LARGE = 4 << 20
"""Bytes of a batch, unpacked: more than decoders take that do not read a stream."""


def fill_by_kafka_python(address: str, topic: str, codec: str, written: list[bytes]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=address,
        compression_type=codec,
        linger_ms=1000,
        batch_size=2 * LARGE,
        max_request_size=2 * LARGE,
    )
    for value in written:
        producer.send(topic, value)
    producer.close()


def fill_by_confluent(address: str, topic: str, codec: str, written: list[bytes]) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "compression.type": codec,
            "linger.ms": 1000,
            "batch.size": 2 * LARGE,
            "message.max.bytes": 2 * LARGE,
        }
    )
    for value in written:
        producer.produce(topic, value)
    producer.flush()


def read_values(address: str, topic: str, count: int) -> list[Any]:
    with closing(KafkaSource((address,), topic)) as source:
        return values(read(source, count))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_that_the_other_client_has_written(
    kafka_client: str, kafka_address: str, kafka_topic: Callable[..., str], codec: str
) -> None:
    topic = kafka_topic(**{"max.message.bytes": str(2 * LARGE)})
    written = [json.dumps({"n": n, "text": "a" * 1000}).encode() for n in range(LARGE // 1000)]
    write = fill_by_confluent if kafka_client == "kafka-python" else fill_by_kafka_python
    write(kafka_address, topic, codec, written)
    assert read_values(kafka_address, topic, len(written)) == written


@pytest.mark.parametrize("kafka_client", ["kafka-python"], indirect=True)
@pytest.mark.parametrize("codec", ["lz4", "snappy", "zstd"])
@pytest.mark.usefixtures("kafka_client")
def test_a_codec_that_is_not_installed_is_told_with_its_extra(
    kafka_address: str,
    kafka_topic: Callable[..., str],
    codec: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = kafka_topic()
    fill_by_kafka_python(kafka_address, topic, codec, [b'{"text": "%s"}' % (b"a" * 1000)] * 10)
    monkeypatch.setattr(f"kafka.codec.has_{codec}", lambda: False)
    with pytest.raises(Unavailable, match=rf"{codec}.*pip install 'streamk\[kafka-codecs\]'"):
        read_values(kafka_address, topic, 10)
