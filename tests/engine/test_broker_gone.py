"""A broker that is gone is told at once, stands on the run's line, and is told when it is back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_kit import fill
from kafka_kit import Running, warnings

from connectors.kafka import KafkaSink, KafkaSource
from connectors.registry import open_source

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kafka_client"),
]

GONE = "no Kafka broker answers at"


def events(first: int, count: int) -> Iterator[bytes]:
    for i in range(first, first + count):
        yield json.dumps({"a": i % 7, "y": "up" if i % 2 else "down"}).encode()


def gone_and_back(
    broker: Any, run: Running, more: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Kill the broker of a run that has learned 100 events, and start it for 100 more."""

    def told(text: str) -> bool:
        return any(text in warning for warning in warnings(caplog))

    run.until(lambda: run.events == 100)
    assert not told(GONE)
    broker.kill()
    more()
    run.until(lambda: told(GONE) and "broker gone" in run.lines[-1])
    broker.start()
    run.until(lambda: told("answers again, after"))


def test_while_a_run_reads(
    restarted: Any, kafka_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka_topic(**{"retention.ms": "-1"})
    fill(restarted.address, topic, ((0, 0, event) for event in events(0, 100)))
    run = Running(KafkaSource((restarted.address,), topic))
    gone_and_back(restarted, run, lambda: None, caplog)
    fill(restarted.address, topic, ((0, 0, event) for event in events(100, 100)))
    run.until(lambda: run.events == 200 and "broker gone" not in run.lines[-1])
    assert run.end().counts.learned == 200
    assert sum(GONE in warning for warning in warnings(caplog)) == 1


def test_while_a_run_writes(
    restarted: Any,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next checkpoint waits for what cannot be written."""
    topic = kafka_topic(**{"retention.ms": "-1"})
    path = tmp_path / "events.ndjson"

    def more(first: int = 100) -> None:
        with path.open("ab") as file:
            file.write(b"".join(event + b"\n" for event in events(first, 100)))

    more(0)
    run = Running(
        open_source(f"file:{path}?follow=true"),
        sink=KafkaSink((restarted.address,), topic),
        checkpoint=tmp_path / "state",
        checkpoint_every=50,
    )
    gone_and_back(restarted, run, more, caplog)
    run.until(lambda: run.events == 200)
    assert run.end().counts.learned == 200
    with contextlib.closing(KafkaSource((restarted.address,), topic)) as source:
        assert source.end(f"{topic}:0") == 200
