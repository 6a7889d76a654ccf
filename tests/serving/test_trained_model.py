"""Models that a job has learned, opened to predict with, from Python and by the command."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import forked_kit
import numpy as np
import pytest
from cli_kit import click_events, ndjson, streamk
from engine_kit import attached, events, learned, learner, run

import streamk as package
from connectors.base import Rows
from connectors.memory import MemorySink, MemorySource
from streamk.adapters.river import KernelClassifier, KernelRegressor
from streamk.engine import Fixed, newest_checkpoint
from streamk.errors import InvalidInput
from streamk.learners import MultiKernel, create

TEXTS = events(300, seed=3)
"""Two numbers, a text, a label."""


@pytest.mark.parametrize("name", ["multi-kernel", "doubly-stochastic", "online-nystrom"])
def test_a_model_opened_predicts_as_the_engine_would(name: str, tmp_path: Path) -> None:
    learned(tmp_path, TEXTS[:200], create(name, task="classification"))
    model = package.load(tmp_path)
    sink = MemorySink()
    engine = attached(
        MemorySource(TEXTS[200:]), model.learner, schema=model.schema, fixed=Fixed(), sink=sink
    )
    report = engine.run()
    assert (report.counts.learned, report.counts.predicted) == (0, 100)
    assert report.whole["accuracy"] > 0.5, "what has a label is scored"
    assert model.n_events == 200, "and never learned"
    for event, output in zip(TEXTS[200:], sink.outputs, strict=True):
        assert model.predict_one(event) == output.value["prediction"]
        found = model.predict_proba_one(event)
        assert found == pytest.approx(output.value["probabilities"], abs=1e-12)
    assert model.predict_many(TEXTS[200:]) == [o.value["prediction"] for o in sink.outputs]


def test_it_is_what_the_estimator_says(tmp_path: Path) -> None:
    learned(tmp_path, TEXTS, MultiKernel(seed=0))
    river, model = KernelClassifier(seed=0), package.load(tmp_path)
    for event in TEXTS:
        event = dict(event)
        del event["id"]
        river.learn_one(event, event.pop("y"))
    for event in events(20, seed=9):
        x = {"a": event["a"], "b": event["b"], "c": event["c"]}
        assert model.predict_proba_one(event) == river.predict_proba_one(x)
        assert model.debug_one(event) == river.debug_one(x)


def test_figures_are_those_of_the_job_and_none_where_they_cannot_be_read(tmp_path: Path) -> None:
    report = learned(tmp_path, TEXTS, metrics=("F1=up",))
    model = package.load(tmp_path)
    expected = dict(report.whole)
    del expected["F1=up"]  # which takes River
    assert model.figures["whole"] == expected
    assert model.figures["window"]["accuracy"] == report.window["accuracy"]
    assert model.figures["baselines"] == report.baselines["window"]
    model._metrics = {"scored": "damaged"}
    assert model.figures == {"whole": {}, "window": {}, "baselines": {}}
    assert model.predict_one(TEXTS[0]) is not None


def test_numbers_and_their_intervals(tmp_path: Path) -> None:
    stream = [{"a": e["a"], "b": e["b"], "y": e["a"] * e["b"]} for e in TEXTS]
    # Of the expert of labels a model that is only opened makes no use.
    learned(tmp_path, stream, MultiKernel(task="regression", memory=False), ignore=())
    river, model = KernelRegressor(seed=0, memory=False), package.load(tmp_path)
    for event in stream:
        river.learn_one({"a": event["a"], "b": event["b"]}, event["y"])
    x = {"a": 1.0, "b": 1.5}
    assert model.predict_one(x) == river.predict_one(x)
    assert model.predict_interval_one(x, 0.8) == river.predict_interval_one(x, 0.8)
    with pytest.raises(InvalidInput, match=r"between 0 and 0\.99"):
        model.predict_interval_one(x, 2.0)
    with pytest.raises(InvalidInput, match="no class probabilities"):
        model.predict_proba_one(x)


def test_fields_unknown_texts_and_missing_values_are_no_trouble(tmp_path: Path) -> None:
    learned(tmp_path, TEXTS)
    model = package.load(tmp_path)
    x = {"a": 1.0, "b": 1.0, "c": "x"}
    same = model.predict_proba_one(x)
    assert model.predict_proba_one({**x, "new": "field", "id": 7, "y": "up"}) == same
    assert model.predict_proba_one({**x, "c": "never seen"}) != same
    assert model.predict_proba_one({**x, "a": None}) != same
    with pytest.raises(InvalidInput, match="'a'"):
        model.predict_one({**x, "a": object()})


def test_before_anything_is_learned(tmp_path: Path) -> None:
    learned(tmp_path / "classes", TEXTS, max_events=0)
    model = package.load(tmp_path / "classes")
    assert model.predict_one({"a": 1}) is None
    assert model.predict_proba_one({"a": 1}) == {}
    assert model.predict_many([{"a": 1}]) == [None]
    assert model.debug_one({"a": 1}) == "nothing is learned yet"
    learned(tmp_path / "numbers", [], MultiKernel(task="regression"), max_events=0)
    assert package.load(tmp_path / "numbers").predict_one({"a": 1}) == 0.0


def test_a_running_job_is_followed(tmp_path: Path) -> None:
    learned(tmp_path, TEXTS, max_events=100)
    model, watching = package.load(tmp_path), package.load(tmp_path, follow=0.0)
    assert model.n_events == watching.n_events == 100
    assert not model.refresh()
    learned(tmp_path, TEXTS, max_events=200)
    assert model.n_events == 100, "only where it is asked to"
    watching.predict_one(TEXTS[0])
    assert watching.n_events == 200
    assert model.refresh()
    assert model.predict_proba_one(TEXTS[0]) == watching.predict_proba_one(TEXTS[0])
    with pytest.raises(InvalidInput, match="follow"):
        package.load(tmp_path, follow=-1.0)


def test_threads_share_a_model_that_is_followed(tmp_path: Path) -> None:
    learned(tmp_path, TEXTS, max_events=50)
    model = package.load(tmp_path, follow=0.0)
    done, wrong = threading.Event(), []

    def ask() -> None:
        while not done.is_set():
            try:
                assert model.predict_one(TEXTS[0]) in ("up", "down")
            except Exception as error:  # of any kind
                wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for most in range(60, 160, 10):
        learned(tmp_path, TEXTS, max_events=most)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert model.n_events <= 150


def test_threads_do_not_mix_their_events(tmp_path: Path) -> None:
    learned(tmp_path, [{name: event[name] for name in ("a", "b", "y")} for event in TEXTS])
    model = package.load(tmp_path)
    events = [{"a": float(n), "b": 1.0} for n in range(4)]
    expected = [model.predict_proba_one(event) for event in events]
    found: list[list[Any]] = [[] for _ in events]

    def ask(n: int) -> None:
        found[n] = [model.predict_proba_one(events[n]) for _ in range(300)]

    threads = [threading.Thread(target=ask, args=[n]) for n in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for answers, one in zip(found, expected, strict=True):
        assert answers == [one] * 300


def test_of_several_members_the_one_that_knows_most(tmp_path: Path) -> None:
    learned(tmp_path / "a", TEXTS[:50])
    learned(tmp_path / "b", TEXTS[:80])
    (tmp_path / "group").mkdir()
    (tmp_path / "a" / "member-0").rename(tmp_path / "group" / "member-0")
    (tmp_path / "b" / "member-0").rename(tmp_path / "group" / "member-1")
    assert package.load(tmp_path / "group").n_events == 80
    assert package.load(tmp_path / "group" / "member-0").n_events == 50
    newest = newest_checkpoint(tmp_path / "group" / "member-0")
    assert newest is not None
    assert package.load(newest.path).n_events == 50


def test_rows_of_numbers_without_labels(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    source = MemorySource((X, X[:, 0] > 0))
    attached(source, learner(), label="y", checkpoint=tmp_path).run()
    model, sink = package.load(tmp_path), MemorySink()
    attached(
        MemorySource(Rows(X)), model.learner, schema=model.schema, fixed=Fixed(), sink=sink
    ).run()
    expected = model.learner.predict_many(X).tolist()
    assert [output.value["prediction"] for output in sink.outputs] == expected


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_details_change_nothing_of_what_is_learned(task: str) -> None:
    stream = TEXTS[:120]
    if task == "regression":
        stream = [{**event, "y": event["a"]} for event in stream]
    for event in stream[::5]:
        stream[stream.index(event)] = {**event, "y": None}
    plain, full = MemorySink(), MemorySink()
    models = []
    for sink, more in ((plain, {}), (full, {"explain": True})):
        if task == "regression" and more:
            more = {**more, "interval": 0.9}
        model = MultiKernel(task=task)
        report = run(stream, model, sink=sink, **more)
        models.append(report.model.state())
    assert models[0].header == models[1].header
    for name, array in models[0].arrays.items():
        np.testing.assert_array_equal(array, models[1].arrays[name], err_msg=name)
    for one, other in zip(plain.outputs, full.outputs, strict=True):
        assert one.value.items() <= other.value.items()
    last = full.outputs[-1].value
    assert {"column", "value", "effect"} == last["reasons"][0].keys()
    assert last["reasons"][0]["column"] in ("a", "b")
    assert full.outputs[0].value["reasons"] is None, "there is none before the first event learned"
    if task == "regression":
        low, high = last["interval"]
        assert low < last["prediction"] < high


def test_fixed_is_for_a_schema_that_is_given() -> None:
    with pytest.raises(InvalidInput, match="fixed"):
        attached(MemorySource([]), MultiKernel(), label="y", fixed=Fixed())


# --- the command ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with events, requests that lack the label, and a model."""
    path = tmp_path_factory.mktemp("serving")
    (path / "events.ndjson").write_bytes(ndjson(click_events()))
    requests = [{k: v for k, v in e.items() if k != "clicked"} for e in click_events()[:90]]
    (path / "requests.ndjson").write_bytes(ndjson(requests))
    with (path / "requests.csv").open("w") as file:
        writer = csv.DictWriter(file, list(requests[0]))
        writer.writeheader()
        writer.writerows(requests)
    streamk(
        *("run", "file:events.ndjson", "--label", "clicked", "--checkpoint", "state", "--quiet"),
        cwd=path,
    )
    return path


