"""Faults of a real broker while a job reads or writes, and signals: told, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_kit import (
    BORN,
    KEPT,
    Job,
    MakeJob,
    MakeTopic,
    assert_as_undisturbed,
    fill,
    newest,
    output_topic,
    outputs,
    stream,
)
from crash_kit import make_job as make_job
from kafka_kit import Running, Topics, delete_before, producer, warnings
from kafka_kit import topics as topics
from local_kafka import LocalKafka, missing

from connectors.kafka import KafkaSink, KafkaSource
from connectors.registry import open_source
from streamk.engine.recovery.group import Owner

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("kafka_client"),
]
SHARES = (0.6, 0.4)
EVENTS = 2560


def filled(make_job: MakeJob, count: int, **fields: Any) -> Job:
    """A job on a topic of two partitions that has so many events."""
    options = {"checkpoint_every": 640, "until_end": True, **fields.pop("options", {})}
    one = make_job(2, options=options, **fields)
    fill(one.address, one.topic, stream(count, SHARES))
    return one


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """A member of a group."""
    one = filled(make_job, EVENTS, session_timeout=2.0, options={"checkpoint_every": 320})
    return one.but(group=f"g-{one.topic}")


def clicks(first: int, count: int) -> Iterator[bytes]:
    for i in range(first, first + count):
        yield json.dumps({"a": i % 7, "y": "up" if i % 2 else "down"}).encode()


def add(address: str, topic: str, first: int, count: int) -> None:
    fill(address, topic, ((0, 1000 + n, one) for n, one in enumerate(clicks(first, count), first)))


# --- signals --------------------------------------------------------------------------------------


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
    with contextlib.closing(KafkaSource((job.address,), job.topic, group=job.group)) as source:
        for name, place in last.body["feed"]["sequence"]["partitions"].items():
            offset, owner = source.committed(name)
            assert (offset, Owner.parse(owner).epoch) == (place["offset"], last.epoch)
    assert len(outputs(job.address, output_topic(job))) == stopped["events"]

    report = job.run()
    assert report["stopped"] == "end"
    assert report["events_now"] == EVENTS - stopped["events"]
    assert_as_undisturbed(job, report, once=True)  # nothing had to be written again


# --- brokers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        pytest.param("stop", 0.0, marks=pytest.mark.nightly),
        pytest.param("kill", 0.0, marks=pytest.mark.nightly),
        ("kill", 3.0),
        pytest.param("kill", 60.0, marks=pytest.mark.nightly),
    ],
)
def test_the_broker_restarts(how: str, seconds: float, restarted: Any, job: Job) -> None:
    """It is away for a while, longer than the group waits for a member."""
    with job.but(pause=0.02).start() as process:
        assert process.until_written(1000)
        getattr(restarted, how)()
        time.sleep(seconds)
        restarted.start()
        report = process.report()
    assert report["stopped"] == "end"
    assert_as_undisturbed(job, report)


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
    fill(first.address, topic, stream(8000, SHARES))
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
    assert_as_undisturbed(job, report, once=True)


def test_outputs_that_are_given_up(restarted: Any, make_job: MakeJob) -> None:
    """The broker is away for longer than outputs wait: the job ends; the next one writes them."""
    job = filled(make_job, 2000, pause=0.01)
    job = job.but(output=f"{job.output}?delivery_timeout=3")
    with job.start() as process:
        assert process.until_written(500)
        restarted.kill()
        assert process.wait() == 1
        last = process.log.splitlines()[-1]
        assert restarted.address in last or output_topic(job) in process.log
        assert "ConnectorError: " in process.log or "Unavailable: " in process.log
    restarted.start()
    report = job.but(pause=0.0).run()
    assert_as_undisturbed(job, report, once=True)


GONE = "no Kafka broker answers at"


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


def test_a_broker_that_is_gone_while_a_run_reads(
    restarted: Any, kafka_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka_topic(**{"retention.ms": "-1"})
    add(restarted.address, topic, 0, 100)
    run = Running(KafkaSource((restarted.address,), topic))
    gone_and_back(restarted, run, lambda: None, caplog)
    add(restarted.address, topic, 100, 100)
    run.until(lambda: run.events == 200 and "broker gone" not in run.lines[-1])
    assert run.end().counts.learned == 200
    assert sum(GONE in warning for warning in warnings(caplog)) == 1


def test_a_broker_that_is_gone_while_a_run_writes(
    restarted: Any, kafka_topic: MakeTopic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The next checkpoint waits for what cannot be written."""
    topic = kafka_topic(**{"retention.ms": "-1"})
    path = tmp_path / "events.ndjson"

    def more(first: int = 100) -> None:
        with path.open("ab") as file:
            file.write(b"".join(event + b"\n" for event in clicks(first, 100)))

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


