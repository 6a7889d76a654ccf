"""`streamk run --workers`: shards of a stream learned by processes, killed and started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson, streamk
from kafka_kit import producer
from ray_kit import real_ray

from streamk.engine import newest_checkpoint
from streamk.packing import fingerprint

SET = ("--model", "doubly-stochastic", "--set", "max_features=64", "--set", "block_size=64")
SHARDS = ("--shards", "2", "--round-events", "64")
N = 6000


def stream() -> list[dict[str, Any]]:
    """Return events, most of which have a label, and some of which cannot be used."""
    rng = np.random.default_rng(0)
    X, known = rng.normal(size=(N, 2)).round(3), rng.random(N) < 0.9
    events: list[dict[str, Any]] = [
        {"a": a, "b": b} | ({"y": "same" if a * b > 0 else "other"} if there else {})
        for (a, b), there in zip(X.tolist(), known.tolist(), strict=True)
    ]
    events[1500]["a"] = "none"
    events[3000]["c"] = 1.0  # a column that comes in the midst of a round
    return events


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, str]:
    """A folder with the events, the predictions without workers, and the final model."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "events.ndjson").write_bytes(ndjson(stream()))
    said, model = run(folder, "alone")
    return folder, said, model


def run(folder: Path, name: str, *more: str, source: str = "events.ndjson") -> tuple[bytes, str]:
    """Run a job to its end; return its predictions and a digest of its model."""
    streamk(*arguments(name, source), *more, cwd=folder)
    return results(folder, name)


def arguments(name: str, source: str = "events.ndjson") -> tuple[str, ...]:
    address = source if ":" in source else f"file:{source}"
    ends = ("--to", f"file:{name}.out", "--checkpoint", name, "--checkpoint-every", "1000")
    return ("run", address, "--label", "y", *SET, *SHARDS, *ends, "--quiet")


def results(folder: Path, name: str) -> tuple[bytes, str]:
    found = newest_checkpoint(folder / name)
    assert found is not None
    return (folder / f"{name}.out").read_bytes(), fingerprint(found.model)


def test_any_number_of_workers_gives_the_same(alone: tuple[Path, bytes, str]) -> None:
    folder, said, model = alone
    assert run(folder, "two", "--workers", "2") == (said, model)
    shown, _ = streamk("inspect", "two", "--json", cwd=folder)
    (found,) = (one["model"] for one in json.loads(shown)["checkpoints"][-1:])
    assert found["type"] == "doubly-stochastic"
    assert found["rounds"]["shards"] == 2
    assert found["rounds"]["count"] > 20
    assert " of 2 shards" in streamk("inspect", "two", cwd=folder)[0]


@pytest.mark.slow
def test_a_killed_job_goes_on_with_other_workers(alone: tuple[Path, bytes, str]) -> None:
    folder, said, model = alone
    command = [sys.executable, "-m", "streamk", *arguments("killed"), "--workers", "2"]
    for epoch in (2, 4):
        job = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120.0
        while job.poll() is None and time.monotonic() < until:
            found = newest_checkpoint(folder / "killed") if (folder / "killed").exists() else None
            if found is not None and found.epoch >= epoch:
                break
            time.sleep(0.005)
        job.send_signal(signal.SIGKILL)
        job.wait()
    assert run(folder, "killed", "--workers", "1") == (said, model)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_topic_is_learned_by_workers(alone: tuple[Path, bytes, str], kafka_address: str) -> None:
    folder, said, model = alone
    with producer(kafka_address, linger_ms=20) as out:
        for event in stream():
            out.send("shards", json.dumps(event).encode(), partition=0)
        out.flush()
    source = f"kafka://{kafka_address}/shards"
    found = run(folder, "topic", "--workers", "2", "--until-end", source=source)
    lines = [json.loads(line) for line in found[0].splitlines()]
    expected = [json.loads(line) for line in said.splitlines()]
    assert [line["prediction"] for line in lines] == [line["prediction"] for line in expected]
    assert found[1] == model


@pytest.mark.slow
def test_ray_gives_the_same(alone: tuple[Path, bytes, str]) -> None:
    folder, said, model = alone
    with real_ray():
        assert run(folder, "ray", "--workers", "2", "--ray", "local") == (said, model)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--round-events", "9"), "--round-events needs --workers or --shards"),
        (("--ray", "local"), "--ray needs --workers or --shards"),
        (("--workers", "3", "--shards", "2"), "3 workers are more than the 2 shards"),
        (("--workers", "2", "--serve-compiled"), "exclude each other"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, more: tuple[str, ...], message: str) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(stream()[:20]))
    _, err = streamk("run", "file:events.ndjson", "--label", "y", *more, cwd=tmp_path, status=2)
    assert message in " ".join(err.split())


def test_a_job_keeps_its_shards(alone: tuple[Path, bytes, str]) -> None:
    folder = alone[0]
    start = ("run", "file:events.ndjson", "--label", "y", "--checkpoint", "alone")
    _, err = streamk(*start, "--shards", "3", cwd=folder, status=2)
    assert "--shards 3: this job's model has 2" in " ".join(err.split())
    plain = ("run", "file:events.ndjson", "--label", "y", *SET, "--max-events", "50", "--quiet")
    streamk(*plain, "--checkpoint", "plain", cwd=folder)
    _, err = streamk(*plain, "--checkpoint", "plain", "--workers", "2", cwd=folder, status=2)
    assert "learned without shards" in " ".join(err.split())
