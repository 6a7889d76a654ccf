"""Fields that a model does not have: told where it predicts, in an answer or once in a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_kit import ndjson
from cli_kit import streamk as command
from engine_kit import attached, learned

import streamk
from connectors.memory import MemorySource
from streamk.encoding import Schema
from streamk.engine.training import fields as known_fields
from streamk.engine.training.fields import KnownFields, Unknown
from streamk.late import LateLabels
from streamk.learners import MultiKernel

EVENTS: list[dict[str, Any]] = [
    {
        "price": n % 7 + 0.5,
        "city": "ab"[n % 2],
        "user": {"age": n % 50, "id": n},
        "embedding": [n % 3 + 0.5, 1.0],
        "at": "2024-05-01T10:00:00Z",
        "tags": ["x", "y"],
        "row": n,
        "sold": n % 7 > 3,
    }
    for n in range(200)
]
WHOLE = EVENTS[0]


def but(**more: Any) -> dict[str, Any]:
    """An event with another name for its price."""
    return {**{name: value for name, value in WHOLE.items() if name != "price"}, **more}


NEAR = "; its nearest fields: 'price'"
KNOWN = [
    WHOLE,
    {},
    {"sold": True},
    {"row": 7},
    {"price": None},
    {"price": "new text", "city": "z", "embedding": None, "tags": []},
    {"user": {}, "price": 1},
    {"user": {"id": {"deep": 1}}},
    {"user.age": 3},
    {"embedding": [1.5, 2.5, 3.5]},
]
"""Events of which nothing is unknown."""
UNKNOWN: list[tuple[dict[str, Any], list[str], bool]] = [
    (but(prise=3), ["prise"], False),
    (but(prise=None), ["prise"], False),
    (but(prise=3, PRICE=1), ["prise", "PRICE"], False),
    ({**WHOLE, "user": {"age": 3, "aga": 1}}, ["user.aga"], False),
    ({"price": 3, "city": {"name": "a"}}, ["city.name"], False),
    ({**WHOLE, "user": 3}, ["user"], False),
    ({**WHOLE, "embedding": 3}, ["embedding"], False),
    ({"prise": 3}, ["prise"], True),
    ({"prise": 3, "sold": True, "row": 1}, ["prise"], True),
    ({"users": {"age": 3}, "x": 1}, ["users.age", "x"], True),
]
"""Events with the fields that are unknown, and whether they have no other."""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("state")
    learned(directory, EVENTS, label="sold", ignore=("row", "user.id"))
    return directory


def test_names_of_any_kind_are_looked_at() -> None:
    known = KnownFields(Schema((0, 1, "a"), kinds={0: "number", 1: "number", "a": "number"}))
    assert known.of({0: 1, 1: 2, "a": 3}) == Unknown()
    assert known.of({0: 1, 2: 2, ("b", "c"): 3}).names == (2, "('b', 'c')")
    assert known.of({object(): 1}) == Unknown()  # which is told as an event of no use
    assert KnownFields(Schema(label="y")).of({"a": 1}) == Unknown()


def test_hints_are_short_work() -> None:
    known = KnownFields(Schema(tuple("x" * 30 + f"{n:07d}" for n in range(3000))))
    assert len(known.nearest("x" * 30 + "0000008")) == 3
    known._fields = frozenset()
    for n in range(1100):
        known.nearest(f"{n}" * 1000)
    assert max(map(len, known._nearest)) <= 40
    assert len(known._nearest) <= 200


def test_names_of_about_the_same_length_are_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_fields, "_MOST", 1)
    assert KnownFields(Schema(("a price of all", "prices", "price"))).nearest("prise") == ["price"]
    assert KnownFields(Schema(("price of all", "prices"))).nearest("pric") == ["prices"]


# --- from Python ----------------------------------------------------------------------------------


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_python_is_told_once_a_name(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = streamk.load(state)
    for _ in range(2):
        model.predict_one(WHOLE)
        model.predict_one({})
    assert warnings(caplog) == []
    alone = model.predict_one({"prise": 3})
    assert warnings(caplog) == [
        f"the model has no field 'prise', nor any other field of the event{NEAR}"
    ]
    assert alone == model.predict_one({})
    for predict in (model.predict_one, model.predict_proba_one, model.debug_one):
        predict(but(prise=3))
    assert warnings(caplog) == []
    model.predict_many([but(prise=3), but(pricing=1), but(pricing=2)])
    assert warnings(caplog) == [f"the model has no field 'pricing'{NEAR}"]


def test_there_is_an_end_to_what_is_told(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = streamk.load(state)
    model.predict_many([but(**{f"new {n}": 1}) for n in range(300)])
    found = warnings(caplog)
    assert len(found) == 101
    assert found[-1] == "further unknown fields are not reported"
    model.predict_one(but(another=1))
    assert warnings(caplog) == []


def test_what_a_job_with_late_labels_joins_by_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = [{"id": n, "a": n % 7} for n in range(100)]
    labels = [{"id": n, "y": n % 7 > 3} for n in range(100)]
    late = LateLabels(MemorySource(labels), "id")
    options: dict[str, Any] = {"label": "y", "labels": late, "checkpoint": tmp_path}
    attached(MemorySource(events), MultiKernel(), **options).run()
    model = streamk.load(tmp_path)
    caplog.clear()
    model.predict_one({"id": 3, "a": 1, "y": True})
    assert warnings(caplog) == []
    model.predict_one({"id": 3, "a": 1, "b": 1})
    assert warnings(caplog) == ["the model has no field 'b'"]


# --- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(state: Path) -> Iterator[Any]:
    from http_kit import Client

    from streamk.serving.application import application

    with Client(application(streamk.load(state))) as found:
        yield found


@pytest.mark.parametrize("event", KNOWN, ids=str)
def test_what_is_known_is_not_told(client: Any, state: Path, event: dict[str, Any]) -> None:
    assert KnownFields(streamk.load(state).schema).of(event) == Unknown()
    assert client.post("/predict", json=event).json().keys() == {"prediction", "probabilities"}


@pytest.mark.parametrize(("event", "names", "is_all"), UNKNOWN, ids=str)
def test_what_is_unknown_is_named(
    client: Any, state: Path, event: Any, names: list[str], is_all: bool
) -> None:
    assert KnownFields(streamk.load(state).schema).of(event) == (tuple(names), is_all)
    answer = client.post("/predict", json=event)
    if is_all:
        assert answer.status_code == 422
        (bad,) = answer.json()["events"]
        assert (bad["index"], bad["column"]) == (0, names[0])
        says = f"unknown column: the model has no field {names[0]!r}, nor any other field of"
        assert bad["reason"].startswith(says)
    else:
        assert answer.status_code == 200
        assert answer.json()["unknown"] == names


def test_the_nearest_fields_are_named_once(client: Any) -> None:
    asked = [WHOLE, but(prise=3), but(prise=4, ctiy=1), but(qqq=3)]
    found = client.post("/predict", json=asked).json()
    told = [{key: answer.get(key) for key in ("unknown", "nearest")} for answer in found]
    assert told == [
        {"unknown": None, "nearest": None},
        {"unknown": ["prise"], "nearest": {"prise": ["price"]}},
        {"unknown": ["prise", "ctiy"], "nearest": {"ctiy": ["city"]}},
        {"unknown": ["qqq"], "nearest": None},
    ]
    reasons = client.post("/predict?reasons=true", json=but(prise=3)).json()
    assert reasons.keys() == {"prediction", "probabilities", "reasons", "unknown", "nearest"}


def test_one_event_without_any_known_field_refuses_the_request(client: Any) -> None:
    answer = client.post("/predict", json=[WHOLE, {"prise": 3}, {}, {"x": 1}])
    assert answer.status_code == 422
    assert [event["index"] for event in answer.json()["events"]] == [1, 3]
    assert NEAR in answer.json()["events"][0]["reason"]


def test_many_unknown_fields_are_cut(client: Any) -> None:
    answer = client.post("/predict", json=but(**{f"new {n}": 1 for n in range(500)}))
    assert len(answer.json()["unknown"]) == 20
    answer = client.post("/predict", json=but(**{f"pric{n}": 1 for n in range(9)}))
    assert list(answer.json()["nearest"]) == ["pric0", "pric1", "pric2"]


# --- by the command -------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["file:asked.ndjson", "csv:asked.csv", "stdin:"])
def test_the_command_names_what_is_unknown(state: Path, tmp_path: Path, source: str) -> None:
    lines = ndjson([{"prise": 3, "city": "a"}] * 20)
    (tmp_path / "asked.ndjson").write_bytes(lines)
    (tmp_path / "asked.csv").write_bytes(b"prise,city\n" + b"3,a\n" * 20)
    options = ("predict", str(state), source, "--to", "file:answers.ndjson")
    out, err = command(*options, cwd=tmp_path, given=lines)
    assert f"the model has no field 'prise'{NEAR}" in out + err
    assert "city" not in out + err
    (tmp_path / "asked.ndjson").write_bytes(ndjson([WHOLE]))
    out, err = command("predict", str(state), "file:asked.ndjson", cwd=tmp_path)
    assert "has no field" not in out + err


def test_the_command_tells_of_few(state: Path, tmp_path: Path) -> None:
    (tmp_path / "asked.ndjson").write_bytes(ndjson([but(**{f"new {n}": 1 for n in range(50)})]))
    options = ("predict", str(state), "file:asked.ndjson", "--to", "file:answers.ndjson")
    out, err = command(*options, cwd=tmp_path)
    assert (out + err).count("the model has no field 'new ") in (10, 20)  # in the log, in the end
    assert "and more fields of the events" in out + err


def test_what_a_job_learns_is_not_unknown(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson([{"a": n, "y": n % 3} for n in range(50)]))
    options = ("run", "file:events.ndjson", "--label", "y", "--checkpoint", "state")
    out, err = command(*options, cwd=tmp_path)
    assert "has no field" not in out + err
