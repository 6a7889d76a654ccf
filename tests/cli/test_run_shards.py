"""`streamk run --workers`: shards of a stream learned by processes, killed and started again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked_kit
import numpy as np
import pytest
from cli_kit import crossed_events, kill, ndjson, results, streamk
from kafka_kit import producer
from ray_kit import real_ray

from streamk.distributed import Sharded
from streamk.engine import newest_checkpoint
from streamk.learners.registry import from_state
from streamk.packing import fingerprint

SET = ("--model", "doubly-stochastic", "--set", "max_features=64", "--set", "block_size=64")
SHARDS = ("--shards", "2", "--round-events", "64")
N, HALF = 6000, 3350


def stream() -> list[dict[str, Any]]:
    return crossed_events(N)


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


def test_any_number_of_workers_gives_the_same(alone: tuple[Path, bytes, str]) -> None:
    folder, said, model = alone
    assert run(folder, "two", "--workers", "2") == (said, model)
    shown, _ = streamk("inspect", "two", "--json", cwd=folder)
    (found,) = (one["model"] for one in json.loads(shown)["checkpoints"][-1:])
    assert found["type"] == "doubly-stochastic"
    assert found["rounds"]["shards"] == 2
    assert found["rounds"]["count"] > 20
    assert " of 2 shards" in streamk("inspect", "two", cwd=folder)[0]


def test_rounds_may_begin_before_those_before_them_are_merged(
    alone: tuple[Path, bytes, str],
) -> None:
    folder, _, model = alone
    found = run(folder, "stale", "--staleness", "1")
    assert found[1] != model
    assert run(folder, "stale-two", "--staleness", "1", "--workers", "2") == found
    assert run(folder, "stale") == found
    _, err = streamk(*arguments("stale"), "--staleness", "2", cwd=folder, status=2)
    assert "--staleness 2: this job's model has 1" in err


@pytest.mark.slow
def test_a_killed_job_goes_on_with_other_workers(alone: tuple[Path, bytes, str]) -> None:
    folder, said, model = alone
    kill(folder, "killed", (*arguments("killed"), "--workers", "2"), epochs=(2, 4))
    assert run(folder, "killed", "--workers", "1") == (said, model)


@pytest.mark.slow
def test_late_labels_are_learned_by_workers(alone: tuple[Path, bytes, str]) -> None:
    """Bit for bit as by shards alone, though killed twice, with other workers then."""
    folder = alone[0]
    events = [{"id": n, "at": 10 * n, **event} for n, event in enumerate(stream())]
    labels = [
        {"id": event["id"], "at": event["at"] + 1500, "y": event.pop("y")}
        for event in events
        if "y" in event
    ]
    (folder / "unlabelled.ndjson").write_bytes(ndjson(events))
    (folder / "labels.ndjson").write_bytes(ndjson(labels))
    late = ("--labels", "file:labels.ndjson", "--key", "id", "--time", "at", "--ignore", "at")

    def job(name: str) -> tuple[str, ...]:
        return (*arguments(name, "unlabelled.ndjson"), *late, "--max-skew", "inf")

    streamk(*job("late"), cwd=folder)
    kill(folder, "late-killed", (*job("late-killed"), "--workers", "2"), epochs=(2, 4))
    out, _ = streamk(*job("late-killed"), "--workers", "1", "--json", cwd=folder)
    assert json.loads(out)["fates"]["joined"] == len(labels)
    assert results(folder, "late-killed") == results(folder, "late")
    shown, _ = streamk("inspect", "late", "--json", cwd=folder)
    assert json.loads(shown)["checkpoints"][-1]["model"]["rounds"]["count"] > 40


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


@pytest.mark.kafka
@pytest.mark.slow
def test_files_first_then_a_live_topic(
    tmp_path: Path, kafka_address: str, kafka_topic: Callable[..., str]
) -> None:
    """A first model from a folder of Parquet files begins the job on the topic, both with workers.

    Their predictions and model are those of one job over all events.
    """
    pyarrow = pytest.importorskip("pyarrow", reason="needs pip install 'streamk[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(1)
    events = [
        {"a": a, "b": b, "y": "same" if a * b > 0 else "other"}
        for a, b in rng.normal(size=(N, 2)).round(3).tolist()
    ]
    (tmp_path / "year").mkdir()
    for month, first in enumerate(range(0, HALF, 1000)):
        part = pyarrow.Table.from_pylist(events[first : min(first + 1000, HALF)])
        parquet.write_table(part, tmp_path / "year" / f"{month:02}.parquet")
    (tmp_path / "all.ndjson").write_bytes(ndjson(events))
    run(tmp_path, "all", source="all.ndjson")
    run(tmp_path, "first", "--workers", "2", source="parquet:year/")

    topic, later = kafka_topic(), events[HALF:]
    more = ("--start-from", "first", "--workers", "2", "--max-events", str(len(later)))
    command = (*arguments("live", f"kafka://{kafka_address}/{topic}"), *more)
    with producer(kafka_address, linger_ms=20) as out:

        def send(some: list[dict[str, Any]]) -> None:
            for event in some:
                out.send(topic, json.dumps(event).encode(), partition=0)
            out.flush()

        send(later[:1500])
        with forked_kit.popen([sys.executable, "-m", "streamk", *command], cwd=tmp_path) as job:
            wait_for(tmp_path / "live.out", lines=1500)
            send(later[1500:])
            assert job.wait(120) == 0
    assert said(tmp_path, "live") == said(tmp_path, "all")[HALF:]
    assert results(tmp_path, "live")[1] == results(tmp_path, "all")[1]


def wait_for(out: Path, lines: int) -> None:
    """Wait until a job has written so many predictions."""
    until = time.monotonic() + 120.0
    while not out.exists() or out.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < until, "the job makes no progress"
        time.sleep(0.02)


@pytest.mark.slow
def test_ray_gives_the_same(alone: tuple[Path, bytes, str]) -> None:
    folder, said, model = alone
    with real_ray():
        assert run(folder, "ray", "--workers", "2", "--ray", "local") == (said, model)


def begun(folder: Path, name: str, first: str, *more: str) -> tuple[list[Any], Any]:
    """Run a job over the later events with the model of another; return predictions and model."""
    streamk(*arguments(name, "later.ndjson"), "--start-from", first, *more, cwd=folder)
    return said(folder, name), newest_checkpoint(folder / name)


def said(folder: Path, name: str) -> list[Any]:
    lines = (folder / f"{name}.out").read_text().splitlines()
    return [(one["prediction"], one["probabilities"]) for one in map(json.loads, lines)]


@pytest.fixture(scope="module")
def halves(alone: tuple[Path, bytes, str]) -> Path:
    """The folder, with the events in two files, and jobs over the first of them."""
    folder, events = alone[0], stream()
    (folder / "earlier.ndjson").write_bytes(ndjson(events[:HALF]))
    (folder / "later.ndjson").write_bytes(ndjson(events[HALF:]))
    run(folder, "first", "--workers", "2", source="earlier.ndjson")
    plain = ("run", "file:earlier.ndjson", "--label", "y", *SET, "--quiet")
    streamk(*plain, "--checkpoint", "plain", cwd=folder)
    return folder


def test_a_job_goes_on_with_the_round_of_another(halves: Path) -> None:
    whole = newest_checkpoint(halves / "alone")
    found, last = begun(halves, "same", "first")
    assert found == said(halves, "alone")[HALF:]
    assert whole is not None
    assert fingerprint(last.model) == fingerprint(whole.model)


def test_a_model_without_shards_begins_a_job_with_workers(halves: Path) -> None:
    found, last = begun(halves, "from-plain", "plain", "--workers", "2")
    plain = newest_checkpoint(halves / "plain")
    assert plain is not None
    expected, model = by_hand(Sharded(from_state(plain.model), shards=2, round_events=64))
    assert [one for one, _ in found] == expected
    assert fingerprint(last.model) == fingerprint(model.state())


def test_a_model_in_shards_begins_jobs_without_and_with_others(halves: Path) -> None:
    first = newest_checkpoint(halves / "first")
    assert first is not None
    plain = ("run", "file:later.ndjson", "--label", "y", *SET, "--to", "file:to-plain.out")
    streamk(*plain, "--checkpoint", "to-plain", "--start-from", "first", cwd=halves)
    merged = Sharded.from_state(first.model).merged()
    expected, model = by_hand(merged)
    assert [one for one, _ in said(halves, "to-plain")] == expected
    last = newest_checkpoint(halves / "to-plain")
    assert last is not None
    assert fingerprint(last.model) == fingerprint(model.state())

    others = ("--shards", "3", "--round-events", "50")
    streamk(*plain, *others, "--checkpoint", "three", "--start-from", "first", cwd=halves)
    merged = Sharded.from_state(first.model).merged()
    _, model = by_hand(Sharded(merged, shards=3, round_events=50))
    last = newest_checkpoint(halves / "three")
    assert last is not None
    assert fingerprint(last.model) == fingerprint(model.state())


def by_hand(model: Any) -> tuple[list[Any], Any]:
    """Have a model follow the later events one by one; return predictions and the model."""
    found = []
    for event in stream()[HALF:]:
        x = [event.get(name, 0.0) for name in model.columns]
        found += model.predict_then_learn_many([x], [event.get("y")]).predictions.tolist()
    return found, model


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--round-events", "9"), "--round-events needs --workers or --shards"),
        (("--ray", "local"), "--ray needs --workers or --shards"),
        (("--workers", "3", "--shards", "2"), "3 workers are more than the 2 shards"),
        (("--workers", "2", "--ray", "127.0.0.1:1"), "no Ray cluster answers there"),
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
    assert "--start-from plain" in " ".join(err.split())
