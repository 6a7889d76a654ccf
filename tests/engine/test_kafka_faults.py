"""Faults of a real broker while a job reads: leaders that change, retention, a huge record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_kit import (
    BORN,
    KEPT,
    Job,
    MakeTopic,
    assert_as_undisturbed,
    fill,
    new_job,
    newest,
    output_topic,
    stream,
)
from kafka_kit import Topics, delete_before, producer
from local_kafka import LocalKafka, missing

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


# --- leaders --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[tuple[Any, Any]]:
    """A cluster of two, of which the first is the controller."""
    if missing():
        pytest.skip(f"two brokers need {' and '.join(missing())}")
    with LocalKafka() as first, LocalKafka(joins=first) as second:
        yield first, second


@pytest.mark.nightly
def test_leaders_change(two_brokers: tuple[Any, Any], kafka_client: str, tmp_path: Path) -> None:
    """The second broker dies, so that the first leads; comes back, and leads again."""
    first, second = two_brokers
    topic, output = f"events-{kafka_client}", f"outputs-{kafka_client}"
    topics = Topics(first.address)
    for name, partitions in ((topic, 2), (output, 1)):
        topics.make(name, partitions, brokers=(2, 1))
        topics.lead(name, 2)
    fill(first.address, topic, stream(8000, (0.6, 0.4)))
    job = Job(
        first.address,
        topic,
        str(tmp_path / "checkpoints"),
        output=f"kafka://{first.address}/{output}",
        client=kafka_client,
        pause=0.02,
        options={"checkpoint_every": 640, "until_end": True},
    )
    with job.start() as process:
        assert process.until_written(1000)
        second.kill()
        topics.until(topic, lambda one: one["leader_id"] == 1)
        assert process.until_written(3000)
        second.start()
        topics.lead(topic, 2)
        topics.lead(output, 2)
        assert process.written < 7000
        report = process.report()
    topics.close()
    written = assert_as_undisturbed(job, report)
    assert {len(found) for found in written.values()} == {1}


# --- delivery -------------------------------------------------------------------------------------


def test_outputs_that_are_given_up(
    restarted: Any, kafka_topic: MakeTopic, kafka_client: str, tmp_path: Path
) -> None:
    """The broker is away for longer than outputs wait: the job ends; the next one writes them."""
    job = new_job(
        restarted.address,
        kafka_topic,
        tmp_path,
        partitions=2,
        client=kafka_client,
        pause=0.01,
        options={"checkpoint_every": 640, "until_end": True},
    )
    job = job.but(output=f"{job.output}?delivery_timeout=3")
    fill(job.address, job.topic, stream(4000, (0.6, 0.4)))
    with job.start() as process:
        assert process.until_written(1000)
        restarted.kill()
        assert process.wait() == 1
        last = process.log.splitlines()[-1]
        assert restarted.address in last or output_topic(job) in process.log
        assert "ConnectorError: " in process.log or "Unavailable: " in process.log
    restarted.start()
    report = job.but(pause=0.0).run()
    written = assert_as_undisturbed(job, report)
    assert {len(found) for found in written.values()} == {1}


# --- retention ------------------------------------------------------------------------------------

MANY = 30_000
NOTE = "x" * 1000


def noted(count: int) -> Iterator[tuple[int, int, bytes]]:
    """Events so large that no client reads all of them ahead."""
    for partition, at, value in stream(count, (1.0,)):
        yield partition, at, value.replace(b"}", f', "note": "{NOTE}"}}'.encode())


@pytest.mark.parametrize("policy", ["fail", pytest.param("earliest", marks=pytest.mark.nightly)])
def test_retention_overtakes_a_slow_job(
    policy: str, kafka_address: str, kafka_topic: MakeTopic, kafka_client: str, tmp_path: Path
) -> None:
    """The log begins behind what is read next, while the job reads."""
    begins = MANY - 500
    job = new_job(
        kafka_address,
        kafka_topic,
        tmp_path,
        output=f"file:{tmp_path / 'out.ndjson'}",
        client=kafka_client,
        pause=0.01,
        options={
            "checkpoint_every": 640,
            "until_end": True,
            "buffer_events": 1000,
            "ignore": ["note"],
            "data_loss": policy,
        },
        written=0,
    )
    fill(kafka_address, job.topic, noted(MANY))
    name = f"{job.topic}:0"
    with job.start() as process:
        assert process.until_written(640)
        delete_before(kafka_address, job.topic, 0, begins)
        status = process.wait()
        log = process.log
    if policy == "fail":
        assert status == 1
        told = re.search(
            rf"{name} is to be read from offset (\d+), but holds {begins} to {MANY}:"
            r" ([\d,]+) offsets are gone",
            log.splitlines()[-1],
        )
        assert told, log[-2000:]
        assert int(told[2].replace(",", "")) == begins - int(told[1])
        assert newest(job.directory).body["feed"]["sequence"]["events"] <= int(told[1])
        report = job.but(pause=0.0, options={**job.options, "data_loss": "earliest"}).run()
    else:
        assert status == 0
        report = process.report()
        assert re.search(rf"lost: [\d,]+ offsets, \d+ to {begins}, of partition {name}", log)
    (lost,) = report["lost"]
    assert (lost["partition"], lost["stop"]) == (name, begins)
    assert report["n_events"] == MANY - (lost["stop"] - lost["start"])
    written = (tmp_path / "out.ndjson").read_text().splitlines()
    offsets = [json.loads(line)["offset"] for line in written]
    assert offsets == [*range(lost["start"]), *range(begins, MANY)]


# --- a huge record --------------------------------------------------------------------------------


def test_a_record_of_ten_megabytes(
    kafka_address: str, kafka_topic: MakeTopic, kafka_client: str, tmp_path: Path
) -> None:
    """It is counted, its beginning is a dead letter, and what follows is learned."""
    size = 10 << 20
    topic = kafka_topic(**KEPT, **{"max.message.bytes": str(2 * size)})
    events = [value for _, _, value in stream(200, (1.0,))]
    huge = b'{"a": 1.0, "note": "' + b"x" * size + b'", "y": "up"}'
    with producer(kafka_address, max_request_size=2 * size) as one:
        for number, value in enumerate([*events[:100], huge, *events[100:]]):
            one.send(topic, value, timestamp_ms=BORN + number)
        one.flush()
    dead = tmp_path / "dead.ndjson"
    report = Job(
        kafka_address,
        topic,
        str(tmp_path / "checkpoints"),
        dead_letters=f"file:{dead}",
        client=kafka_client,
        options={"until_end": True},
    ).run()
    assert report["counts"]["bad"] == {"oversized": 1}
    assert report["n_events"] == 200
    (letter,) = map(json.loads, dead.read_text().splitlines())
    assert (letter["offset"], letter["size"]) == (100, len(huge))
    assert dead.stat().st_size < 1 << 18
