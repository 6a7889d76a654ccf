"""Alarms in a topic, on a real broker: each is there once, though the job breaks off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash_kit import read_all
from engine_kit import Crash, CrashingSink, job
from test_alarms import flipped, model

from connectors.kafka.sink import KafkaSink
from connectors.memory import MemorySink

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("kafka_client"),
]


def test_each_alarm_is_there_once(
    kafka_address: str, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    stream, expected = [*flipped(3000), *flipped(3000, 1)], MemorySink()
    job(stream, model(), alarms=expected, prediction_set=0.9).run()
    topic, sink, crashes = kafka_topic(1), CrashingSink(), 0
    for left in (22, 6, 10**9):
        sink.left = left
        alarms = KafkaSink((kafka_address,), topic)
        options: dict[str, Any] = {"checkpoint": tmp_path, "checkpoint_every": 1000}
        again = job(
            stream, model(), alarms=alarms, sink=sink, prediction_set=0.9, whim=1, **options
        )
        try:
            again.run()
        except Crash:
            crashes += 1
    assert crashes == 2
    values = [output.value for output in expected.outputs]
    assert len(values) >= 2
    assert [json.loads(one.value) for one in read_all(kafka_address, topic)] == values
