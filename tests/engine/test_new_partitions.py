"""Partitions that a source gets while it is read, or between two runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import events, run
from kafka_kit import Running, Topics, producer
from kafka_kit import topics as topics

from connectors.base import Chunk
from connectors.errors import Unavailable
from connectors.kafka import KafkaSource
from connectors.memory import MemorySink, MemorySource
from streamk.late import LateLabels

HOUR = 3_600_000


class GrowingSource(MemorySource):
    """Has its first partition alone until so many polls were made; begins at the end if told to."""

    def __init__(self, parts: dict[str, Any], polls: int, *, latest: bool = False, **options: Any):
        super().__init__(parts, **options)
        self._left, self._latest, self._read = polls, latest, dict(self._next)

    def partitions(self) -> tuple[str, ...]:
        return tuple(self._read)[: None if self._left <= 0 else 1]

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        self._left -= 1
        return [c for c in super().poll(max_events, timeout) if c.partition in self.partitions()]

    def beginning(self, partition: str) -> int:
        return self.end(partition) if self._latest else 0


def parts(n: int) -> dict[str, Any]:
    return {"a": events(n), "b": events(n, first=n)}


@pytest.mark.parametrize(("until_end", "latest"), [(False, False), (False, True), (True, False)])
def test_one_is_read_from_its_start(until_end: bool, latest: bool) -> None:
    """Wherever the job begins, and wherever the others end."""
    source = GrowingSource(parts(50), 1, latest=latest)
    report = run(source, until_end=until_end)
    assert report.counts.learned == (50 if latest else 100)
    assert report.learned == {"a": [[50 if latest else 0, 50]], "b": [[0, 50]]}


def test_none_is_read_that_was_there_before_the_job_began_at_the_end() -> None:
    assert run(GrowingSource(parts(50), 0, latest=True)).counts.learned == 0


@pytest.mark.parametrize("finished", [False, True])
def test_one_that_came_between_two_runs_is_read_from_its_start(
    tmp_path: Path, finished: bool
) -> None:
    limit = {"until_end": True} if finished else {"max_events": 30}
    assert run(GrowingSource(parts(50), 99), checkpoint=tmp_path, **limit).counts.learned in (
        30,
        50,
    )
    source = GrowingSource(parts(50), 0, latest=True)
    report = run(source, checkpoint=tmp_path, until_end=finished)
    assert report.counts.learned == 100
    again = run(GrowingSource(parts(50), 0, latest=True), checkpoint=tmp_path)
    assert (again.counts.learned, again.events_now) == (100, 0)


def test_after_a_finished_run_both_are_merged_by_time(tmp_path: Path) -> None:
    """Nothing was taken after its checkpoint, so that new events are as those of a first run."""
    first = {"a": events(10), "b": []}
    run(GrowingSource(first, 99), checkpoint=tmp_path, until_end=True)
    later = {"a": events(20), "b": events(20, first=100)}
    times = {"a": range(20), "b": range(20)}
    sink = MemorySink()
    run(GrowingSource(later, 0, timestamps=times), checkpoint=tmp_path, until_end=True, sink=sink)
    seen = [output.partition for output in sink.outputs]
    assert seen != sorted(seen)


def test_labels_get_partitions_too() -> None:
    clicks = events(60)
    labels = GrowingSource(
        {
            "a": [{"id": one["id"], "y": one["y"]} for one in clicks[:30]],
            "b": [{"id": one["id"], "y": one["y"]} for one in clicks[30:]],
        },
        1,
    )
    plain = MemorySource([{name: one[name] for name in ("a", "b", "id")} for one in clicks])
    report = run(plain, ignore=(), labels=LateLabels(labels, key="id"))
    assert report.fates.joined == 60


def test_the_first_event_of_all_is_in_no_other_time(caplog: pytest.LogCaptureFixture) -> None:
    times = {"a": [], "b": range(9 * HOUR, 9 * HOUR + 20)}
    with caplog.at_level(logging.WARNING):
        report = run(GrowingSource({"a": [], "b": events(20)}, 1, timestamps=times))
    assert report.counts.learned == 20
    assert not report.skewed
    assert not caplog.records


class SilentSource(MemorySource):
    """Lacks events in one of two partitions; nobody tells where they end, for so many questions."""

    def __init__(self, unanswered: int) -> None:
        super().__init__({"a": events(20), "b": []}, live=True)
        self.unanswered = unanswered

    def end(self, partition: str) -> int:
        self.unanswered -= 1
        if self.unanswered >= 0:
            raise Unavailable("no broker answers")
        return super().end(partition)


def test_a_source_that_does_not_answer_is_waited_for() -> None:
    source = SilentSource(5)
    report = run(source, idle_timeout=0.01, max_events=20)
    assert report.counts.learned == 20
    assert source.unanswered < 0


# --- topics ---------------------------------------------------------------------------------------


def send(address: str, topic: str, partition: int, numbers: range) -> None:
    with producer(address) as out:
        for n in numbers:
            event = {"x": n % 2, "id": n, "y": n % 2}
            out.send(topic, json.dumps(event).encode(), partition=partition)
        out.flush()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("kafka_client")
@pytest.mark.parametrize(
    ("start", "group"),
    [
        ("earliest", False),
        ("latest", True),
        pytest.param("earliest", True, marks=pytest.mark.nightly),
        pytest.param("latest", False, marks=pytest.mark.nightly),
    ],
)
def test_a_topic_gets_partitions(
    kafka_address: str,
    kafka_topic: Callable[..., str],
    topics: Topics,
    start: str,
    group: bool,
    tmp_path: Path,
) -> None:
    """While it is read, and while it is not."""
    topic = kafka_topic(1)
    send(kafka_address, topic, 0, range(30))
    before = 30 if start == "earliest" else 0

    def source() -> KafkaSource:
        name = f"g-{topic}" if group else None
        return KafkaSource((kafka_address,), topic, start=start, group=name)

    run = Running(source(), checkpoint=tmp_path)
    run.until(lambda: run.lag is not None and run.events == before)
    topics.grow(topic, 2)
    send(kafka_address, topic, 1, range(40))
    send(kafka_address, topic, 0, range(30, 40))
    run.until(lambda: run.events >= before + 50)
    assert run.end().counts.learned == before + 50

    topics.grow(topic, 3)
    send(kafka_address, topic, 2, range(20))
    again = Running(source(), checkpoint=tmp_path)
    again.until(lambda: again.events >= before + 70)
    assert again.end().counts.learned == before + 70
