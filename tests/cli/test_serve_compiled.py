"""`streamk run --serve-compiled`: a job served by a compiled copy, killed and started again."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import streamk
from crash_kit import outputs
from kafka_kit import producer

import streamk as package
from streamk.learners import LiveCompiled
from streamk.prediction import load

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

N, LABELLED = 33_000, 0.85
"""The first copy is begun after 20,000 labels, some 23,500 events, and served after 25,000."""
BEGUN, SERVED = 23_800, 29_700
"""Events by which these are certain."""
SET = ("--set", "max_features=64", "--set", "block_size=64")
MODEL = ("--model", "doubly-stochastic", *SET)
RUN = ("run", "csv:events.csv", "--label", "y")


def stream() -> list[tuple[float, float, str | None]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)).round(3)
    known = rng.random(N) < LABELLED
    return [
        (a, b, ("same" if a * b > 0 else "other") if there else None)
        for (a, b), there in zip(X.tolist(), known.tolist(), strict=True)
    ]


def write(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["a", "b", "y"])
        out.writerows(stream())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a job that has run without interruption, and its report."""
    home = tmp_path_factory.mktemp("compiled")
    write(home / "events.csv")
    to = ("--to", "csv:out.csv", "--checkpoint", "state", "--serve-compiled", "--json", "--quiet")
    out, _ = streamk(*RUN, *MODEL, *to, cwd=home)
    (home / "report.json").write_text(out)
    return home


def test_the_report_tells_how_far_apart_the_two_are(home: Path) -> None:
    report = json.loads((home / "report.json").read_text())
    compiled = report["compiled"]
    assert report["events"] == N
    assert report["unlabelled"] > 0.1 * N
    assert compiled["events"] == report["learned"] - 25_000
    assert compiled["agreement"] > 0.95
    assert compiled["served_accuracy"] > compiled["learner_accuracy"] - 0.02


