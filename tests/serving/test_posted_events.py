"""Events that requests bring to be learned: checked, and added to a log whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, run
from http_kit import Client
from starlette.testclient import TestClient

import streamk
from connectors.errors import BadRecord, BadURL, ConnectorError
from connectors.memory import MemorySource
from connectors.registry import open_log, open_source
from streamk.errors import InvalidInput
from streamk.late import LateLabels
from streamk.learners import MultiKernel
from streamk.packing import fingerprint
from streamk.serving.application import application

STREAM: list[dict[str, Any]] = json.loads(json.dumps(events(300, seed=3), default=float))


@pytest.fixture
def served(state: Path, tmp_path: Path) -> Iterator[tuple[TestClient, Path]]:
    path = tmp_path / "events.ndjson"
    log = open_log(f"file:{path}")
    with Client(application(streamk.load(state), log=log, max_events=200)) as client:
        yield client, path
    log.close()


def test_a_job_that_could_not_learn_them_takes_none(tmp_path: Path) -> None:
    log = open_log(f"file:{tmp_path / 'events.ndjson'}")
    table = b"x,y\n" + b"".join(b"%d,%d\n" % (n, n % 2) for n in range(20))
    (tmp_path / "events.csv").write_bytes(table)
    source = open_source(f"csv:{tmp_path / 'events.csv'}")
    attached(source, MultiKernel(), label="y", checkpoint=tmp_path / "csv").run()
    late = LateLabels(
        MemorySource([{"id": event["id"], "y": event["y"]} for event in STREAM]), "id"
    )
    stream = [{name: one for name, one in event.items() if name != "y"} for event in STREAM]
    source = MemorySource(stream)
    attached(source, MultiKernel(), label="y", labels=late, checkpoint=tmp_path / "late").run()
    for directory, what in (("csv", "encoding 'csv'"), ("late", "another source")):
        with pytest.raises(InvalidInput, match=what):
            application(streamk.load(tmp_path / directory), log=log)
        assert application(streamk.load(tmp_path / directory))
    log.close()


def test_a_job_learns_what_is_posted(served: tuple[TestClient, Path]) -> None:
    client, path = served
    found = client.post("/learn", json=STREAM[100:250])
    assert (found.status_code, found.json()) == (202, {"taken": 150})
    pretty = json.dumps(STREAM[250], indent=2).encode()
    headers = {"content-type": "application/json"}
    assert client.post("/learn", content=pretty, headers=headers).json() == {"taken": 1}
    assert client.post("/learn", json=[]).json() == {"taken": 0}
    assert "streamk_events_taken_total 151.0" in client.get("/metrics").text

    def model(source: Any) -> Any:
        return run(source, MultiKernel()).model

    posted = model(open_source(f"file:{path}"))
    assert posted.n_events == 151
    expected = model(MemorySource(STREAM[100:251]))
    assert fingerprint(posted.state()) == fingerprint(expected.state())


def test_events_of_no_use_are_named_and_none_is_taken(served: tuple[TestClient, Path]) -> None:
    client, path = served
    unlabelled = {name: value for name, value in STREAM[0].items() if name != "y"}
    answer = client.post("/learn", json=[STREAM[0], unlabelled, 7, {"a": 1e200, "y": "x"}])
    assert answer.status_code == 422
    found = [(event["index"], event["reason"]) for event in answer.json()["events"]]
    assert [index for index, _ in found] == [1, 2, 3]
    assert "no label" in found[0][1]
    assert path.read_bytes() == b""
    for body, status in ((b"3", 400), (b'{"a": ', 400), (b"[" * 5000, 400)):
        headers = {"content-type": "application/json"}
        assert client.post("/learn", content=body, headers=headers).status_code == status
    assert client.post("/learn?reasons=true", json=STREAM[0]).status_code == 400
    assert client.post("/learn", json=[STREAM[0]] * 201).status_code == 413
    assert path.read_bytes() == b""


def test_what_a_full_disk_does_not_take_is_told(
    served: tuple[TestClient, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, path = served
    client.post("/learn", json=STREAM[:3])
    before, write = path.read_bytes(), os.write

    def half(file: int, data: bytes) -> int:
        if len(data) > 200:
            return write(file, data[:100])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        answer = client.post("/learn", json=STREAM[:10])
    assert answer.status_code == 503
    assert "No space left" in answer.json()["error"]
    assert path.read_bytes() == before
    assert client.post("/learn", json=STREAM[3:5]).status_code == 202
    assert len(path.read_bytes().splitlines()) == 5


class _Refusing:
    error: Exception = BadRecord("an event is too large")

    def append(self, events: Sequence[bytes]) -> None:
        raise self.error

    def close(self) -> None:
        pass


def test_other_errors_of_the_log(state: Path) -> None:
    log = _Refusing()
    with Client(application(streamk.load(state), log=log)) as client:
        assert client.post("/learn", json=STREAM[0]).status_code == 413
        log.error = ConnectorError("the brokers are away")
        answer = client.post("/learn", json=STREAM[0])
        assert (answer.status_code, "away" in answer.json()["error"]) == (503, True)


def test_the_path_is_described_where_it_is(served: tuple[TestClient, Path], state: Path) -> None:
    assert "/learn" in served[0].get("/openapi.json").json()["paths"]
    with Client(application(streamk.load(state), log=_Refusing(), token="a long token")) as client:
        headers = {"authorization": "Bearer a long token"}
        found = client.get("/openapi.json", headers=headers).json()
        assert found["paths"]["/learn"]["post"]["security"] == [{"token": []}]
    with Client(application(streamk.load(state))) as client:
        assert "/learn" not in client.get("/openapi.json").json()["paths"]
        assert client.post("/learn", json=STREAM[0]).status_code == 404


def test_a_table_is_no_log() -> None:
    with pytest.raises(BadURL, match="can only be a source or a sink, not a log"):
        open_log("csv:events.csv")
