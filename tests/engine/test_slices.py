"""Figures for each value of a column: those of the events with it, through batches and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson, streamk
from engine_kit import attached, job
from schema_kit import avro_record, record_schema

from connectors.base import Rows
from connectors.memory import MemorySink, MemorySource
from connectors.records import framed
from connectors.schemas.avro import AvroSchema
from connectors.schemas.formats import SchemaFormat
from connectors.schemas.stores import StoredSchema
from streamk.engine import Report
from streamk.engine.evaluation.slices import MISSING, MOST, Slices
from streamk.errors import InvalidInput, StateError
from streamk.learners import create


def towns(n: int, kinds: int = 3) -> list[dict[str, Any]]:
    """In the first town labels are clear, in the others they are not."""
    rng = np.random.default_rng(1)
    made: list[dict[str, Any]] = []
    for i in range(n):
        town, x = int(rng.integers(0, kinds)), float(rng.normal())
        noise = 0.0 if town == 0 else 2.0
        label = x + noise * float(rng.normal()) > 0
        made.append({"id": i, "x": x, "y": label, "at": {"town": f"t{town}"}})
        if i % 7 == 3:
            del made[-1]["at"]
    return made


def sliced(stream: list[Any], *, late: bool = False, **options: Any) -> Report:
    model = create("multi-kernel", task="classification", seed=1, external_experts=())
    options = {"slice": "at.town", "whim": 0, **options}
    return job(stream, model, late=20 if late else None, **options).run()


def expected(stream: list[Any], sink: MemorySink) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for event, output in zip(stream, sink.outputs, strict=True):
        if output.value["prediction"] is not None:
            name = event.get("at", {}).get("town", MISSING)
            found.setdefault(name, []).append(output.value["prediction"] == event["y"])
    return found


@pytest.mark.parametrize("late", [False, True])
def test_figures_are_those_of_the_events_with_the_value(late: bool) -> None:
    stream, sink = towns(900), MemorySink()
    report = sliced(stream, sink=sink, late=late, window=200)
    hits = expected(stream, sink)
    assert report.slices.keys() == {"t0", "t1", "t2", MISSING}
    for name, of_slice in hits.items():
        assert report.slices[name]["events"] == len(of_slice)
        assert report.slices[name]["accuracy"] == pytest.approx(np.mean(of_slice))
    assert sum(one["window"]["events"] for one in report.slices.values()) == 200
    assert report.slices["t0"]["accuracy"] > report.slices["t1"]["accuracy"] + 0.1
    assert report.slices["t0"]["log_loss"] < report.slices["t1"]["log_loss"]


@pytest.mark.parametrize("late", [False, True])
def test_another_column_begins_anew(late: bool, tmp_path: Path) -> None:
    stream = towns(400)
    sliced(stream, late=late, checkpoint=tmp_path, max_events=300)
    report = sliced(stream, late=late, checkpoint=tmp_path, slice="id")
    assert sum(one["events"] for one in report.slices.values()) <= 400 - 100
    assert report.slices.keys().isdisjoint({"t0", "t1", "t2", MISSING})


def test_plain_numbers_have_no_slices() -> None:
    source = MemorySource(Rows(np.eye(3), [0, 1, 0]))
    with pytest.raises(InvalidInput, match="needs events with named fields"):
        attached(source, create("multi-kernel", task="classification"), label="y", slice="a")


def test_values_are_told_apart_by_their_text() -> None:
    slices = Slices("x")
    codes = slices.codes([3, "3", 3.0, True, "true", "", None, {"a": 1}, "z" * 100, "\ud800"])
    assert codes.tolist() == [0, 0, 1, 2, 2, 3, 3, 4, 5, 6]
    json.dumps(slices.names).encode()


@pytest.mark.parametrize(
    "damage",
    [
        {"names": ["a"]},
        {"names": ["a", "a"]},
        {"names": [str(n) for n in range(MOST + 1)]},
        {"sums": [[0.0]]},
        {"sums": [[float("nan")] * 3] * (MOST + 1)},
        {"sums": None},
    ],
)
def test_damaged_data_is_refused(damage: dict[str, Any]) -> None:
    slices = Slices("x")
    codes = slices.codes(["a", "b"])
    slices.add({"hit": np.ones(2), "loss": np.ones(2), "slice": codes})
    data = slices.to_json()
    Slices("x").resume(data)
    with pytest.raises(StateError):
        Slices("x").resume({**data, **damage})


def test_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(towns(500)))
    command = ("run", "file:events.ndjson", "--label", "y", "--ignore", "id", "--slice", "at.town")
    out, _ = streamk(*command, cwd=tmp_path)
    assert "slice" in out
    assert "t0" in out
    found = json.loads(streamk(*command, "--json", "--quiet", cwd=tmp_path)[0])["slices"]
    assert found["t0"]["accuracy"] > found["t1"]["accuracy"]


def test_framed_records_have_slices() -> None:
    """Those of Avro, which are read by their schemas, and of JSON behind a frame."""
    plain = [{"x": n % 5, "y": n % 5 > 1, "at": {"town": f"t{n % 3}"}} for n in range(90)]
    town = record_schema(("town", "string"), name="Town")
    schema = record_schema(("x", "long"), ("y", "boolean"), ("at", town))

    class Framed(MemorySource):
        record_format: Any = None

    class Stored:
        def fetch(self, number: int) -> StoredSchema:
            return StoredSchema(json.dumps(schema))

    found = {}
    for encoding in ("json", "json-schema", "avro"):
        values = [json.dumps(event).encode() for event in plain]
        if encoding == "json-schema":
            values = [framed(1, value) for value in values]
        elif encoding == "avro":
            values = [avro_record(1, schema, event) for event in plain]
        source = Framed(values, encoding=encoding)
        if encoding == "avro":
            source.record_format = SchemaFormat(Stored(), lambda schema: AvroSchema(schema.text))
            assert source.record_format.ready(values) == len(values)
        model = create("doubly-stochastic", task="classification", seed=1)
        found[encoding] = attached(source, model, label="y", slice="at.town").run().slices
    assert set(found["json"]) == {"t0", "t1", "t2"}
    assert found["avro"] == found["json-schema"] == found["json"]
