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

import forked_kit
import numpy as np
import pytest
from cli_kit import ndjson, streamk
from crash_kit import outputs
from kafka_kit import producer

import streamk as package
from connectors.memory import MemorySource
from streamk.cli.output.report import as_json
from streamk.engine import Engine, Report
from streamk.errors import StreamkError
from streamk.learners import LiveCompiled, create
from streamk.learners.live_compiled import copies
from streamk.learners.live_compiled.background import Order
from streamk.prediction import load

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LABELLED = 0.85
FIRST = 22_000
"""Events by which the first copy is begun; more come until it predicts."""
SET = ("--set", "max_features=64", "--set", "block_size=64")
MODEL = ("--model", "doubly-stochastic", *SET)
EVERY = ("--checkpoint", "state", "--checkpoint-every", "500")
PATIENCE = 600.0


def stream(first: int, n: int) -> list[dict[str, Any]]:
    """Return events from one on; most have a label."""
    rng = np.random.default_rng(first)
    X = rng.normal(size=(n, 2)).round(3)
    known = rng.random(n) < LABELLED
    return [
        {"a": a, "b": b} | ({"y": "same" if a * b > 0 else "other"} if there else {})
        for (a, b), there in zip(X.tolist(), known.tolist(), strict=True)
    ]


def write(path: Path, n: int) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, ["a", "b", "y"])
        out.writeheader()
        out.writerows(stream(0, n))


def predicts(state: Path) -> bool:
    """Whether the copy of a job predicts, by its last checkpoint."""
    try:
        model: Any = package.load(state).learner
    except StreamkError:  # there is none yet
        return False
    return bool(model.comparison.get("copy_predicts"))


