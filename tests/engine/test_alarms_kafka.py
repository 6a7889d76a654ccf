"""Alarms in a topic, on a real broker: each is there once, though the job breaks off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import Crash, CrashingSink
from test_alarms import flipped, job

from connectors.kafka import KafkaSource
from connectors.kafka.sink import KafkaSink
from connectors.memory import MemorySink

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("kafka_client"),
]


def written(address: str, topic: str) -> list[Any]:
    """What stands in a topic of one partition."""
    source, found = KafkaSource((address,), topic), []
    (partition,) = source.partitions()
    source.seek(partition, 0)
    while len(found) < source.end(partition):
        for chunk in source.poll(1000, 0.2):
            found += [json.loads(value) for value in chunk.values]
    source.close()
    return found


def test_each_alarm_is_there_once(
    kafka_address: str, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    stream, expected = [*flipped(3000), *flipped(3000, 1)], MemorySink()
    job(stream, expected, prediction_set=0.9).run()
    topic, sink, crashes = kafka_topic(1), CrashingSink(), 0
    for left in (22, 6, 10**9):
        sink.left = left
        alarms = KafkaSink((kafka_address,), topic)
        options: dict[str, Any] = {"checkpoint": tmp_path, "checkpoint_every": 1000}
        again = job(stream, alarms, sink=sink, prediction_set=0.9, whim=1, **options)
        try:
            again.run()
        except Crash:
            crashes += 1
    assert crashes == 2
    values = [output.value for output in expected.outputs]
    assert len(values) >= 2
    assert written(kafka_address, topic) == values
