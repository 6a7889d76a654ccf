"""Intervals and prediction sets of a job: they hold what they promise, and survive restarts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson, streamk
from engine_kit import attached, job

import streamk as package
from connectors.base import Rows
from connectors.memory import MemorySink, MemorySource
from streamk.engine import Fixed, newest_checkpoint
from streamk.errors import InvalidInput
from streamk.learners import create

LEARNERS = ("multi-kernel", "kernel-ridge", "doubly-stochastic", "streaming-meka")


def numbers(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """A number whose noise grows fourfold in the middle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=n) * np.where(np.arange(n) < n // 2, 0.2, 0.8)
    rows = zip(range(n), X.tolist(), y.tolist(), strict=True)
    return [{"id": i, "a": a, "b": b, "y": number} for i, (a, b), number in rows]


def classes(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Three classes whose overlap grows in the middle."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    spread = np.where(np.arange(n) < n // 2, 0.6, 1.2)[:, None]
    centers = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    X = centers[truth] + spread * rng.normal(size=(n, 2))
    rows = zip(range(n), X.tolist(), truth.tolist(), strict=True)
    return [{"id": i, "a": a, "b": b, "y": "uvw"[k]} for i, (a, b), k in rows]


LATE = {False: None, True: 48}
"""Events after which the labels come."""


def held(stream: list[dict[str, Any]], sink: MemorySink, task: str) -> list[bool]:
    """Whether each event's region holds its label, where there was one before any label."""
    found = []
    for event, output in zip(stream, sink.outputs, strict=True):
        if task == "classification":
            if output.value["prediction"] is not None:
                assert output.value["prediction"] in output.value["prediction_set"]
                found.append(event["y"] in output.value["prediction_set"])
        elif output.value["interval"] is not None:
            low, high = output.value["interval"]
            assert low <= output.value["prediction"] <= high
            found.append(low <= event["y"] <= high)
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", LEARNERS)
def test_nine_in_ten_are_held_by_those_of_every_learner(name: str, task: str, late: bool) -> None:
    stream = classes(3000) if task == "classification" else numbers(3000)
    option = "prediction_set" if task == "classification" else "interval"
    sink = MemorySink()
    report = job(stream, create(name, task=task), sink=sink, late=LATE[late], **{option: 0.9}).run()
    found = held(stream, sink, task)
    if late:  # the labels of the last events come, too
        assert report.counts.learned == len(stream)
    assert abs(np.mean(found) - 0.9) < 0.015
    # Sets of before any set was scored, of all classes that are known, do not count there.
    assert report.whole["coverage"] == pytest.approx(np.mean(found), abs=0.004)
    size = report.whole["mean_set_size" if task == "classification" else "mean_width"]
    assert 0 < size < 10


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_what_is_served_is_what_the_job_gives_next(task: str, tmp_path: Path) -> None:
    stream = classes(401) if task == "classification" else numbers(401)
    name = "prediction_set" if task == "classification" else "interval"
    model, sink = create("kernel-ridge", task=task), MemorySink()
    job(stream[:400], model, checkpoint=tmp_path, **{name: 0.9}).run()
    served = package.load(tmp_path)
    ask = served.predict_set_one if task == "classification" else served.predict_interval_one
    found = list(ask(stream[400], 0.9))
    job(stream, create("kernel-ridge", task=task), sink=sink, **{name: 0.9}).run()
    assert found == sink.outputs[400].value[name]
    with pytest.raises(InvalidInput, match=r"runs with --\S+ 0\.9; ask for that instead of 0\.8"):
        ask(stream[400], 0.8)
    told = MemorySink()
    attached(
        MemorySource(stream[400:]),
        served.learner,
        schema=served.schema,
        sink=told,
        fixed=Fixed(kept=served.kept),
        **{name: 0.9},
    ).run()
    assert told.outputs[0].value[name] == found


def test_a_model_whose_job_gave_none_says_so(tmp_path: Path) -> None:
    job(
        classes(100),
        create("multi-kernel", external_experts=(), task="classification"),
        checkpoint=tmp_path,
    ).run()
    with pytest.raises(InvalidInput, match=r"run it with --prediction-set 0\.9"):
        package.load(tmp_path).predict_set_one({"a": 1.0})


def test_nothing_is_served_before_a_label(tmp_path: Path) -> None:
    stream = [{**event, "y": None} for event in numbers(3)]
    model = create("kernel-ridge", task="regression")
    engine = job(stream, model, checkpoint=tmp_path, interval=0.9, max_events=3)
    engine.run()
    with pytest.raises(InvalidInput, match="nothing is learned yet"):
        package.load(tmp_path).predict_interval_one({"a": 1.0})


def test_a_job_may_take_them_up_or_change_the_level(tmp_path: Path) -> None:
    stream, sink = numbers(600), MemorySink()

    def more(n: int, **options: Any) -> list[Any]:
        """What is written up to so many records."""
        before = len(sink.outputs)
        model = create("multi-kernel", external_experts=(), task="regression")
        job(stream, model, sink=sink, late=48, checkpoint=tmp_path, max_events=n, **options).run()
        return [output.value for output in sink.outputs[before:]]

    assert "interval" not in more(300)[-1]
    low, high = more(700, interval=0.9)[-1]["interval"]
    less, most = more(800, interval=0.5)[0]["interval"]
    assert most - less < high - low
    assert "interval" not in more(900)[0]
    kept = newest_checkpoint(tmp_path / "member-0")
    assert kept.body["training"]["regions"] is None


@pytest.mark.parametrize("between", [0.5, None])
def test_regions_of_another_level_do_not_count(between: float | None, tmp_path: Path) -> None:
    """Those of events that waited for labels when the level became another."""
    sink = MemorySink()

    def coverage(n: int, level: float | None) -> tuple[float | None, Any]:
        model = create("doubly-stochastic", task="regression")
        options: dict[str, Any] = {} if level is None else {"interval": level}
        options |= {"checkpoint": tmp_path, "max_events": n}
        report = job(numbers(600), model, sink=sink, late=48, **options).run()
        kept = newest_checkpoint(tmp_path / "member-0")
        return report.whole.get("coverage"), kept.body["training"]["regions"]

    before, regions = coverage(700, 0.5)
    if between is None:
        coverage(704, None)
        assert coverage(780, 0.9)[0] is None
    else:
        after, later = coverage(780, 0.9)
        assert after == before
        assert later["n"] == regions["n"]
        assert coverage(900, 0.9)[0] != before


def test_those_of_another_job_come_with_its_model(tmp_path: Path) -> None:
    stream = numbers(300)
    model = create("multi-kernel", external_experts=(), task="regression")
    job(stream, model, checkpoint=tmp_path / "one", interval=0.9).run()
    sink, model = MemorySink(), create("multi-kernel", external_experts=(), task="regression")
    more = {"start_from": tmp_path / "one", "checkpoint": tmp_path / "two", "interval": 0.9}
    job(numbers(5, seed=1), model, sink=sink, **more).run()
    assert sink.outputs[0].value["interval"] is not None


def test_rows_of_numbers_need_no_names() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 2))
    sink = MemorySink()
    source = MemorySource(Rows(X, (X[:, 0] > 0).astype(int)))
    attached(
        source,
        create("multi-kernel", external_experts=(), task="classification"),
        label="y",
        sink=sink,
        prediction_set=0.9,
    ).run()
    assert sink.outputs[-1].value["prediction_set"] in ([0], [1], [0, 1], [1, 0])


