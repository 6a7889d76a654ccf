"""Requests over HTTP: what is answered, what is refused, and newer models meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learned
from http_kit import Client
from starlette.testclient import TestClient

import streamk
from connectors.memory import MemorySink, MemorySource
from streamk.contest import Contest
from streamk.contest.command import change_champion
from streamk.engine import Fixed
from streamk.learners import MultiKernel, create
from streamk.serving import application as module
from streamk.serving.application import application

STREAM = events(300, seed=3)
"""Two numbers, a text, a label."""
KIND = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client(state: Path) -> Iterator[TestClient]:
    with Client(application(streamk.load(state))) as found:
        yield found


def test_a_model_that_is_too_old_is_not_ready(state: Path) -> None:
    model = streamk.load(state)
    with Client(application(model, max_age=1e6, refresh=1e6)) as client:
        assert client.get("/readyz").json() == {"status": "ready"}
        assert 0 <= client.get("/model").json()["age"] < 1e6
        model.written -= 2e6
        assert client.get("/model").json()["age"] > 2e6
        found = client.get("/readyz")
        assert (found.status_code, found.json()["status"]) == (503, "the model is too old")
        assert client.get("/healthz").status_code == 200
        assert client.post("/predict", json=plain(STREAM[0])).status_code == 200


def test_the_champion_answers_and_all_are_named(tmp_path: Path) -> None:
    first, near = MultiKernel(), create("online-nystrom", task="classification")
    learned(tmp_path, STREAM[:200], Contest({"first": first, "near": near}))
    model, asked = streamk.load(tmp_path), [plain(event) for event in STREAM[200:]]
    with Client(application(model)) as client:
        about = client.get("/model").json()
        assert (about["champion"], about["challengers"]) == ("first", ["near"])
        assert about["model"] == "multi-kernel"
        before = client.post("/predict", json=asked).json()
        change_champion(tmp_path, lambda found: found.promote("near"))
        assert model.refresh()
        about = client.get("/model").json()
        assert (about["champion"], about["challengers"]) == ("near", ["first"])
        assert about["model"] == "online-nystrom"
        after = client.post("/predict", json=asked).json()
    for learner, found in ((first, before), (near, after)):
        with_schema: Any = {
            "schema": model.schema,
            "fixed": Fixed(),
            "sink": (sink := MemorySink()),
        }
        attached(MemorySource(asked), learner, **with_schema).run()
        assert [row["prediction"] for row in found] == [
            output.value["prediction"] for output in sink.outputs
        ]


def plain(event: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(event, default=float))


def test_one_event_and_several_are_answered_as_by_the_job(client: TestClient, state: Path) -> None:
    model, sink = streamk.load(state), MemorySink()
    rest = [plain(event) for event in STREAM[200:]]
    options: Any = {"schema": model.schema, "fixed": Fixed(), "sink": sink}
    attached(MemorySource(rest), model.learner, **options).run()
    found = client.post("/predict", json=rest).json()
    assert len(found) == len(sink.outputs)
    for answer, output in zip(found, sink.outputs, strict=True):
        assert answer["prediction"] == output.value["prediction"]
        assert answer["probabilities"] == pytest.approx(output.value["probabilities"], abs=1e-12)
    one = client.post("/predict", json=rest[7])
    assert one.headers["content-type"] == "application/json"
    assert one.json()["prediction"] == found[7]["prediction"]
    assert client.post("/predict", json=[]).json() == []


def test_requests_change_nothing(client: TestClient, state: Path) -> None:
    before = client.post("/predict?reasons=true", json=[plain(event) for event in STREAM]).json()
    client.post("/predict", json=[{"more": 1.0, "y": "other"}] * 50)
    again = client.post("/predict?reasons=true", json=[plain(event) for event in STREAM]).json()
    assert again == before
    assert client.get("/model").json()["events"] == 200
    assert streamk.load(state).n_events == 200


def test_reasons(client: TestClient) -> None:
    answer = client.post("/predict?reasons=true", json=plain(STREAM[0])).json()
    assert {"column", "value", "effect"} == set(answer["reasons"][0])


def test_intervals(tmp_path: Path) -> None:
    stream = [{"x": n % 7, "y": float(n % 7)} for n in range(200)]
    learned(tmp_path, stream, create("multi-kernel", task="regression"), ignore=())
    with Client(application(streamk.load(tmp_path))) as client:
        answer = client.post("/predict?interval=0.9", json={"x": 3}).json()
        low, high = answer["interval"]
        assert low < answer["prediction"] < high
        assert client.get("/model").json()["task"] == "regression"
        refused = client.post("/predict?interval=1.5", json={"x": 3})
        assert refused.status_code == 400
        assert "must lie between 0 and 0.99" in refused.json()["error"]


def test_prediction_sets(tmp_path: Path) -> None:
    model = create("multi-kernel", task="classification")
    learned(tmp_path, STREAM, model, prediction_set=0.9)
    with Client(application(streamk.load(tmp_path))) as client:
        answers = client.post("/predict?prediction_set=0.9", json=[plain(STREAM[0])] * 2).json()
        assert [answer["prediction"] in answer["prediction_set"] for answer in answers] == [
            True
        ] * 2
        assert answers[0]["prediction_set"] == streamk.load(tmp_path).predict_set_one(STREAM[0])
        refused = client.post("/predict?prediction_set=0.8", json=plain(STREAM[0]))
        assert refused.status_code == 400
        assert "runs with --prediction-set 0.9" in refused.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "must be an event"),
        (b"3", 400, "must be an event"),
        (b'"text"', 400, "must be an event"),
        (b'{"a": 1', 400, "invalid JSON"),
        (b'[{"a": 1},]', 400, "invalid JSON"),
        (b"\xff\xfe", 400, "must be an event"),
        (b'{"\xff": 1}', 400, "invalid JSON"),
        (b"[" * 100_000, 400, "invalid JSON"),
        (b"[3]", 422, "event 0: not an object"),
        (b'[{"a": 1}, {"a": 1e999}]', 422, "event 1: inf: column 'a'"),
    ],
)
def test_bodies_of_no_use_are_refused(
    client: TestClient, body: bytes, status: int, says: str
) -> None:
    answer = client.post("/predict", content=body, headers=KIND)
    assert answer.status_code == status
    assert says in answer.json()["error"]


def test_every_event_of_no_use_is_named(client: TestClient) -> None:
    bad = [{"a": 1.0}, {"a": 1e200}, {"b": 1.0}, 7]
    answer = client.post("/predict", json=bad)
    assert answer.status_code == 422
    found = answer.json()["events"]
    assert [event["index"] for event in found] == [1, 3]
    assert found[0]["column"] == "a"


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/predict", 405, "no GET /predict"),
        ("POST", "/model", 405, "no POST /model"),
        ("GET", "/nothing", 404, "no GET /nothing here"),
        ("POST", "/predict?colour=blue", 400, "no parameter 'colour'"),
        ("POST", "/predict?reasons=perhaps", 400, "must be true or false"),
        ("POST", "/predict?interval=wide", 400, "must be a number"),
        ("POST", "/predict?interval=0.9", 400, "intervals are for numbers"),
    ],
)
def test_requests_of_no_use_are_refused(
    client: TestClient, method: str, path: str, status: int, says: str
) -> None:
    answer = client.request(method, path, json={"a": 1.0})
    assert answer.status_code == status
    assert says in answer.json()["error"]


def test_requests_that_are_too_large_are_refused(state: Path) -> None:
    app = application(streamk.load(state), max_body=100, max_events=3)
    with Client(app) as client:
        assert client.post("/predict", json=[{}] * 3).status_code == 200
        many = client.post("/predict", json=[{}] * 4)
        large = client.post("/predict", json={"text": "x" * 100})
        assert (many.status_code, large.status_code) == (413, 413)
        assert "at most 3" in many.json()["error"]
        assert "more than 100 bytes" in large.json()["error"]


def test_before_anything_is_learned(tmp_path: Path) -> None:
    learned(tmp_path, [{"a": n, "y": None} for n in range(5)], ignore=())
    with Client(application(streamk.load(tmp_path))) as client:
        assert client.get("/readyz").status_code == 503
        nothing = {"prediction": None, "probabilities": {}}
        assert client.post("/predict", json={"a": 1}).json() == nothing


def test_a_newer_model_takes_its_place(tmp_path: Path) -> None:
    learned(tmp_path, STREAM[:100])
    with Client(application(streamk.load(tmp_path), refresh=0.01)) as client:
        assert client.get("/model").json()["events"] == 100
        learned(tmp_path, [*STREAM, {"new": "column", "y": STREAM[0]["y"]}])
        deadline = time.monotonic() + 60
        while client.get("/model").json()["events"] == 100:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        about = client.get("/model").json()
        assert about["events"] == 301
        assert "new=column" in about["columns"]
        assert client.post("/predict", json={"new": "column"}).status_code == 200


def test_a_checkpoint_that_cannot_be_read_leaves_the_model(tmp_path: Path) -> None:
    learned(tmp_path, STREAM[:100])
    with Client(application(streamk.load(tmp_path), refresh=0.01)) as client:
        (slot,) = tmp_path.glob("member-*")
        for checkpoint in slot.glob("0*"):
            (checkpoint / "manifest.json").write_text("{")
        broken = slot / "00000099"
        broken.mkdir()
        (broken / "manifest.json").write_text("{")
        deadline = time.monotonic() + 60
        while "streamk_refresh_failures_total 0.0" in client.get("/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert client.post("/predict", json=plain(STREAM[0])).status_code == 200


def test_figures(client: TestClient) -> None:
    def figures() -> dict[str, float]:
        lines = client.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    before = figures()
    client.post("/predict", json=[{}, {}, {}])
    client.post("/predict", json=3)
    after = figures()
    total = "streamk_events_predicted_total"
    assert after[total] - before[total] == 3
    assert after['streamk_requests_total{path="/predict",status="400"}'] >= 1
    assert after["streamk_model_events"] == 200
    assert 0.0 <= after["streamk_model_age_seconds"] < 3600


def test_the_page_has_means_and_counts_and_nothing_of_a_request(state: Path) -> None:
    app = application(streamk.load(state), refresh=1e6)
    with Client(app) as client:
        assert client.get("/").headers["content-type"].startswith("text/html")
        secret = {**plain(STREAM[0]), "c": "a secret text"}
        client.post("/predict", json=secret)
        assert client.post("/predict", json={"a": [[1, "another secret"]]}).status_code == 422
        deadline, now = time.monotonic() + 60, None
        while not (now and now["experts"] and now["bad_kinds"]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
            now = client.get("/status").json()["now"]
        assert sum(now["experts"].values()) == pytest.approx(1.0)
        assert set(now["importances"]) == {"a", "b", "c"}
        metrics = client.get("/metrics").text
        weights = [f'streamk_expert_weight{{expert="{name}"}}' for name in now["experts"]]
        assert all(weight in metrics for weight in weights)
        found = client.get("/points").json()
        assert found["points"][-1]["bad_kinds"] == {"wrong type": 1}
        assert found["points"][-1]["learned"] == 200
        assert {"accuracy", "log_loss"} <= found["points"][-1]["window"].keys()
        assert (found["predictions"], found["bad"]) == ([], [])
        assert "secret" not in client.get("/points").text + metrics
        for path in ("/page/page.js", "/page/uPlot.min.css"):
            assert client.get(path).status_code == 200


def test_paths_are_described(client: TestClient) -> None:
    found = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    routes = client.app.routes  # type: ignore[attr-defined]
    paths = {route.path for route in routes if route.include_in_schema}
    assert set(found["paths"]) == paths - {"/openapi.json"}
    referred = set(json.dumps(found).split("#/components/schemas/")[1:])
    assert {one.split('"')[0] for one in referred} == set(found["components"]["schemas"])


def test_what_fails_here_is_not_told(
    state: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(module.Answers, "of", fail)
    with Client(application(streamk.load(state))) as client:
        answer = client.post("/predict", json={})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "a secret" in caplog.text
