"""With transactions a reader of what was committed sees everything once, whatever dies when."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash_kit import Job, fill, newest, outputs, positions, stream

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

MakeTopic = Callable[..., str]

KEPT = {"retention.ms": "-1"}
SHARES = (0.5, 0.3, 0.2)

STRIKES = {
    # Of the first checkpoint come no outputs, and without a group no transaction.
    "alone": [("mark", 3), ("end", 2), ("ended", 2), ("fsync", 5), ("fsync", 8), ("fsync", 12)],
    "in a group": [("mark", 3), ("commit", 3), ("end", 3), ("ended", 3), ("fsync", 9)],
}


def with_bad_ones(size: int) -> Iterator[tuple[int, int, bytes]]:
    """A stream of which one event in twenty cannot be used."""
    for i, (partition, timestamp, value) in enumerate(stream(size, SHARES)):
        yield partition, timestamp, b"{" if i % 20 == 7 else value


@pytest.mark.parametrize("group", [False, True], ids=STRIKES)
@pytest.mark.parametrize(
    ("size", "kills"), [(6_000, 3), pytest.param(100_000, 20, marks=pytest.mark.nightly)]
)
def test_killed_at_random_moments(
    size: int,
    kills: int,
    group: bool,
    kafka_address: str,
    kafka_topic: MakeTopic,
    kafka_client: str,
    tmp_path: Path,
) -> None:
    topic, output, dead = kafka_topic(3, **KEPT), kafka_topic(3, **KEPT), kafka_topic(2, **KEPT)
    fill(kafka_address, topic, with_bad_ones(size))
    undisturbed = Job(
        kafka_address,
        topic,
        str(tmp_path / "undisturbed"),
        output=f"file:{tmp_path / 'predictions.ndjson'}",
        client=kafka_client,
        whim=0,
        options={"until_end": True, "checkpoint_every": size // 20},
    )
    expected = undisturbed.run()
    job = undisturbed.but(
        directory=str(tmp_path / "killed"),
        output=f"kafka://{kafka_address}/{output}",
        dead_letters=f"kafka://{kafka_address}/{dead}",
        group=f"g-{topic}" if group else None,
        instance="a" if group else None,
        options={**undisturbed.options, "transactions": 30.0},
    )
    strikes = STRIKES["in a group" if group else "alone"]
    rng = random.Random(3)
    plan: list[tuple[str, int] | None] = [*strikes, *[None] * kills]
    rng.shuffle(plan)
    for whim, strike in enumerate(plan):
        with job.but(whim=whim, strike=strike).start() as process:
            if strike is None:
                process.until_written(int(rng.uniform(0.0, 2.0) * size / len(plan)))
                time.sleep(rng.uniform(0, 0.05))
                process.kill()
            assert process.wait() == -9, f"{strike}\n{process.log[-2000:]}"
    report = job.but(whim=99).run()
    assert 0 < report["events_now"] < size
    for same in ("events", "counts", "n_events", "whole", "learned"):
        assert report[same] == expected[same]
    a, b = newest(undisturbed.directory), newest(job.directory)
    assert (a.path / "model.safetensors").read_bytes() == (
        b.path / "model.safetensors"
    ).read_bytes()

    seen = outputs(kafka_address, output, "read_committed")
    right = {}
    for line in (tmp_path / "predictions.ndjson").read_text().splitlines():
        value = json.loads(line)
        right[value["partition"], value["offset"]] = value["prediction"], value["probabilities"]
    assert {
        place: [(value["prediction"], value["probabilities"]) for value in values]
        for place, values in seen.items()
    } == {place: [value] for place, value in right.items()}
    letters = outputs(kafka_address, dead, "read_committed")
    assert {len(found) for found in letters.values()} == {1}
    assert sorted([*seen, *letters]) == positions(report["learned"])


def every_once(address: str, output: str, count: int) -> None:
    seen = outputs(address, output, "read_committed")
    assert len(seen) == count
    assert {len(found) for found in seen.values()} == {1}
