"""A topic that is deleted while it is read, or between two runs, and made anew under its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_kit import Job, MakeTopic, fill, new_job, newest
from kafka_kit import Topics
from kafka_kit import topics as topics

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

GROUPS = pytest.mark.parametrize("group", [None, pytest.param("g", marks=pytest.mark.nightly)])


def events(count: int) -> Iterator[tuple[int, int, bytes]]:
    for i in range(count):
        yield 0, 1000 + i, json.dumps({"a": i % 7, "y": "up" if i % 2 else "down"}).encode()


@pytest.fixture
def job(kafka_address: str, kafka_topic: MakeTopic, kafka_client: str, tmp_path: Path) -> Job:
    output = f"file:{tmp_path / 'out.ndjson'}"
    options = {"client": kafka_client, "output": output, "options": {"checkpoint_every": 50}}
    one = new_job(kafka_address, kafka_topic, tmp_path, written=0, **options)
    fill(kafka_address, one.topic, events(100))
    return one


def last_line(process: Any) -> str:
    line: str = process.log.splitlines()[-1]
    return line


@GROUPS
def test_deleted_while_it_is_read(job: Job, topics: Topics, group: str | None) -> None:
    with job.but(group=group and f"g-{job.topic}").start() as process:
        assert process.until_written(100)
        topics.delete(job.topic)
        assert process.wait() == 1
        assert f"the topic {job.topic!r} was deleted while it was read" in last_line(process)
    assert newest(job.directory).body["feed"]["sequence"]["events"] == 100


def test_made_anew_while_it_is_read(job: Job, topics: Topics) -> None:
    with job.start() as process:
        assert process.until_written(100)
        topics.delete(job.topic)
        topics.make(job.topic)
        fill(job.address, job.topic, events(300))
        assert process.wait() == 1
        assert "was deleted" in last_line(process)


@GROUPS
def test_made_anew_between_two_runs(job: Job, topics: Topics, group: str | None) -> None:
    """The place of the checkpoint is one of the new topic, too, but of another event."""
    ending = job.but(options={**job.options, "until_end": True}, group=group and f"g-{job.topic}")
    assert ending.run()["n_events"] == 100
    topics.delete(job.topic)
    topics.make(job.topic)
    fill(job.address, job.topic, events(300))
    with ending.start() as process:
        assert process.wait() == 1
        assert "is of another topic of this name" in last_line(process)
        assert 'data_loss="earliest"' in last_line(process)
    report = ending.but(options={**ending.options, "data_loss": "earliest"}).run()
    assert report["n_events"] == 400
    again = ending.run()
    assert (again["n_events"], again["events_now"]) == (400, 0)