@pytest.mark.parametrize(
    ("task", "options", "says"),
    [
        ("classification", {"interval": 0.9}, "intervals are for numbers"),
        ("regression", {"prediction_set": 0.9}, "prediction sets are for classes"),
        ("classification", {"prediction_set": 1.0}, r"prediction_set=1\.0 must lie between"),
        ("regression", {"interval": 0.0}, r"interval=0\.0 must lie between"),
    ],
)
def test_what_cannot_be_given_is_refused(task: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        job([], create("kernel-ridge", task=task), sink=MemorySink(), **options)


def test_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(classes(600)))
    asked = [{name: event[name] for name in ("a", "b")} for event in classes(20, seed=1)]
    (tmp_path / "asked.ndjson").write_bytes(ndjson(asked))
    command = (
        "run",
        "file:events.ndjson",
        "--label",
        "y",
        "--ignore",
        "id",
        "--to",
        "csv:told.csv",
    )
    out, _ = streamk(*command, "--prediction-set", "0.9", "--checkpoint", "state", cwd=tmp_path)
    assert "coverage" in out
    assert "mean set size" in out
    with (tmp_path / "told.csv").open() as file:
        assert json.loads(list(csv.DictReader(file))[-1]["prediction_set"])
    asking = ("predict", "state", "file:asked.ndjson", "--to", "file:answers.ndjson")
    streamk(*asking, "--prediction-set", "0.9", "--quiet", cwd=tmp_path)
    lines = (tmp_path / "answers.ndjson").read_text().splitlines()
    model = package.load(tmp_path / "state")
    for event, line in zip(asked, lines, strict=True):
        assert json.loads(line)["prediction_set"] == model.predict_set_one(event)
    _, err = streamk(*asking, "--prediction-set", "0.8", cwd=tmp_path, status=2)
    assert "runs with --prediction-set 0.9" in err
