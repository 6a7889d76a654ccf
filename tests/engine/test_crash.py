"""Killed with SIGKILL again and again, on a real broker, a run leaves no trace of it."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from cli_kit import click_events, ndjson, streamk
from crash_kit import (
    BORN,
    KEPT,
    Job,
    MakeJob,
    MakeTopic,
    Position,
    Process,
    assert_same,
    fill,
    killed,
    newest,
    output_topic,
    outputs,
    positions,
    read_all,
    stream,
)
from crash_kit import make_job as make_job
from kafka_kit import until

import streamk as package
from connectors.base import MAX_EVENT_BYTES
from streamk.encoding import Schema

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

SHARES = (0.5, 0.28, 0.17, 0.05)

# A checkpoint syncs the model's file, the manifest, the directory they are in and, renamed, the
# directory above: fsync 4k + 1 to 4k + 4. The first checkpoint is written before any event.
STRIKES = [("fsync", n) for n in (1, 5, 10, 7, 12)]
STRIKES += [("commit", 2), ("committed", 2), ("mark", 3)]


@pytest.mark.parametrize(
    ("size", "kills"), [(4_000, 2), pytest.param(200_000, 20, marks=pytest.mark.nightly)]
)
def test_killed_at_random_moments(size: int, kills: int, make_job: MakeJob, tmp_path: Path) -> None:
    options = {"until_end": True, "checkpoint_every": size // 40}
    job = make_job(4, 3, instance="a", options=options)
    job = job.but(group=f"g-{job.topic}")
    fill(job.address, job.topic, stream(size, SHARES))
    undisturbed = job.but(
        directory=str(tmp_path / "undisturbed"),
        output=f"file:{tmp_path / 'predictions.ndjson'}",
        group=None,
        instance=None,
        whim=0,
    )
    expected = undisturbed.run()
    assert expected["stopped"] == "end"

    plan: list[tuple[str, int] | None] = [None] * kills
    for i, strike in enumerate(random.Random(11).sample(STRIKES, len(STRIKES))):
        plan.insert(i + i * kills // len(STRIKES), strike)
    found_at = killed(job, plan, size, seed=11)
    report = job.but(whim=99).run()
    assert 0 < report["events_now"] < size
    assert len(set(found_at)) > len(plan) // 3, f"the kills are not spread over the run: {found_at}"

    assert_same(report, job, expected, undisturbed)
    a, b = newest(undisturbed.directory), newest(job.directory)
    assert a.body["feed"] == b.body["feed"]

    # Every event was learned, once.
    assert report["n_events"] == report["counts"]["learned"] == size
    learned = positions(report["learned"])
    assert len(set(learned)) == len(learned) == size

    # Every event was predicted, once.
    right = {}
    with (tmp_path / "predictions.ndjson").open() as file:
        for line in file:
            value = json.loads(line)
            del value["timestamp"]
            right[value.pop("partition"), value.pop("offset")] = value
    assert sorted(right) == learned
    written = outputs(job.address, output_topic(job))
    assert sorted(written) == learned
    for place, (value,) in written.items():
        assert value.pop("revision") in (True, False)  # which only members of groups tell
        assert value == right[place]


def in_phases(phases: int, size: int) -> Iterator[list[tuple[int, int, bytes]]]:
    """Events as they come in: in each phase one partition in three is silent.

    When it speaks again, what it brings is older than what the others have brought meanwhile.
    """
    rng = random.Random(5)
    events = [value for _, _, value in stream(phases * size, (1.0,))]
    clocks = [BORN] * 3
    for phase in range(phases):
        silent = phase % 3
        records = []
        for value in events[phase * size : (phase + 1) * size]:
            partition = (silent + rng.choice((1, 1, 2))) % 3
            clocks[partition] += rng.randrange(20)
            records.append((partition, clocks[partition], value))
        yield records


@pytest.mark.parametrize("phases", [7, pytest.param(15, marks=pytest.mark.nightly)])
def test_killed_while_partitions_fall_silent(phases: int, make_job: MakeJob) -> None:
    """Live, so that the clock decides whom the others wait for: it decides once for all."""
    size = 448
    job = make_job(3, options={"checkpoint_every": 256, "idle_timeout": 0.1})
    rng = random.Random(3)
    process: Process | None = None
    journals = 0
    for phase, records in enumerate(in_phases(phases, size)):
        process = process or job.but(whim=phase).start()
        # Half of it while the process waits for more, so that the silent one is passed over.
        fill(job.address, job.topic, records[: size // 2])
        process.until_written(process.written + rng.randrange(size // 2))
        fill(job.address, job.topic, records[size // 2 :])
        if phase % 4 != 3:
            process.until_written(process.written + rng.randrange(size // 4))
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            journals += len(list((Path(job.directory) / "member-0").glob("*.journal")))
            process = None
    if process is not None:
        process.kill()
    total = phases * size
    report = job.but(options={**job.options, "until_end": True}).run()
    assert report["stopped"] == "end"
    assert journals > 0
    assert report["n_events"] == report["events"] == report["counts"]["learned"] == total
    learned = positions(report["learned"])
    assert len(set(learned)) == len(learned) == total
    written = outputs(job.address, output_topic(job))
    assert sorted(written) == learned
    assert {len(found) for found in written.values()} == {1}


# --- requests -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a job that has learned from a file."""
    home = tmp_path_factory.mktemp("learned")
    (home / "events.ndjson").write_bytes(ndjson(click_events()))
    options = ("--label", "clicked", "--checkpoint", "state", "--quiet")
    streamk("run", "file:events.ndjson", *options, cwd=home)
    return home / "state"


