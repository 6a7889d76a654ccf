"""Events in one topic, their labels in another or with later ones, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import late_job
import pytest
from crash_kit import BORN, fill
from engine_kit import attached, same_model
from multi_kernel_kit import pool_alone

from connectors.kafka import KafkaSource
from connectors.memory import MemorySink, MemorySource
from streamk.late import Horizon, LateLabels

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("kafka_client"),
]

MakeTopic = Callable[..., str]
PARTITIONS = 2


def run(events: Any, labels: Any) -> tuple[Any, MemorySink]:
    sink = MemorySink()
    report = attached(
        events,
        pool_alone(seed=1),
        label="y",
        ignore=("at",),
        sink=sink,
        until_end=True,
        max_skew=float("inf"),
        labels=LateLabels(labels, key="id", timeout=1.0, held_events=60),
    ).run()
    return report, sink


def test_two_topics_are_learned_as_the_same_records_in_memory(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    """In one order, which the records' timestamps and partitions make."""
    sources, in_memory = [], []
    for records in late_job.records(300):
        topic = kafka_topic(PARTITIONS, **{"retention.ms": "-1"})
        of = [(n % PARTITIONS, BORN + one["at"], json.dumps(one)) for n, one in enumerate(records)]
        fill(kafka_address, topic, ((number, at, text.encode()) for number, at, text in of))
        sources.append(KafkaSource((kafka_address,), topic))
        parts = {f"{topic}:{p}": records[p::PARTITIONS] for p in range(PARTITIONS)}
        times = {name: [BORN + one["at"] for one in some] for name, some in parts.items()}
        values = {name: [json.dumps(one).encode() for one in some] for name, some in parts.items()}
        in_memory.append(MemorySource(values, timestamps=times))
    report, sink = run(*sources)
    expected, outputs = run(*in_memory)
    assert report.fates == expected.fates
    assert report.fates.joined > 200
    assert report.counts == expected.counts
    assert same_model(report.model, expected.model)
    assert [(o.partition, o.offset, o.value) for o in sink.outputs] == [
        (o.partition, o.offset, o.value) for o in outputs.outputs
    ]


def test_a_horizon_of_time_goes_by_the_timestamps_of_a_topic(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(1, **{"retention.ms": "-1"})
    records = [{"x": n % 5, "y": n % 3} for n in range(200)]
    times = [BORN + 1000 * n + 300 * (n % 4) for n in range(200)]
    values = [json.dumps(one).encode() for one in records]
    fill(kafka_address, topic, ((0, at, value) for at, value in zip(times, values, strict=True)))
    name = f"{topic}:0"
    found = []
    for source in (
        KafkaSource((kafka_address,), topic),
        MemorySource({name: values}, timestamps={name: times}),
    ):
        sink, horizon = MemorySink(), Horizon(timedelta(seconds=9))
        options: dict[str, Any] = {"label": "y", "sink": sink, "until_end": True}
        report = attached(source, pool_alone(seed=1), labels=horizon, **options).run()
        found.append((report, [output.value for output in sink.outputs]))
    (report, said), (expected, wanted) = found
    assert said == wanted
    assert report.fates == expected.fates
    assert report.fates.joined > 180
    assert same_model(report.model, expected.model)