# --- lost data ------------------------------------------------------------------------------------


MANY = 30_000
NOTE = "x" * 1000


def noted(count: int) -> Iterator[tuple[int, int, bytes]]:
    """Events so large that no client reads all of them ahead."""
    for partition, at, value in stream(count, (1.0,)):
        yield partition, at, value.replace(b"}", f', "note": "{NOTE}"}}'.encode())


@pytest.mark.parametrize("policy", ["fail", pytest.param("earliest", marks=pytest.mark.nightly)])
def test_retention_overtakes_a_slow_job(policy: str, make_job: MakeJob, tmp_path: Path) -> None:
    """The log begins behind what is read next, while the job reads."""
    begins = MANY - 500
    options = {"checkpoint_every": 640, "until_end": True, "buffer_events": 1000}
    options |= {"ignore": ["note"], "data_loss": policy}
    to = f"file:{tmp_path / 'out.ndjson'}"
    job = make_job(written=0, output=to, pause=0.01, options=options)
    fill(job.address, job.topic, noted(MANY))
    name = f"{job.topic}:0"
    with job.start() as process:
        assert process.until_written(640)
        delete_before(job.address, job.topic, 0, begins)
        status = process.wait()
        log = process.log
    if policy == "fail":
        assert status == 1
        told = re.search(
            rf"{name} should go on from offset (\d+), but holds {begins} to {MANY}:"
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


# --- topics ---------------------------------------------------------------------------------------


GROUPS = pytest.mark.parametrize("group", [None, pytest.param("g", marks=pytest.mark.nightly)])


@pytest.fixture
def live(make_job: MakeJob, tmp_path: Path) -> Job:
    to = f"file:{tmp_path / 'out.ndjson'}"
    one = make_job(written=0, output=to, options={"checkpoint_every": 50})
    add(one.address, one.topic, 0, 100)
    return one


@GROUPS
def test_a_topic_is_deleted_while_it_is_read(live: Job, topics: Topics, group: str | None) -> None:
    with live.but(group=group and f"g-{live.topic}").start() as process:
        assert process.until_written(100)
        topics.delete(live.topic)
        assert process.wait() == 1
        assert (
            f"the topic {live.topic!r} was deleted while it was read"
            in process.log.splitlines()[-1]
        )
    assert newest(live.directory).body["feed"]["sequence"]["events"] == 100


def test_a_topic_is_made_anew_while_it_is_read(live: Job, topics: Topics) -> None:
    with live.start() as process:
        assert process.until_written(100)
        topics.delete(live.topic)
        topics.make(live.topic)
        add(live.address, live.topic, 0, 300)
        assert process.wait() == 1
        assert "was deleted" in process.log.splitlines()[-1]


@GROUPS
def test_a_topic_is_made_anew_between_two_runs(
    live: Job, topics: Topics, group: str | None
) -> None:
    """The place of the checkpoint is one of the new topic, too, but of another event."""
    ending = live.but(
        options={**live.options, "until_end": True}, group=group and f"g-{live.topic}"
    )
    assert ending.run()["n_events"] == 100
    topics.delete(live.topic)
    topics.make(live.topic)
    add(live.address, live.topic, 0, 300)
    with ending.start() as process:
        assert process.wait() == 1
        assert "is of another topic of this name" in process.log.splitlines()[-1]
        assert 'data_loss="earliest"' in process.log.splitlines()[-1]
    report = ending.but(options={**ending.options, "data_loss": "earliest"}).run()
    assert report["n_events"] == 400
    again = ending.run()
    assert (again["n_events"], again["events_now"]) == (400, 0)


# --- a huge record --------------------------------------------------------------------------------


def test_a_record_of_ten_megabytes(make_job: MakeJob, tmp_path: Path) -> None:
    """It is counted, its beginning is a dead letter, and what follows is learned."""
    size, dead = 10 << 20, tmp_path / "dead.ndjson"
    configs = {**KEPT, "max.message.bytes": str(2 * size)}
    options, letters = {"until_end": True}, f"file:{dead}"
    job = make_job(written=0, configs=configs, dead_letters=letters, options=options)
    events = [value for _, _, value in stream(200, (1.0,))]
    huge = b'{"a": 1.0, "note": "' + b"x" * size + b'", "y": "up"}'
    with producer(job.address, max_request_size=2 * size) as one:
        for number, value in enumerate([*events[:100], huge, *events[100:]]):
            one.send(job.topic, value, timestamp_ms=BORN + number)
        one.flush()
    report = job.run()
    assert report["counts"]["bad"] == {"oversized": 1}
    assert report["n_events"] == 200
    (letter,) = map(json.loads, dead.read_text().splitlines())
    assert (letter["offset"], letter["size"]) == (100, len(huge))
    assert dead.stat().st_size < 1 << 18
