"""Reasons for predictions, in all ways, and samples of a job for people who watch it."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from cli_kit import ndjson
from engine_kit import Always, WhimsicalSource, attached, events

import streamk
from connectors.memory import MemorySink, MemorySource
from streamk.cli import main
from streamk.encoding import Schema, decoder
from streamk.engine.training.fields import EventFields
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

# --- values ---------------------------------------------------------------------------------------

VALUES: dict[str, tuple[Any, Any]] = {
    "whole number": (3, 3),
    "number": (2.5, 2.5),
    "whole float": (4.0, 4),
    "text of a number": ("2,394.01", 2394.01),
    "boolean": (True, True),
    "text": ("Oslo", "Oslo"),
    "time": ("2024-02-29T12:30:05Z", "2024-02-29T12:30:05Z"),
    "bag": (["b", "a", "b"], "b, a, b"),
    "vector": ([0.5, 0.25], "0.5, 0.25"),
    "null": (None, None),
    "not a number": ("NA", None),
    "large number": (2**60, str(2**60)),
    "long text": ("x" * 999, "x" * 200),
    "of Python": (datetime.date(2024, 2, 29), "2024-02-29"),
    "decimal": (decimal.Decimal("1.50"), 1.5),
    "of numpy": (np.float32(0.5), 0.5),
    "truth of numpy": (np.bool_(True), True),
    "set": ({"b", "a"}, "a, b"),
}
ONLY_IN_PYTHON = ("of Python", "decimal", "of numpy", "truth of numpy", "set")


def source_of(form: str, events: list[dict[str, Any]]) -> MemorySource:
    if form == "dict":
        return MemorySource(events)
    if form == "json":
        return MemorySource([json.dumps(event).encode() for event in events], encoding="json")
    names = tuple(dict.fromkeys(name for event in events for name in event))
    lines = []
    for event in events:
        line = io.StringIO()
        csv.writer(line).writerow([event.get(name) for name in names])
        lines.append(line.getvalue().strip("\r\n").encode())
    return MemorySource(lines, encoding="csv", columns=names)


def read(source: MemorySource) -> tuple[Fields, Any, list[Any]]:
    """The fields, the array and the fields of the last of its events, as a trainer reads them."""
    values = [value for chunk in source.poll(10_000, 0.0) for value in chunk.values]
    reading = decoder(source.encoding, Schema(), fields=source.fields)
    reading.decode(values)
    X = reading.decode(values).X
    fields = Fields()
    fields.follow(reading.schema, reading.schema.columns)
    return fields, X[-1], EventFields(source).of(values[-1:], reading.schema)


@pytest.mark.parametrize("form", ["dict", "json", "csv"])
@pytest.mark.parametrize("kind", list(VALUES))
def test_a_value_is_as_it_stands_in_the_event(kind: str, form: str) -> None:
    cell, expected = VALUES[kind]
    if form != "dict" and kind in ONLY_IN_PYTHON:
        pytest.skip("no such value there")
    if form == "csv":
        expected = {"bag": str(cell), "vector": str(cell)}.get(kind, expected)
    events = [{"f": 1.5, "g": 1}, {"f": "other", "g": 2}, {"f": cell, "g": 3}]
    fields, x, (event,) = read(source_of(form, events))
    places = fields.of(event)
    found = {name: fields.value(name, where, x, event) for name, where in places.items()}
    assert found["f"] == expected
    assert type(found["f"]) is type(expected)
    assert found["g"] == 3


def test_a_text_that_shares_a_column_is_named() -> None:
    events = [{"city": f"city {n}", "comment": f"{n} words"} for n in range(1000)]
    for form in ("dict", "json", "csv"):
        fields, x, (event,) = read(source_of(form, events))
        places = fields.of(event)
        assert places.keys() == {"city", "comment"}
        assert sum(map(len, places.values())) == len(x)
        assert fields.value("city", places["city"], x, event) == "city 999"


def test_nested_fields_have_their_names_and_absent_ones_no_value() -> None:
    events = [{"user": {"age": 3, "town": "Bonn"}, "v": [0.5]}, {"user": {"town": "Rome"}}]
    fields, x, (event,) = read(source_of("json", events))
    places = fields.of(event)
    found = {name: fields.value(name, where, x, event) for name, where in places.items()}
    assert found == {"user.age": None, "user.town": "Rome", "v": None}


def test_a_vector_is_one_field_and_numbered_columns_are_several() -> None:
    vectors = [{"v": [0.5, 1.5, n / 8], "v.w": n, "w": 1} for n in range(9)]
    for last in (vectors[-1], {"w": 1}, {"v": None, "w": 1}):
        fields, _, (event,) = read(source_of("json", [*vectors, last]))
        sizes = {name: len(places) for name, places in fields.of(event).items()}
        assert sizes == {"v": 3, "v.w": 1, "w": 1}
    for others in ({"v": 7}, {"w": 7}):
        flat = [{**others, "v.0": 0.5, "v.1": n / 8} for n in range(9)]
        for form in ("dict", "json", "csv"):
            fields, _, (event,) = read(source_of(form, flat))
            assert fields.of(event).keys() == {*others, "v.0", "v.1"}
    numbers = Fields()
    numbers.follow(Schema(("v.0", "v.1")), ("v.0", "v.1"))
    assert numbers.of(None).keys() == {"v.0", "v.1"}


def test_fields_follow_columns_that_come_and_other_models() -> None:
    kinds: Any = {"a": "number", "b": "text"}
    fields = Fields()
    for columns in (("b=x",), ("b=x", "a"), ("b=x", "a", "b=y"), ("a",), ()):
        fields.follow(Schema(columns, kinds=kinds), columns)
        fresh = Fields()
        fresh.follow(Schema(columns, kinds=kinds), columns)
        assert fields.of({}) == fresh.of({})
        assert sorted(place for some in fields.of({}).values() for place in some) == list(
            range(len(columns))
        )


# --- effects --------------------------------------------------------------------------------------


def churn(n: int) -> list[dict[str, Any]]:
    """Customers with fields of all kinds, texts of which hardly two are equal among them."""
    rng = np.random.default_rng(7)
    found = []
    for i in range(n):
        calls, plan = int(rng.integers(9)), ("basic", "plus", "pro")[i % 3]
        found.append(
            {
                "id": f"C{i:05}",
                "since": f"202{rng.integers(4)}-0{rng.integers(1, 10)}-11",
                "plan": plan,
                "calls": calls if i % 7 else None,
                "words": ["late", "refund", "love", "ok"][: int(rng.integers(1, 5))],
                "embedding": rng.normal(size=3).tolist(),
                "about": {"business": bool(i % 2)},
                "churned": bool(calls + (plan == "pro") * 3 > 5),
            }
        )
    return found


EVENTS = churn(600)
PLAIN = ("id", "since", "plan", "calls")
FIELDS = {*PLAIN, "words", "embedding", "about.business"}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reasons")
    model = create("doubly-stochastic", task="classification", max_features=256)
    attached(MemorySource(EVENTS), model, label="churned", checkpoint=path / "state").run()
    return path / "state"


def without(event: dict[str, Any], field: str) -> dict[str, Any]:
    """An event that says nothing of a field: a text is not there, a number is missing."""
    if field == "about.business":
        return {**event, "about": {"business": None}}
    if field in ("id", "plan", "words"):
        return {name: cell for name, cell in event.items() if name != field}
    return {**event, field: [None] * 3 if field == "embedding" else None}


def test_an_effect_is_that_of_an_event_that_says_nothing_of_the_field(state: Path) -> None:
    model = streamk.load(state)
    answers = Answers(model)
    for event in EVENTS[-20:]:
        (answer,) = answers.of([event], Details(explain=True))
        predicted = answer["prediction"]
        assert predicted == model.predict_one(event)
        whole = model.predict_proba_one(event)[predicted]
        effects = {
            field: whole - model.predict_proba_one(without(event, field))[predicted]
            for field in FIELDS
        }
        largest = sorted(effects, key=lambda name: -abs(effects[name]))[:5]
        assert [reason["column"] for reason in answer["reasons"]] == largest
        for reason in answer["reasons"]:
            assert reason["effect"] == pytest.approx(effects[reason["column"]], abs=1e-9)


def test_ids_that_tell_nothing_have_little_effect(tmp_path: Path) -> None:
    """With NaN in the columns of all texts theirs was as large as those of what decides."""
    rng = np.random.default_rng(0)
    cells = [(int(rng.integers(9)), f"C{n}") for n in range(2000)]
    events = [{"calls": calls, "id": name, "churned": calls > 4} for calls, name in cells]
    model = MultiKernel(seed=1, external_experts=())
    attached(MemorySource(events[:-50]), model, label="churned", checkpoint=tmp_path).run()
    asked = events[-50:]
    sizes: dict[str, float] = dict.fromkeys(("calls", "id"), 0.0)
    for answer in Answers(streamk.load(tmp_path)).of(asked, Details(explain=True)):
        for reason in answer["reasons"]:
            sizes[reason["column"]] += abs(reason["effect"]) / 50
    assert sizes["calls"] > 0.2
    assert sizes["id"] < 0.05


def test_all_ways_say_the_same(state: Path, tmp_path: Path) -> None:
    """`--explain`, over HTTP, `debug_one`, and what the live page shows."""
    asked = [{k: v for k, v in event.items() if k != "churned"} for event in EVENTS[-40:]]
    (tmp_path / "asked.ndjson").write_bytes(ndjson(asked))
    to = tmp_path / "told.ndjson"
    source = f"file:{tmp_path / 'asked.ndjson'}"
    assert main(["predict", str(state), source, "--to", f"file:{to}", "--explain", "--quiet"]) == 0
    told = [json.loads(line)["reasons"] for line in to.read_text().splitlines()]
    model = streamk.load(state)
    answers = Answers(model)
    served = answers.of(asked, Details(explain=True))
    assert told == [answer["reasons"] for answer in served]
    shown = answers.asked()
    explanation = Observer().explain(*shown)
    assert explanation.reasons == told[-1]
    for event, reasons in zip(asked, told, strict=True):
        lines = model.debug_one(event).splitlines()
        for reason in reasons:
            value = reason["value"]
            said = "is missing" if value is None else f"= {value!r}"
            assert f"  {reason['effect']:+10.4g}  {reason['column']} {said}" in lines
    values = {one["column"]: one["value"] for one in told[-1]}
    expected = {**asked[-1], "about.business": asked[-1]["about"]["business"]}
    expected["words"] = ", ".join(expected["words"])
    expected["embedding"] = ", ".join(map(str, expected["embedding"]))
    assert values == {name: expected[name] for name in values}


def test_a_field_takes_one_prediction_however_many_columns_it_has(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = streamk.load(state)
    assert len(model.learner.columns or ()) > 300
    answers, rows = Answers(model), 0
    predict: Any = model.learner.predict_proba_many

    def counted(X: Any) -> Any:
        nonlocal rows
        rows += len(X)
        return predict(X)

    monkeypatch.setattr(model.learner, "predict_proba_many", counted)
    asked = [*EVENTS[-10:], *(without(EVENTS[-1], field) for field in ("plan", "words", "since"))]
    answers.of(asked, Details(explain=True))
    explained = rows
    answers.of(asked)
    missing = 3 + sum(event["calls"] is None for event in asked)
    assert explained - (rows - explained) == 13 * (1 + len(FIELDS)) - missing


@pytest.mark.parametrize("late", [False, True])
def test_reasons_of_a_job_name_values(late: bool) -> None:
    events = [{**event, "key": f"k{n}"} for n, event in enumerate(EVENTS[:120])]
    sink, options = MemorySink(), {"ignore": ("key",)}
    if late:
        labels = [{"key": event["key"], "churned": event["churned"]} for event in events]
        options = {"labels": LateLabels(MemorySource(labels), key="key")}
        events = [{k: v for k, v in event.items() if k != "churned"} for event in events]
    model = create("doubly-stochastic", task="classification", max_features=64)
    job = attached(MemorySource(events), model, label="churned", sink=sink, explain=True, **options)
    job.run()
    last = [output for output in sink.outputs if output.value["reasons"]][-10:]
    assert len(last) == 10
    for output in last:
        event = events[output.offset]
        values = {reason["column"]: reason["value"] for reason in output.value["reasons"]}
        assert values.keys() <= FIELDS
        assert all(values[name] == event[name] for name in {*PLAIN} & values.keys())


def test_numbers_without_names_are_explained() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[-1, 1] = np.nan
    sink = MemorySink()
    source = MemorySource((X, (X[:, 0] > 0).tolist()))
    attached(source, MultiKernel(seed=1), label="y", sink=sink, explain=True).run()
    reasons = sink.outputs[-1].value["reasons"]
    assert reasons[0]["column"] == "0"
    values = {one["column"]: one["value"] for one in reasons}
    assert values == {"0": X[-1, 0], "1": None, "2": X[-1, 2]}


# --- watching a job -------------------------------------------------------------------------------


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
def test_rows_of_late_labels_have_them(name: str) -> None:
    """Whoever watches, the job is the same: see test_no_trace."""
    data, sink, observer = events(200), MemorySink(), Always()
    known = {event["id"]: event["y"] for event in data if event["id"] % 3}
    asked = [{key: event[key] for key in ("a", "b", "c", "id")} for event in data]
    labels = [{"id": number, "y": y} for number, y in known.items()]
    late = LateLabels(WhimsicalSource(labels, whim=2), key="id")
    options = {"labels": late, "sink": sink, "observer": observer}
    attached(WhimsicalSource(asked, whim=1), models()[name], label="y", **options).run()
    rows = observer.rows()["predictions"]
    said = {output.offset: output.value for output in sink.outputs}
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