@pytest.mark.usefixtures("kafka_client")
def test_every_request_is_answered_though_the_process_is_killed(
    kafka_address: str, kafka_topic: MakeTopic, state: Path, tmp_path: Path
) -> None:
    """By a topic, while a job learns on."""
    requests = [{k: v for k, v in e.items() if k != "clicked"} for e in click_events(400)]
    asked, answered = kafka_topic(2, **KEPT), kafka_topic()
    values = [json.dumps(event).encode() for event in requests]
    fill(kafka_address, asked, ((i % 2, BORN + i, value) for i, value in enumerate(values)))
    command = [sys.executable, "-m", "streamk", "predict", str(state)]
    command += [f"kafka://{kafka_address}/{asked}", "--to", f"kafka://{kafka_address}/{answered}"]
    command += ["--checkpoint", "place", "--checkpoint-every", "50", "--quiet"]
    for _ in range(3):
        process = forked_kit.popen(command, cwd=tmp_path)
        until(lambda: [*tmp_path.glob("place/member-0/0*/manifest.json")], process=process)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = forked_kit.run([*command, "--until-end"], cwd=tmp_path, timeout=120, check=True)
    assert done.returncode == 0
    model = package.load(state)
    found = outputs(kafka_address, answered)
    assert len(found) == 400, "each at least once"
    for (partition, offset), values in found.items():
        place = 2 * offset + int(partition.rpartition(":")[2])
        expected = model.predict_one(requests[place])
        assert {value["prediction"] for value in values} == {expected}, "and always the same"


# --- bad events -----------------------------------------------------------------------------------


EVENTS = 8_000
BAD_KEPT = {"retention.ms": "-1", "max.message.bytes": str(2 * MAX_EVENT_BYTES)}

GOOD = b'"a": 0.5, "b": -1.0, "c": "x"'
BAD: list[tuple[str, bytes | None]] = [
    ("undecodable", b""),
    ("undecodable", b'{"a": 0.5, "b"'),
    ("undecodable", b"\x00\x01\xfe\xff"),
    ("undecodable", b'{"a": 1, "c": "\xe9", "y": "up"}'),
    ("undecodable", bytes(random.Random(0).randbytes(900_000))),
    ("not an object", b"[0.5, -1.0]"),
    ("not an object", b"17"),
    ("not an object", b"null"),
    ("unknown column", b'{"a": "half", "b": -1.0, "c": "x", "y": "up"}'),
    ("wrong type", b'{"a": [[0.5]], "b": -1.0, "c": "x", "y": "up"}'),
    ("wrong type", b'{"a": 0.5, "b": -1.0, "c": [[NaN]], "y": "up"}'),
    ("unknown column", b'{"a": 0.5, "b": -1.0, "c": 3, "y": "up"}'),
    ("inf", b'{"a": Infinity, "b": -1.0, "c": "x", "y": "up"}'),
    ("inf", b'{"a": 0.5, "b": -1e200, "c": "x", "y": "up"}'),
    ("inf", b'{"a": 0.5, "b": 1e999, "c": "x", "y": "up"}'),
    ("label out of domain", b'{%b, "y": "sideways"}' % GOOD),
    ("label out of domain", b'{%b, "y": 1}' % GOOD),
    ("label out of domain", b'{%b, "y": ["up"]}' % GOOD),
    ("oversized", b'{%b, "y": "up", "note": "%b"}' % (GOOD, b"\x00" * MAX_EVENT_BYTES)),
    ("oversized", b'{%b, "y": "up"}' % GOOD + b" " * MAX_EVENT_BYTES),
    ("unknown column", b'{%b, "d": 1, "y": "up"}' % GOOD),
    ("unknown column", b'{%b, "%b": 1, "y": "up"}' % (GOOD, b"d" * 700_000)),
    ("unknown column", b'{"a": 0.5, "b": -1.0, "c": "w", "y": "up"}'),
]

SCHEMA = Schema(
    ("a", "b", "late", "c=x", "c=y", "c=z"),
    label="y",
    label_type="str",
    kinds={"a": "number", "b": "number", "late": "number", "c": "text"},
    classes=("up", "down", "far"),
    mode="strict",
)