def feed(send: Callable[[list[dict[str, Any]]], None], state: Path) -> int:
    """Send events until a copy predicts, and some more; return how many."""
    send(stream(0, FIRST))
    sent, deadline = FIRST, time.monotonic() + PATIENCE
    while not predicts(state):
        assert time.monotonic() < deadline
        send(stream(sent, 500))
        sent += 500
        time.sleep(0.2)
    send(stream(sent, 2000))
    return sent + 2000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the checkpoint of a job whose copy predicts, its events and its report.

    The copy is compiled at once, from few events; with this tolerance it goes on predicting, and
    no other comes.
    """
    home = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as monkeypatch:
        soon(monkeypatch)
        _, report = run(6000, checkpoint=home / "state", checkpoint_every=500)
    (home / "report.json").write_text(json.dumps(as_json(report)))
    write(home / "events.csv", 2000)
    return home


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `home`, of a job that read a pipe until its copy predicted.

    A copy comes when a process has compiled it, so how many events there are depends on the
    machine.
    """
    home = tmp_path_factory.mktemp("piped")
    command = ("run", "stdin:", "--label", "y", *MODEL, "--to", "csv:out.csv", *EVERY)
    served = ("--serve-compiled", "--serve-tolerance", "1e9")
    process = forked_kit.popen(
        [sys.executable, "-m", "streamk", *command, *served, "--json", "--quiet"],
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None

    def send(events: list[dict[str, Any]]) -> None:
        process.stdin.write(ndjson(events))  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    with process:
        sent = feed(send, home / "state")
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    (home / "report.json").write_bytes(out)
    assert json.loads(out)["events"] == sent
    write(home / "events.csv", 2000)
    return home


@pytest.mark.nightly
def test_the_report_tells_how_far_apart_the_two_are(piped: Path) -> None:
    report = json.loads((piped / "report.json").read_text())
    compiled = report["compiled"]
    assert report["unlabelled"] > 0.1 * report["events"]
    assert compiled["copy_predicts"]
    assert 0.1 < compiled["predicted_by_copy"] < 1.0
    assert 1000 <= compiled["events"] < report["learned"] - 15_000
    assert compiled["agreement"] > 0.9
    assert compiled["copy_accuracy"] > compiled["learner_accuracy"] - 0.05


def test_a_job_that_is_killed_learns_what_it_would_learn_alone(tmp_path: Path) -> None:
    n = 33_000
    write(tmp_path / "events.csv", n)
    run = ("run", "csv:events.csv", "--label", "y", *MODEL, "--quiet")
    streamk(*run, "--checkpoint", "alone", cwd=tmp_path)
    out = tmp_path / "out.csv"
    command = [*run, "--to", "csv:out.csv", *EVERY]
    process = forked_kit.popen(
        [sys.executable, "-m", "streamk", *command, "--serve-compiled"], cwd=tmp_path
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while lines(out) < FIRST:  # the copy is being compiled then
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    streamk(*command, cwd=tmp_path)  # without the flag, which the checkpoint has
    assert lines(out) == 1 + n
    state: Any = package.load(tmp_path / "state").learner
    assert isinstance(state, LiveCompiled)
    one, other = state.learner.state(), package.load(tmp_path / "alone").learner.state()
    assert one.header == other.header
    for name, array in other.arrays.items():
        np.testing.assert_array_equal(one.arrays[name], array, name)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_inspect(home: Path) -> None:
    out, _ = streamk("inspect", "state", cwd=home)
    assert "doubly-stochastic, 64 random features" in out
    assert "compiled            predicts now, " in out
    assert " labels since; " in out
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
    X = np.array([[event["a"], event["b"]] for event in stream(0, 2000)[:500]])
    assert found == model.learner.predict_many(X).tolist()
    assert model.predict_one({"a": 1.0, "b": 1.0}) == "same"
    assert "effect of each field" in model.debug_one({"a": 1.0, "b": 1.0})


def test_compile_takes_the_learner(home: Path, tmp_path: Path) -> None:
    address = f"csv:{home / 'events.csv'}"
    options = ("--to", "fast.safetensors", "--max-events", "600", "--budget", "5")
    out, _ = streamk("compile", home / "state", address, *options, cwd=tmp_path)
    assert "600 of 2 columns" in out
    model = package.load(home / "state").learner
    assert isinstance(model, LiveCompiled)
    X = np.array([[event["a"], event["b"]] for event in stream(0, 600)])
    said = load(tmp_path / "fast.safetensors").predict_many(X)
    theirs = np.asarray(model.learner.predict_many(X))
    agreement = float(out.split("agreement")[1].split()[0])
    assert np.mean(said == theirs) == pytest.approx(agreement, abs=1e-4)
    assert agreement > 0.95


@pytest.mark.nightly
def test_the_tolerance_may_change(piped: Path, tmp_path: Path) -> None:
    command = ("run", f"csv:{piped / 'events.csv'}", "--label", "y", *SET)
    begin = ("--start-from", piped / "state", "--checkpoint", "next", "--json", "--quiet")
    streamk(*command, *begin, "--max-events", "500", cwd=tmp_path)
    more = ("--checkpoint", "next", "--serve-tolerance", "1e9", "--json", "--quiet")
    report = json.loads(streamk(*command, *more, cwd=tmp_path)[0])
    assert report["compiled"]["copy_predicts"]


@pytest.mark.nightly
def test_another_job_begins_with_it(piped: Path, tmp_path: Path) -> None:
    command = ("run", f"csv:{piped / 'events.csv'}", "--label", "y", *SET, "--max-events", "100")
    begin = ("--start-from", piped / "state", "--checkpoint", "next", "--json", "--quiet")
    report = json.loads(streamk(*command, *begin, cwd=tmp_path)[0])
    before = json.loads((piped / "report.json").read_text())
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
        (("--interval", "1.0"), "interval=1.0 must lie between 0 and 0.99", 2),
        (("--set", "loss=quantile"), "of a quantile cannot be served by a compiled copy", 2),
        (("--set", "loss=quantile", "--set", "q=0.9"), "of a quantile cannot be served", 2),
        (("--serve-compiled=yes",), "ignored explicit argument", 2),
        (("--serve-tolerance", "-1"), "tolerance=-1", 2),
        (("--serve-tolerance", "few"), "a number is needed, not 'few'", 2),
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
    _, err = streamk(*command, "--serve-tolerance", "0.1", cwd=tmp_path, status=2)
    assert "--serve-tolerance is for a job with --serve-compiled" in err
    start = ("--start-from", "state", "--checkpoint", "other", "--serve-compiled")
    _, err = streamk(*command, *start, cwd=tmp_path, status=2)
    assert "has a model that was learned without" in err


def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have copies compiled at once, from few events."""

    class AtOnce:
        ended = True

        def __init__(self, order: Order) -> None:
            self.result = order.compiled

    monkeypatch.setattr(copies, "Background", AtOnce)
    for name, value in (("FIRST", 100), ("STEP", 50), ("ENOUGH", 50), ("_ITERATIONS", 5)):
        monkeypatch.setattr(copies, name, value)


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    soon(monkeypatch)


def run(n: int, **options: Any) -> tuple[Any, Report]:
    """Run an engine over n events; return its model, too."""
    events = stream(0, n)
    X = np.array([[event["a"], event["b"]] for event in events])
    y = [event.get("y") for event in events]
    learner = create("doubly-stochastic", task="classification", max_features=64, block_size=64)
    model = LiveCompiled(learner, tolerance=1e9, wait=False)
    source = MemorySource((X, np.array(y, object)), columns=("a", "b"))
    return model, Engine(source, model, label="y", **options).run()


@pytest.mark.usefixtures("_soon")
def test_without_checkpoints_a_copy_comes_too() -> None:
    model, report = run(2000, checkpoint_every=50)
    assert report.events == 2000
    assert model.comparison["copy_predicts"]


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("saved", [True, False])
def test_the_report_is_of_the_copy_that_predicted(
    saved: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another copy is ready at the end; the next run predicts by that."""
    monkeypatch.setattr(copies, "_BEHIND", -1e9)
    options = {"checkpoint": tmp_path / "state"} if saved else {}
    model, _ = run(950, checkpoint_every=500, **options)
    assert model.comparison["copy_predicts"]
    assert model.comparison["events"] > 300
    if saved:
        other: Any = package.load(tmp_path / "state").learner
        assert (other.copy is not None, other.comparison) == (True, {})


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_client")
def test_from_a_topic_through_kills(
    kafka_address: str, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Each event is predicted, and one that is predicted again after a kill as it was before."""
    topic, answers = kafka_topic(), kafka_topic()
    address = f"kafka://{kafka_address}/"
    command = ("run", address + topic, "--to", address + answers, "--label", "y", *MODEL)
    every = ("--checkpoint", "state", "--checkpoint-every", "3000")
    more = (*every, "--serve-compiled", "--quiet")
    jobs: list[forked_kit.Popen] = []

    def begin() -> None:
        jobs.append(
            forked_kit.popen([sys.executable, "-m", "streamk", *command, *more], cwd=tmp_path)
        )

    def strike() -> None:
        jobs[-1].kill()
        jobs[-1].wait()

    try:
        begin()
        with producer(kafka_address, linger_ms=20) as out:

            def send(events: list[dict[str, Any]]) -> None:
                for event in events:
                    out.send(topic, json.dumps(event).encode())
                out.flush()

            sent = feed(send, tmp_path / "state")
            for _ in range(3):  # the copy predicts; the next one is being compiled, or comes
                send(stream(sent, 10_000))
                sent += 10_000
                time.sleep(2.0)
                strike()
                begin()
        strike()
        until = ("--until-end", "--json", *more)
        report = json.loads(streamk(*command, *until, cwd=tmp_path)[0])
    finally:
        for job in jobs:
            job.kill()
            job.wait()
    assert report["compiled"] is not None
    said = outputs(kafka_address, answers)
    assert len(said) == sent
    assert all(
        one["prediction"] == values[0]["prediction"] for values in said.values() for one in values
    )
    assert max(map(len, said.values())) > 1
