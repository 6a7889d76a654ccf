"""A broker that is gone is told at once, stands on the run's line, and is told when it is back."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_kit import fill
from engine_kit import attached

from connectors.kafka import KafkaSink, KafkaSource
from connectors.registry import open_source
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kafka_client"),
]

GONE = "no Kafka broker answers at"
PATIENCE = 120.0


class Running:
    """An engine in a thread; its lines and its warnings."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *args: Any, **options: Any) -> None:
        self.lines: list[str] = []
        self.events = 0
        self._caplog = caplog
        model = DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=256)
        self.engine = attached(
            args[0], model, label="y", on_progress=self._show, progress_interval=0.1, **options
        )
        self.reports: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.reports.append(self.engine.run()))
        self._thread.start()

    def _show(self, snapshot: Any) -> None:
        self.lines.append(snapshot.line())
        self.events = snapshot.events

    def warnings(self) -> list[str]:
        records = list(self._caplog.records)
        return [r.getMessage() for r in records if r.levelno == logging.WARNING]

    def until(self, there: Callable[[], bool]) -> float:
        began = time.monotonic()
        while not there():
            assert self._thread.is_alive(), "the run has ended"
            assert time.monotonic() < began + PATIENCE, (self.warnings(), self.lines[-3:])
            time.sleep(0.02)
        return time.monotonic() - began

    def told(self, text: str) -> bool:
        return any(text in warning for warning in self.warnings())

    def end(self) -> Any:
        self.engine.stop()
        self._thread.join()
        return self.reports[0]


def events(first: int, count: int) -> Iterator[bytes]:
    for i in range(first, first + count):
        yield json.dumps({"a": i % 7, "y": "up" if i % 2 else "down"}).encode()


def test_while_a_run_reads(
    restarted: Any,
    kafka_topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = kafka_topic(**{"retention.ms": "-1"})
    fill(restarted.address, topic, ((0, 0, event) for event in events(0, 100)))
    run = Running(caplog, KafkaSource((restarted.address,), topic))
    run.until(lambda: run.events == 100)
    assert not run.told(GONE)
    restarted.kill()
    seconds = run.until(lambda: run.told(GONE))
    print(f"told {seconds:.1f} s after the kill")
    run.until(lambda: "broker gone" in run.lines[-1])
    restarted.start()
    run.until(lambda: run.told("answers again, after"))
    fill(restarted.address, topic, ((0, 0, event) for event in events(100, 100)))
    run.until(lambda: run.events == 200)
    run.until(lambda: "broker gone" not in run.lines[-1])
    assert run.end().counts.learned == 200
    assert sum(GONE in warning for warning in run.warnings()) == 1


def test_while_a_run_writes(
    restarted: Any,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = kafka_topic(**{"retention.ms": "-1"})
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"".join(event + b"\n" for event in events(0, 100)))
    run = Running(
        caplog,
        open_source(f"file:{path}?follow=true"),
        sink=KafkaSink((restarted.address,), topic),
        checkpoint=tmp_path / "state",
        checkpoint_every=50,
    )
    run.until(lambda: run.events == 100)
    restarted.kill()
    with path.open("ab") as file:  # the next checkpoint waits for what cannot be written
        file.write(b"".join(event + b"\n" for event in events(100, 100)))
    seconds = run.until(lambda: run.told(GONE))
    print(f"told {seconds:.1f} s after the kill")
    run.until(lambda: "broker gone" in run.lines[-1])
    restarted.start()
    run.until(lambda: run.told("answers again, after"))
    run.until(lambda: run.events == 200)
    assert run.end().counts.learned == 200
    with contextlib.closing(KafkaSource((restarted.address,), topic)) as source:
        assert source.end(f"{topic}:0") == 200
