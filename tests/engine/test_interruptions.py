"""What comes between a run and its end: signals, a broker that restarts, lost data, silence."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from crash_kit import (
    Job,
    MakeTopic,
    assert_as_undisturbed,
    fill,
    new_job,
    newest,
    output_topic,
    outputs,
    positions,
    stream,
)
from kafka_kit import delete_before

from connectors.kafka import KafkaSource
from streamk.engine.recovery.group import Owner

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


EVENTS = 4096
SHARES = (0.6, 0.4)


def make_job(address: str, make_topic: MakeTopic, client: str, directory: Path) -> Job:
    one = new_job(
        address,
        make_topic,
        directory,
        partitions=2,
        client=client,
        session_timeout=2.0,
        options={"checkpoint_every": 320, "until_end": True},
    )
    fill(address, one.topic, stream(EVENTS, SHARES))
    return one.but(group=f"g-{one.topic}")


@pytest.fixture
def job(kafka_address: str, kafka_topic: MakeTopic, kafka_client: str, tmp_path: Path) -> Job:
    return make_job(kafka_address, kafka_topic, kafka_client, tmp_path)


# --- signals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)]
)
def test_a_signal_ends_the_run_in_order(job: Job, number: int) -> None:
    with job.but(pause=0.01).start() as process:
        assert process.until_written(1000)
        process.signal(number)
        stopped = process.report()
    assert stopped["stopped"] == "request"
    assert 1000 <= stopped["events"] < EVENTS
    assert stopped["events"] % 64 == 0

    # The checkpoint has everything, the group knows it, and no prediction was ahead of it.
    last = newest(job.directory)
    assert last.body["feed"]["sequence"]["events"] == stopped["events"] == stopped["n_events"]
    source = KafkaSource((job.address,), job.topic, group=job.group)
    for name, place in last.body["feed"]["sequence"]["partitions"].items():
        found = source.committed(name)
        assert found[0] == place["offset"]
        owner = Owner.parse(found[1])
        assert owner.epoch == last.epoch
    source.close()
    assert len(outputs(job.address, output_topic(job))) == stopped["events"]

    report = job.run()
    assert report["stopped"] == "end"
    assert report["events_now"] == EVENTS - stopped["events"]
    assert_as_undisturbed(job, report)
    written = outputs(job.address, output_topic(job))
    assert all(len(found) == 1 for found in written.values())  # nothing had to be written again


# --- the broker ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        pytest.param("stop", 0.0, marks=pytest.mark.nightly),
        pytest.param("kill", 0.0, marks=pytest.mark.nightly),
        ("kill", 3.0),
        pytest.param("kill", 60.0, marks=pytest.mark.nightly),
    ],
)
def test_the_broker_restarts(
    how: str,
    seconds: float,
    local_kafka: Any,
    kafka_topic: MakeTopic,
    kafka_client: str,
    tmp_path: Path,
) -> None:
    """It is away for a while, longer than the group waits for a member."""
    address = local_kafka.address
    job = make_job(address, kafka_topic, kafka_client, tmp_path).but(pause=0.02)
    with job.start() as process:
        assert process.until_written(1000)
        getattr(local_kafka, how)()
        time.sleep(seconds)
        local_kafka.start()
        report = process.report()
    assert report["stopped"] == "end"
    assert_as_undisturbed(job, report)


# --- lost data ----------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_what_is_next_is_gone(job: Job, policy: str) -> None:
    first = job.but(options={**job.options, "max_events": 1280}).run()
    name = f"{job.topic}:0"
    [[_, reached]] = first["learned"][name]
    delete_before(job.address, job.topic, 0, reached + 100)

    # Nothing is passed over silently.
    with job.start() as process:
        assert process.wait() == 1
        message = process.log.splitlines()[-1]
    assert re.search(
        rf"{name} is to be read from offset {reached}, but holds {reached + 100} to", message
    )
    assert 'data_loss="earliest"' in message
    assert newest(job.directory).body["feed"]["sequence"]["events"] == 1280

    report = job.but(options={**job.options, "data_loss": policy}).run()
    source = KafkaSource((job.address,), job.topic)
    end, other = source.end(name), source.end(f"{job.topic}:1")
    source.close()
    on = reached + 100 if policy == "earliest" else end
    assert [{**lost, "reason": ""} for lost in report["lost"]] == [
        {"partition": name, "start": reached, "stop": on, "reason": ""}
    ]
    assert report["stopped"] == "end"
    assert report["events"] == report["n_events"] == end + other - (on - reached)
    written = outputs(job.address, output_topic(job))
    gone = [(name, offset) for offset in range(reached, on)]
    assert sorted([*written, *gone]) == positions(
        {name: [[0, end]], f"{job.topic}:1": [[0, other]]}
    )
