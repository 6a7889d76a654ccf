"""Samples of a job for people who watch it: what they say, what they leave as it is, their size."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from engine_kit import Always, WhimsicalSource, attached, events, same_model

import streamk
from connectors.memory import MemorySink
from streamk.encoding import Schema
from streamk.engine.training.options import Details
from streamk.late import LateLabels
from streamk.learners import MultiKernel, create
from streamk.learners.explaining import Fields, Reason, attributions
from streamk.serving import observing
from streamk.serving.answers import Answers
from streamk.serving.observing import (
    MOST_BYTES,
    MOST_FIELDS,
    Explanation,
    Observer,
    RunningMeans,
    explain,
    turn_of,
)


def run(
    data: list[Any], model: Any, observer: Observer | None, **options: Any
) -> tuple[Any, MemorySink]:
    sink = MemorySink()
    options = {"label": "y", "sink": sink, "observer": observer, **options}
    report = attached(WhimsicalSource(data, whim=1), model, **options).run()
    return report, sink


def models() -> dict[str, Any]:
    small = {"max_features": 64, "block_size": 64}
    return {
        "multi-kernel": MultiKernel(seed=1),
        "scaled": create("doubly-stochastic", task="classification", **small),
    }


@pytest.mark.parametrize(
    "name", [pytest.param("multi-kernel", marks=pytest.mark.nightly), "scaled"]
)
def test_late_labels_are_learned_the_same_and_explained(name: str) -> None:
    data = events(200)
    found = []
    for observer in (None, Always()):
        labels = [{"id": event["id"], "y": event["y"]} for event in data if event["id"] % 3]
        asked = [{key: event[key] for key in "abc"} | {"id": event["id"]} for event in data]
        model, sink = models()[name], MemorySink()
        late = LateLabels(WhimsicalSource(labels, whim=2), key="id")
        options = {"labels": late, "sink": sink, "observer": observer}
        attached(WhimsicalSource(asked, whim=1), model, label="y", **options).run()
        found.append((model, sink.outputs))
    (alone, plain), (watched, seen) = found
    assert same_model(alone, watched)
    assert plain == seen
    rows = observer.rows()["predictions"]
    said = {output.offset: output.value for output in seen}
    known = {event["id"]: event["y"] for event in data if event["id"] % 3}
    assert {row["label"] for row in rows} == {"up", "down", None}
    for row in rows:
        assert row["label"] == known.get(data[row["offset"]]["id"])
        assert row["prediction"] == said[row["offset"]]["prediction"]
        assert {reason["column"] for reason in row["reasons"]} <= {"a", "b", "c"}


# --- what is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param("multi-kernel", marks=pytest.mark.nightly), "scaled"]
)
def test_rows_are_answers_of_the_model_that_predicted(name: str, tmp_path: Path) -> None:
    """Oracle: the job up to the event, and what is served by its checkpoint."""
    data = events(90)
    for event in data:
        event.pop("id")
    observer = Always()
    run(data, models()[name], observer, slice="c")
    rows = observer.rows()["predictions"]
    for row in (rows[0], rows[len(rows) // 2]):
        at, before = row["offset"], tmp_path / str(row["offset"])
        run(data[:at], models()[name], None, checkpoint=before)
        asked = {key: data[at][key] for key in "abc"}
        (answer,) = Answers(streamk.load(before)).of([asked], Details(explain=True))
        assert (row["label"], row["slice"]) == (data[at]["y"], data[at]["c"])
        assert (row["prediction"], row["probabilities"]) == (
            answer["prediction"],
            pytest.approx(answer["probabilities"], abs=1e-12),
        )
        for one, other in zip(row["reasons"], answer["reasons"], strict=True):
            assert one == {**other, "effect": pytest.approx(other["effect"], abs=1e-12)}


def fields_of(schema: Schema) -> Fields:
    fields = Fields()
    fields.follow(schema, schema.columns)
    return fields


def test_effects_of_single_columns_are_the_attributions() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    model = MultiKernel(seed=1, columns=tuple("abcd"))
    model.learn_many(X, X[:, 1] > 0)
    found = explain(model, fields_of(Schema(tuple("abcd"))), X[0], None, 0)
    effects = dict(zip("abcd", attributions(model, X[:1])[0].tolist(), strict=True))
    assert {one.column: one.effect for one in found.effects} == effects
    values = {one.column: one.value for one in found.effects}
    assert values == dict(zip("abcd", X[0].tolist(), strict=True))
    assert found.experts == model.shares(X[0])
    assert sum(found.experts.values()) == pytest.approx(1.0)


def test_the_means_are_those_of_a_plain_loop() -> None:
    numbers = np.random.default_rng(3).normal(size=50).tolist()
    means = RunningMeans(10)
    mean = 0.0
    for n, number in enumerate(numbers, start=1):
        means.add({"a": number})
        step = 1 / min(n, 10)
        mean = (1 - step) * mean + step * number
    assert means.values["a"] == pytest.approx(mean)
    assert RunningMeans(3).values == {}


def test_importances_are_mean_absolute_effects_and_the_largest_come_first() -> None:
    observer = Observer()
    for n in range(4):
        effects = [Reason(f"c{k}", None, (-1.0) ** n * k) for k in range(30)]
        observer.add(Explanation(effects, True, {"linear": 1.0}), {"prediction": 1.0})
    assert observer.importances == {f"c{k}": float(k) for k in range(29, 17, -1)}
    assert observer.experts == {"linear": 1.0}


def test_experts_of_another_model_take_the_place_of_those_before() -> None:
    observer = Observer()
    for experts in ({"a": 0.5, "b": 0.5}, {"a": 0.25, "b": 0.75}):
        observer.add(Explanation([], True, experts))
    assert observer.experts == {"a": 0.375, "b": 0.625}
    observer.add(Explanation([], True, {}))
    assert observer.experts == {}


def test_many_fields_have_their_turn() -> None:
    names = tuple(f"c{n}" for n in range(MOST_FIELDS + 10))
    fields = fields_of(Schema(names))
    turns = [turn_of(fields.of(None), number) for number in range(3)]
    assert all(len(places) == MOST_FIELDS for places in turns)
    assert {name for places in turns for name in places} == set(names)
    rng = np.random.default_rng(0)
    model = MultiKernel(seed=1, columns=names)
    X = rng.normal(size=(20, len(names)))
    model.learn_many(X, X[:, 0] > 0)
    found = explain(model, fields, X[0], None, 0)
    assert found.reasons is None
    assert len(found.effects) == MOST_FIELDS


def test_explanations_take_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a second of a clock that stands otherwise: a hundred pass to the next."""
    now = [1000.0]
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(observing.time, clock, lambda: now[0])

    def slow(*_: Any) -> Explanation:
        now[0] += 1.0
        return Explanation([], True, {})

    monkeypatch.setattr(observing, "explain", slow)
    observer, model = Observer(), MultiKernel(seed=1, columns=("a",))
    model.learn_many([[0.0], [1.0]], [False, True])
    X, schema = np.zeros((1, 1)), Schema(("a",))
    times = []
    for _ in range(500):
        if observer.explain(model, schema, X, dict) is not None:
            times.append(now[0])
        now[0] += 1.0
    assert times[1] - times[0] < 3  # in the first one something may have been compiled
    assert all(100 <= b - a <= 102 for a, b in pairwise(times[1:]))
    assert len(times) >= 5