def test_requests_without_a_label_are_answered_in_any_format(home: Path) -> None:
    out, _ = streamk("predict", "state", "file:requests.ndjson", "--to", "file:a.ndjson", cwd=home)
    assert "90 predicted" in out
    answers = [json.loads(line) for line in (home / "a.ndjson").read_text().splitlines()]
    model = package.load(home / "state")
    requests = [json.loads(line) for line in (home / "requests.ndjson").read_text().splitlines()]
    assert [answer["prediction"] for answer in answers] == model.predict_many(requests)
    streamk("predict", "state", "csv:requests.csv", "--to", "csv:a.csv", "--explain", cwd=home)
    with (home / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [json.loads(row["probabilities"]) for row in rows] == [
        answer["probabilities"] for answer in answers
    ]
    assert all(json.loads(row["reasons"]) for row in rows)


def test_numbers_are_answered_with_intervals_and_reasons(tmp_path: Path) -> None:
    prices = [{"size": n % 9, "town": "ab"[n % 2], "price": n % 9 * 3 + n % 2} for n in range(300)]
    (tmp_path / "prices.ndjson").write_bytes(ndjson(prices))
    (tmp_path / "asked.csv").write_text("town,size\na,4\nb,\nnever seen,7\n")
    details = ("--interval", "0.8", "--explain", "--quiet")
    job = ("run", "file:prices.ndjson", "--label", "price", "--task", "regression")
    streamk(*job, "--checkpoint", "state", "--to", "file:told.ndjson", *details, cwd=tmp_path)
    told = [json.loads(line) for line in (tmp_path / "told.ndjson").read_text().splitlines()]
    low, high = told[-1]["interval"]
    assert low < told[-1]["prediction"] < high
    assert {reason["column"] for reason in told[-1]["reasons"]} == {"size", "town"}
    asked = ("predict", "state", "csv:asked.csv", "--to", "csv:answers.csv", *details)
    streamk(*asked, cwd=tmp_path)
    with (tmp_path / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    model = package.load(tmp_path / "state")
    for row, event in zip(
        rows,
        [{"town": "a", "size": 4}, {"town": "b", "size": None}, {"town": "never seen", "size": 7}],
        strict=True,
    ):
        assert float(row["prediction"]) == model.predict_one(event)
        assert json.loads(row["interval"]) == list(model.predict_interval_one(event, 0.8))
        assert json.loads(row["reasons"])


@pytest.mark.parametrize("to", [(), ("--to", "stdout:")])
def test_events_with_a_label_are_scored(to: tuple[str, ...], home: Path) -> None:
    asked = ("predict", "state", "file:events.ndjson", "--json", "--quiet")
    out, err = streamk(*asked, *to, cwd=home)
    answers = out.splitlines()
    # Where no sink is named, --json asks for the report behind the answers.
    report = json.loads(err if to else answers.pop())
    assert [json.loads(line)["offset"] for line in answers] == list(range(600))
    assert report["learned"] == 0
    assert report["whole"]["accuracy"] > 0.9


def test_predicting_goes_on_where_it_stopped(home: Path) -> None:
    command = ("predict", "state", "file:events.ndjson", "--quiet", "--checkpoint", "place")
    streamk(*command, "--to", "file:once.ndjson", "--max-events", "250", cwd=home)
    streamk(*command, "--to", "file:once.ndjson", cwd=home)
    answers = (home / "once.ndjson").read_text().splitlines()
    offsets = [json.loads(line)["offset"] for line in answers]
    assert offsets == list(range(len(click_events())))


def test_a_file_that_grows_is_answered_by_the_newest_model(home: Path) -> None:
    growing = home / "growing.ndjson"
    growing.write_bytes(b"")
    job = ("run", "file:events.ndjson", "--label", "clicked", "--checkpoint", "live", "--quiet")
    streamk(*job, "--max-events", "20", cwd=home)
    command = ["predict", "live", "file:growing.ndjson?follow=true", "--to", "stdout:", "--follow"]
    process = forked_kit.popen(
        [sys.executable, "-m", "streamk", *command, "--quiet"],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    request = (home / "requests.ndjson").read_bytes().splitlines(keepends=True)[0]

    def answer() -> Any:
        with growing.open("ab") as file:
            file.write(request)
        assert process.stdout is not None
        return json.loads(process.stdout.readline())["probabilities"]

    try:
        first = answer()
        assert answer() == first
        streamk(*job, cwd=home)
        expected = package.load(home / "live").predict_proba_one(json.loads(request))
        for _ in range(600):
            found = answer()
            if found != first:
                break
        assert list(found.values()) == list(expected.values())
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
    assert process.returncode == 0


def test_what_is_asked_wrongly_is_said(home: Path) -> None:
    for words, says in {
        "predict": "CHECKPOINT and SOURCE are needed",
        "predict state": "CHECKPOINT and SOURCE are needed",
        "predict stat file:requests.ndjson": "did you mean 'state'",
        "predict state file:requests.ndjson --checkpoint state": "is where the model comes from",
        "predict state file:requests.ndjson --interval 0.9": "intervals are for numbers",
        "predict state file:requests.ndjson --label clicked": "no option '--label'",
        "run file:events.ndjson --label clicked --start-from nowhere": "nowhere",
    }.items():
        out, err = streamk(*words.split(), cwd=home, status=2)
        assert says in err, words
        assert not out
