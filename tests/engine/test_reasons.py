"""Reasons for predictions: fields, with their values as they stand in the event, in all ways."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson
from engine_kit import attached

import streamk
from connectors.memory import MemorySink, MemorySource
from streamk.cli import main
from streamk.encoding import Schema, decoder
from streamk.engine.training.fields import EventFields
from streamk.engine.training.options import Details
from streamk.late import LateLabels
from streamk.learners import MultiKernel, create
from streamk.learners.explaining import Fields
from streamk.serving.answers import Answers
from streamk.serving.observing import Observer

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
    cells = [(int(rng.integers(9)), f"C{n}") for n in range(3000)]
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