def test_a_job_that_is_killed_predicts_the_same(home: Path, tmp_path: Path) -> None:
    (tmp_path / "events.csv").symlink_to(home / "events.csv")
    out = tmp_path / "out.csv"
    to = ("--to", "csv:out.csv", "--checkpoint", "state", "--checkpoint-every", "500", "--quiet")
    command = [sys.executable, "-m", "streamk", *RUN, *MODEL, *to, "--serve-compiled"]
    process = subprocess.Popen(command, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 600
        # The copy is being compiled then, or has been.
        while lines(out) < BEGUN + 1000:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    state = package.load(tmp_path / "state").learner
    assert isinstance(state, LiveCompiled)
    assert 20_000 <= state.n_events < 28_000
    # Without the flag and the model's name, which the checkpoint has.
    streamk(*RUN, *SET, *to, cwd=tmp_path)
    assert out.read_bytes() == (home / "out.csv").read_bytes()
    one, other = (package.load(at / "state").learner.state() for at in (tmp_path, home))
    assert one.header == other.header
    for name, array in other.arrays.items():
        np.testing.assert_array_equal(one.arrays[name], array, name)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_inspect(home: Path) -> None:
    out, _ = streamk("inspect", "state", cwd=home)
    assert "doubly-stochastic, 64 random features" in out
    assert "labels since the last copy" in out
    assert max(map(len, out.splitlines())) <= 80
    out, _ = streamk("inspect", "state", "--json", cwd=home)
    (found,) = json.loads(out)["checkpoints"][-1:]
    assert found["model"]["compiled"] == json.loads((home / "report.json").read_text())["compiled"]


def test_predict(home: Path, tmp_path: Path) -> None:
    address = f"csv:{home / 'events.csv'}"
    to = ("--to", "csv:said.csv", "--quiet", "--max-events", "500")
    streamk("predict", home / "state", address, *to, cwd=tmp_path)
    with (tmp_path / "said.csv").open(encoding="utf-8", newline="") as file:
        found = [row["prediction"] for row in csv.DictReader(file)]
    model: Any = package.load(home / "state")
    X = np.array([event[:2] for event in stream()[:500]])
    assert found == model.learner.predict_many(X).tolist()
    assert model.predict_one({"a": 1.0, "b": 1.0}) == "same"
    assert "effect of each column" in model.debug_one({"a": 1.0, "b": 1.0})


def test_compile_takes_the_learner(home: Path, tmp_path: Path) -> None:
    address = f"csv:{home / 'events.csv'}"
    options = ("--to", "fast.safetensors", "--max-events", "2000", "--budget", "10")
    out, _ = streamk("compile", home / "state", address, *options, cwd=tmp_path)
    assert "2,000 of 2 columns" in out
    model = package.load(home / "state").learner
    assert isinstance(model, LiveCompiled)
    X = np.array([event[:2] for event in stream()[:2000]])
    said = load(tmp_path / "fast.safetensors").predict_many(X)
    theirs = np.asarray(model.learner.predict_many(X))
    agreement = float(out.split("agreement")[1].split()[0])
    assert np.mean(said == theirs) == pytest.approx(agreement, abs=1e-4)
    assert agreement > 0.95


def test_another_job_begins_with_it(home: Path, tmp_path: Path) -> None:
    command = ("run", f"csv:{home / 'events.csv'}", "--label", "y", *SET, "--max-events", "100")
    begin = ("--start-from", home / "state", "--checkpoint", "next", "--json", "--quiet")
    report = json.loads(streamk(*command, *begin, cwd=tmp_path)[0])
    before = json.loads((home / "report.json").read_text())
    assert report["compiled"]["events"] == before["compiled"]["events"] + report["learned"]


def test_a_file_of_options_has_it(home: Path, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("serve-compiled = true\n")
    command = ("run", f"csv:{home / 'events.csv'}", "--label", "y", *MODEL, "--max-events", "50")
    more = ("--config", "job.toml", "--checkpoint", "state", "--json", "--quiet")
    assert json.loads(streamk(*command, *more, cwd=tmp_path)[0])["compiled"] == {}
    assert isinstance(package.load(tmp_path / "state").learner, LiveCompiled)


@pytest.mark.parametrize(
    ("options", "says", "status"),
    [
        (("--interval", "0.9"), "a model that is served by a compiled copy has no intervals", 2),
        (("--set", "loss=quantile"), "of a quantile cannot be served by a compiled copy", 2),
        (("--set", "loss=quantile", "--set", "q=0.9"), "of a quantile cannot be served", 2),
        (("--serve-compiled=yes",), "ignored explicit argument", 2),
    ],
)
def test_mistakes_are_named(
    options: tuple[str, ...], says: str, status: int, home: Path, tmp_path: Path
) -> None:
    command = ("run", f"csv:{home / 'events.csv'}", "--label", "b", "--task", "regression")
    _, err = streamk(*command, "--serve-compiled", *options, cwd=tmp_path, status=status)
    assert says in err
    assert "Traceback" not in err


def test_a_job_that_began_without_it_is_not_served_so(home: Path, tmp_path: Path) -> None:
    command = ("run", f"csv:{home / 'events.csv'}", "--label", "y", *MODEL, "--max-events", "50")
    streamk(*command, "--checkpoint", "state", "--quiet", cwd=tmp_path)
    again = ("--checkpoint", "state", "--serve-compiled")
    _, err = streamk(*command, *again, cwd=tmp_path, status=2)
    assert "has a model that was learned without" in err
    start = ("--start-from", "state", "--checkpoint", "other", "--serve-compiled")
    _, err = streamk(*command, *start, cwd=tmp_path, status=2)
    assert "has a model that was learned without" in err


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_client")
def test_from_a_topic(
    home: Path, kafka_address: str, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, answers = kafka_topic(), kafka_topic()
    with producer(kafka_address, linger_ms=20) as out:
        for i, (a, b, label) in enumerate(stream()):
            event = {"a": a, "b": b} | ({} if label is None else {"y": label})
            value = json.dumps(event).encode()
            out.send(topic, value, timestamp_ms=1_700_000_000_000 + i)
        out.flush()
    address = f"kafka://{kafka_address}/"
    command = ("run", address + topic, "--to", address + answers, "--until-end", "--label", "y")
    options = (*MODEL, "--checkpoint", "state", "--serve-compiled", "--quiet")
    for most in (BEGUN, SERVED, N):  # in the middle of a compilation, and after it
        streamk(*command, *options, "--max-events", str(most), cwd=tmp_path)
    said = outputs(kafka_address, answers)
    assert len(said) == N
    found = [values[0]["prediction"] for _, values in sorted(said.items(), key=lambda i: i[0])]
    with (home / "out.csv").open(encoding="utf-8", newline="") as file:
        expected = [row["prediction"] for row in csv.DictReader(file)]
    assert [one or "" for one in found] == expected
