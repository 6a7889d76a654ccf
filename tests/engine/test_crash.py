"""Killed with SIGKILL again and again, on a real broker, a run leaves no trace of it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_kit import (
    BORN,
    KEPT,
    Job,
    MakeTopic,
    Process,
    fill,
    new_job,
    newest,
    output_topic,
    outputs,
    positions,
    stream,
)

from streamk.engine import newest_checkpoint

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
def test_killed_at_random_moments(
    size: int,
    kills: int,
    kafka_address: str,
    kafka_topic: MakeTopic,
    kafka_client: str,
    tmp_path: Path,
) -> None:
    topic, output = kafka_topic(4, **KEPT), kafka_topic(3, **KEPT)
    fill(kafka_address, topic, stream(size, SHARES))
    undisturbed = Job(
        kafka_address,
        topic,
        str(tmp_path / "undisturbed"),
        output=f"file:{tmp_path / 'predictions.ndjson'}",
        client=kafka_client,
        whim=0,
        options={"until_end": True, "checkpoint_every": size // 40},
    )
    expected = undisturbed.run()
    assert expected["stopped"] == "end"

    killed = undisturbed.but(
        directory=str(tmp_path / "killed"),
        output=f"kafka://{kafka_address}/{output}",
        group=f"g-{topic}",
        instance="a",
    )
    rng = random.Random(11)
    plan: list[tuple[str, int] | None] = [None] * kills
    for i, strike in enumerate(rng.sample(STRIKES, len(STRIKES))):
        plan.insert(i + i * kills // len(STRIKES), strike)
    found_at = [0]
    for whim, strike in enumerate(plan):
        with killed.but(whim=whim, strike=strike).start() as process:
            if strike is None:
                # After some batches and a bit, so that all kills together span the run; some
                # strike while the process is still starting.
                left = (size - found_at[-1]) / (len(plan) - whim + 2)
                process.until_written(int(rng.uniform(-0.1, 2.1) * left))
                time.sleep(rng.uniform(0, 0.05))
                process.kill()
            assert process.wait() == -9
        member = Path(killed.directory) / "member-0"
        last = newest_checkpoint(member) if member.is_dir() else None
        found_at.append(last.body["feed"]["sequence"]["events"] if last else 0)
    report = killed.but(whim=99).run()
    assert 0 < report["events_now"] < size
    assert len(set(found_at)) > len(plan) // 3, f"the kills are not spread over the run: {found_at}"

    # The model, the counts, the figures and the place in the stream, to the last bit.
    a, b = newest(undisturbed.directory), newest(killed.directory)
    model = "model.safetensors"
    assert (a.path / model).read_bytes() == (b.path / model).read_bytes()
    assert a.model.header == b.model.header
    assert a.body["training"] == b.body["training"]
    assert a.body["feed"] == b.body["feed"]
    for same in ("events", "counts", "n_events", "whole", "learned", "lost"):
        assert report[same] == expected[same]

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
    written = outputs(kafka_address, output)
    assert sorted(written) == learned
    for place, (value,) in written.items():
        assert value.pop("revision") in (True, False)  # which only members of groups tell
        assert value == right[place]
    print(f"{len(plan)} kills, the checkpoints they left at {found_at} of {size} events")


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
def test_killed_while_partitions_fall_silent(
    phases: int, kafka_address: str, kafka_topic: MakeTopic, kafka_client: str, tmp_path: Path
) -> None:
    """Live, so that the clock decides whom the others wait for: it decides once for all."""
    size = 448
    options = {"checkpoint_every": 256, "idle_timeout": 0.1}
    job = new_job(
        kafka_address, kafka_topic, tmp_path, partitions=3, client=kafka_client, options=options
    )
    topic = job.topic
    rng = random.Random(3)
    process: Process | None = None
    kills, journals = 0, 0
    for phase, records in enumerate(in_phases(phases, size)):
        process = process or job.but(whim=phase).start()
        # Half of it while the process waits for more, so that the silent one is passed over.
        fill(kafka_address, topic, records[: size // 2])
        process.until_written(process.written + rng.randrange(size // 2))
        fill(kafka_address, topic, records[size // 2 :])
        if phase % 4 != 3:
            process.until_written(process.written + rng.randrange(size // 4))
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            kills += 1
            journals += len(list((tmp_path / "checkpoints" / "member-0").glob("*.journal")))
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
    written = outputs(kafka_address, output_topic(job))
    assert sorted(written) == learned
    assert {len(found) for found in written.values()} == {1}
    print(f"{kills} kills, {journals} journals, {total} events")
