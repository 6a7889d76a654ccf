"""`streamk run --workers`: shards of a stream learned by processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import crossed_events, ndjson, results, streamk

SET = ("--model", "doubly-stochastic", "--set", "max_features=64", "--set", "block_size=64")
SHARDS = ("--shards", "2", "--round-events", "64")
N, HALF = 4000, 2150


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, str]:
    """A folder with the events, the predictions without workers, and the final model."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "events.ndjson").write_bytes(ndjson(crossed_events(N)))
    said, model = run(folder, "alone")
    return folder, said, model


def run(folder: Path, name: str, *more: str, source: str = "events.ndjson") -> tuple[bytes, str]:
    """Run a job to its end; return its predictions and a digest of its model."""
    streamk(*arguments(name, source), *more, cwd=folder)
    return results(folder, name)


def arguments(name: str, source: str = "events.ndjson") -> tuple[str, ...]:
    ends = ("--to", f"file:{name}.out", "--checkpoint", name, "--checkpoint-every", "1000")
    return ("run", f"file:{source}", "--label", "y", *SET, *SHARDS, *ends, "--quiet")


def test_any_number_of_workers_gives_the_same(alone: tuple[Path, bytes, str]) -> None:
    folder, said, model = alone
    assert run(folder, "two", "--workers", "2") == (said, model)
    stale = ("--staleness", "1", "--workers", "2")
    assert run(folder, "stale", *stale)[1] != model
    _, err = streamk(*arguments("stale"), "--staleness", "2", cwd=folder, status=2)
    assert "--staleness 2: this job's model has 1" in err
    shown, _ = streamk("inspect", "two", "--json", cwd=folder)
    (found,) = (one["model"] for one in json.loads(shown)["checkpoints"][-1:])
    assert found["type"] == "doubly-stochastic"
    assert found["rounds"]["shards"] == 2
    assert found["rounds"]["count"] > 20
    assert " of 2 shards" in streamk("inspect", "two", cwd=folder)[0]


def test_a_job_goes_on_with_the_round_of_another(alone: tuple[Path, bytes, str]) -> None:
    folder = alone[0]
    (folder / "later.ndjson").write_bytes(ndjson(crossed_events(N)[HALF:]))
    run(folder, "first", "--workers", "2", "--max-events", str(HALF))
    run(folder, "later", "--start-from", "first", source="later.ndjson")
    assert said(folder, "later") == said(folder, "alone")[HALF:]
    assert results(folder, "later")[1] == alone[2]


def said(folder: Path, name: str) -> list[Any]:
    lines = (folder / f"{name}.out").read_text().splitlines()
    return [(one["prediction"], one["probabilities"]) for one in map(json.loads, lines)]


def test_a_job_keeps_its_shards(alone: tuple[Path, bytes, str]) -> None:
    folder = alone[0]
    start = ("run", "file:events.ndjson", "--label", "y", "--checkpoint", "alone")
    _, err = streamk(*start, "--shards", "3", cwd=folder, status=2)
    assert "--shards 3: this job's model has 2" in " ".join(err.split())
    plain = ("run", "file:events.ndjson", "--label", "y", *SET, "--max-events", "50", "--quiet")
    streamk(*plain, "--checkpoint", "plain", cwd=folder)
    _, err = streamk(*plain, "--checkpoint", "plain", "--workers", "2", cwd=folder, status=2)
    assert "learned without shards" in " ".join(err.split())
    assert "--start-from plain" in " ".join(err.split())
