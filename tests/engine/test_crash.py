"""Killed with SIGKILL again and again, on a real broker, a run leaves no trace of it."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import forked_kit
import pytest
from cli_kit import click_events, ndjson, streamk
from crash_kit import (
    BORN,
    KEPT,
    MakeJob,
    MakeTopic,
    Process,
    assert_same,
    fill,
    killed,
    newest,
    output_topic,
    outputs,
    positions,
    stream,
)
from crash_kit import make_job as make_job
from kafka_kit import until

import streamk as package

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

SHARES = (0.5, 0.28, 0.17, 0.05)

# A checkpoint syncs the model's file, the manifest, the directory they are in and, renamed, the
# directory above: fsync 4k + 1 to 4k + 4. The first checkpoint is written before any event.
STRIKES = [
    ("fsync", 1),
    ("fsync", 5),
    ("fsync", 10),
    ("fsync", 7),
    ("fsync", 12),
    ("commit", 2),
    ("committed", 2),
    ("mark", 3),
]


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