def test_one_prediction_a_second_becomes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(observing.time, "monotonic", lambda: now[0])
    observer = Observer()
    for n in range(100):
        observer.add(Explanation([Reason("a", None, float(n))], True, {}), {"prediction": n})
        now[0] += 0.25
    rows = observer.rows()["predictions"]
    assert [row["prediction"] for row in rows] == list(range(96, -1, -4))
    assert observer.importances == {"a": pytest.approx(49.5)}


def test_rows_that_change_are_given_again() -> None:
    observer = Always()
    for n in range(3):
        observer.add(Explanation([], True, {}), {"prediction": n, "label": None}, held=10 + n)
    seen = observer.version
    assert observer.rows(seen) == {"predictions": [], "bad": []}
    observer.label([5, 11], ["no row", "late"])
    (row,) = observer.rows(seen)["predictions"]
    assert (row["prediction"], row["label"]) == (1, "late")
    assert row["number"] <= seen < row["version"] == observer.version
    observer.label([11], ["revised"])
    assert [row["label"] for row in observer.rows()["predictions"]] == [None, "revised", None]


# --- what cannot be used, and sizes ---------------------------------------------------------------


def test_the_last_events_that_cannot_be_used_are_told_with_place_and_reason() -> None:
    data: list[Any] = events(40)
    data[7] = {"a": 1.0, "y": [1]}
    data[31] = {"a": "x" * 500, "b": float("inf"), "y": "up"}
    observer = Always()
    report, _ = run(data, MultiKernel(seed=1), observer)
    rows = observer.rows()["bad"]
    assert [row["offset"] for row in rows] == [31, 7]
    assert report.counts.bad == {row["kind"]: 1 for row in rows}
    assert all(row["reason"].startswith(row["kind"]) for row in rows)
    assert len(rows[0]["value"]) == 200
    assert rows[0]["size"] > 500
    assert json.loads(rows[1]["value"]) == data[7]


def test_of_many_classes_the_most_probable_and_the_predicted_one_are_told() -> None:
    observer = Always()
    probabilities = {str(n): n / 100 for n in range(10)}
    row = {"prediction": 3, "probabilities": probabilities, "label": 2**70}
    observer.add(Explanation([], True, {}), row)
    (found,) = observer.rows()["predictions"]
    assert found["probabilities"] == {name: probabilities[name] for name in "9873"}
    assert msgspec.json.decode(msgspec.json.encode(found))["label"] == str(2**70)


@pytest.mark.parametrize("letter", ["x", "\0", "\ud800", "💣", "<script>"])
def test_what_is_shown_is_bounded_in_bytes(letter: str) -> None:
    observer = Always()
    long = letter * 100_000
    reasons = [Reason(f"{long}{n}", long, 1.0) for n in range(5)]
    row = {
        **dict.fromkeys(("partition", "key", "prediction", "label", "slice"), long),
        "probabilities": {f"{long[:60]}{n}": 0.1 for n in range(1000)},
        "prediction_set": [long] * 1000,
    }
    for _ in range(60):
        observer.add(Explanation(reasons, True, {long: 1.0}), row)
        observer.refused([{"partition": long, "offset": 1, "reason": long, "value": long}])
    rows = observer.rows()
    assert len(msgspec.json.encode(rows)) <= MOST_BYTES
    assert rows["predictions"]
    assert rows["bad"]
    told = msgspec.json.encode([observer.importances, observer.experts])
    assert len(told) <= 13 * (60 * 12 + 30)
    assert rows["predictions"][0]["prediction_set_size"] == 1000