@dataclass
class Stream:
    job: Job
    bad: dict[Position, tuple[str, bytes]]
    good: set[Position]
    unlabelled: int
    tombstones: int

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(kind for kind, _ in self.bad.values()))

    def check_counts(self, report: dict[str, Any]) -> None:
        assert report["counts"]["bad"] == self.kinds
        assert report["events"] == EVENTS
        assert report["n_events"] == report["counts"]["learned"] == len(self.good) - self.unlabelled
        assert report["counts"]["unlabelled"] == self.unlabelled
        assert report["counts"]["tombstones"] == self.tombstones

    def check_letter(self, letter: dict[str, Any]) -> Position:
        """A dead letter says where it was, what is wrong with it, and what it was."""
        place = letter["partition"], letter["offset"]
        kind, value = self.bad[place]
        assert letter["kind"] == kind
        assert letter["reason"].startswith(f"{kind}: ")
        raw = letter["value"].encode() if letter["encoding"] == "utf-8" else b""
        if letter["encoding"] == "base64":
            raw = b64decode(letter["value"])
        if len(value) > 1 << 17:
            assert value.startswith(raw)
            assert len(raw) > 60_000
            assert letter["size"] == len(value)
        else:
            assert raw == value
            assert "size" not in letter
        return place


@pytest.fixture
def bad_stream(kafka_address: str, kafka_topic: MakeTopic, tmp_path: Path) -> Stream:
    rng = random.Random(2)
    topic = kafka_topic(2, **BAD_KEPT)
    found = Stream(
        Job(
            kafka_address,
            topic,
            str(tmp_path / "checkpoints"),
            options={"schema": SCHEMA.to_json(), "until_end": True, "checkpoint_every": 800},
        ),
        {},
        set(),
        0,
        0,
    )
    records: list[tuple[int, int, bytes | None]] = []
    offsets: dict[int, int] = defaultdict(int)
    chosen = iter(rng.sample(BAD * 9, EVENTS // 100))
    spots = set(rng.sample(range(EVENTS), EVENTS // 100))
    for i, (partition, at, value) in enumerate(stream(EVENTS, (0.7, 0.3))):
        place = f"{topic}:{partition}", offsets[partition]
        offsets[partition] += 1
        if i % 77 == 5 and i not in spots:
            found.tombstones += 1
            records.append((partition, at, None))
            continue
        if i in spots:
            found.bad[place] = next(chosen)
            records.append((partition, at, found.bad[place][1]))
            continue
        found.good.add(place)
        if i % 50 == 0:  # no label yet: to be predicted, not learned
            found.unlabelled += 1
            value = value[: value.rindex(b'"y"')] + b'"y": null}'
        records.append((partition, at, value))
    assert set(found.kinds) == {kind for kind, _ in BAD}
    fill(kafka_address, topic, records, max_request_size=4 * MAX_EVENT_BYTES)
    return found


def test_dead_letters_to_a_topic(
    bad_stream: Stream, kafka_address: str, kafka_topic: MakeTopic
) -> None:
    """Killed on the way, too: each dead letter is there once, and counted once."""
    output, dead = kafka_topic(**{"retention.ms": "-1"}), kafka_topic(**{"retention.ms": "-1"})
    job = bad_stream.job.but(
        output=f"kafka://{kafka_address}/{output}", dead_letters=f"kafka://{kafka_address}/{dead}"
    )
    rng = random.Random(4)
    for whim in range(3):
        with job.but(whim=whim).start() as process:
            process.until_written(rng.randrange(2000))
            process.kill()
    bad_stream.check_counts(job.run())

    written = outputs(kafka_address, output)
    assert set(written) == bad_stream.good
    assert {len(found) for found in written.values()} == {1}
    letters = defaultdict(list)
    for record in read_all(kafka_address, dead):
        letter = json.loads(record.value)
        place = bad_stream.check_letter(letter)
        headers = {name: value.decode() for name, value in record.headers}
        topic, _, number = place[0].rpartition(":")
        assert len(headers.pop("streamk-writer")) == 12
        assert headers == {
            "streamk-topic": topic,
            "streamk-partition": number,
            "streamk-offset": str(place[1]),
        }
        letters[place].append(letter)
    assert letters.keys() == bad_stream.bad.keys()
    assert {len(found) for found in letters.values()} == {1}


def test_raise_stops_and_loses_nothing(bad_stream: Stream, tmp_path: Path) -> None:
    skipping = {**bad_stream.job.options, "on_error": "skip"}
    plain = bad_stream.job.but(directory=str(tmp_path / "plain"), options=skipping)
    expected = plain.run()
    bad_stream.check_counts(expected)

    job = bad_stream.job.but(options={**bad_stream.job.options, "on_error": "raise"})
    with job.start() as process:
        assert process.wait() == 1
    error = process.log.splitlines()[-1]
    place = next(
        place
        for place, (kind, _) in bad_stream.bad.items()
        if f"the event at {place[0]} offset {place[1]} cannot be used: {kind}: " in error
    )
    assert 'choose on_error="skip"' in error
    # All before it is in the checkpoint or will be read again; so is the event itself.
    reached = newest(job.directory).body["feed"]["sequence"]["partitions"][place[0]]["offset"]
    assert reached <= place[1]
    with job.start() as process:
        assert process.wait() == 1
    assert process.log.splitlines()[-1] == error

    # Whoever chooses otherwise goes on, and has what a run without the stop has.
    report = job.but(options=skipping).run()
    bad_stream.check_counts(report)
    assert_same(report, job, expected, plain)
