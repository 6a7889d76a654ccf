"""Events in the envelope of Debezium, as its connectors write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_kit import attached
from schema_kit import avro_body, avro_format, record_schema

from connectors.base import Chunk
from connectors.errors import BadRecord, BadURL
from connectors.formats import enveloped
from connectors.memory import MemorySink, MemorySource
from connectors.records import Tombstone, framed
from connectors.schemas.formats import SchemaFormat
from streamk.engine import Report
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

ROW = {"id": 7, "x": 1.5, "y": "up"}
NOT_TOLD = object()


def change(op: Any, after: Any = NOT_TOLD, **more: Any) -> dict[str, Any]:
    told = {} if after is NOT_TOLD else {"after": after}
    return {"before": None, **told, "op": op, "ts_ms": 1, "source": {"table": "t"}, **more}


def wrapped(payload: Any) -> Any:
    return {"schema": {"type": "struct"}, "payload": payload}


EVENTS = [change("c", ROW), change("u", ROW, before={"x": 0}), change("r", ROW)]
DELETIONS = [
    change("d", None, before=ROW),
    change("d", before=ROW),
    change("d", ROW),
    change("u", None),
    change("t"),
]
NONE: list[tuple[Any, str]] = [
    (ROW, "an `op`"),
    ([], "an `op`"),
    (7, "an `op`"),
    ({"after": ROW}, "an `op`"),
    (change("x", ROW), "`op` is 'x'"),
    (change(None, ROW), "`op` is None"),
    (change("m", message={}), "`op` is 'm'"),
    (change("c"), "`after` is not there"),
    (change("c", '{"x": 1}'), "`after` is a str"),
    (change("u", [1]), "`after` is a list"),
]


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def in_frame(value: Any) -> bytes:
    return framed(3, as_json(value))


WAYS = {"json": as_json, "json-schema": in_frame}


@pytest.fixture(params=[False, True], ids=["plain", "with a schema"])
def wrap(request: pytest.FixtureRequest) -> Any:
    return wrapped if request.param else lambda value: value


@pytest.mark.parametrize("encoding", WAYS)
def test_what_comes_in_an_envelope(encoding: str, wrap: Any) -> None:
    """The row after a change is the event, a deletion is a tombstone, another shape is told."""
    form = enveloped("debezium", encoding, None)
    assert form is not None
    read = form.reading(frozenset)
    for envelope in EVENTS:
        assert read(WAYS[encoding](wrap(envelope))) == ROW
    for envelope in (*DELETIONS, None):
        with pytest.raises(Tombstone):
            read(WAYS[encoding](wrap(envelope)))
    for envelope, reason in NONE:
        with pytest.raises(BadRecord, match=reason) as found:
            read(WAYS[encoding](wrap(envelope)))
        assert not isinstance(found.value, Tombstone)


@pytest.mark.parametrize("value", [b"{", b"", b"\xff", None])
def test_what_is_no_json_is_a_bad_record(value: Any) -> None:
    form = enveloped("debezium", "json", None)
    assert form is not None
    with pytest.raises(BadRecord):
        form.reading(frozenset)(value)


def avro(*rows: dict[str, Any]) -> SchemaFormat:
    """The format of Avro whose schemas are envelopes of these rows, numbered from 1."""
    return avro_format(*map(envelope_schema, rows))


def envelope_schema(row: dict[str, Any]) -> dict[str, Any]:
    return record_schema(
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", row["name"]], "default": None},
        ("op", "string"),
        name="Envelope",
    )


FIRST = record_schema(("id", "long"), ("x", "double"), ("y", "string"), name="Row")
SECOND = record_schema(
    ("id", "long"), {"name": "z", "type": "double", "aliases": ["x"]}, ("y", "string"), name="Row"
)


def test_avro_has_envelopes_too() -> None:
    inner = avro(FIRST)
    form = enveloped("debezium", "avro", inner)
    assert form is not None
    made = {"before": None, "after": ROW, "op": "c"}
    gone = {"before": ROW, "after": None, "op": "d"}
    values = [framed(1, avro_body(envelope_schema(FIRST), one)) for one in (made, gone)]
    assert inner.ready(values) == 2
    read = form.reading(frozenset)
    assert read(values[0]) == ROW
    with pytest.raises(Tombstone):
        read(values[1])


def test_fields_of_the_row_have_their_former_names() -> None:
    inner = avro(FIRST, SECOND)
    form = enveloped("debezium", "avro", inner)
    assert form is not None
    renamed = {"before": None, "after": {"id": 7, "z": 1.5, "y": "up"}, "op": "u"}
    value = framed(2, avro_body(envelope_schema(SECOND), renamed))
    assert inner.ready([value]) == 1
    assert form.reading(lambda: frozenset({"x"}))(value) == ROW
    assert form.reading(lambda: frozenset({"z"}))(value) == renamed["after"]


@pytest.mark.parametrize(
    ("envelope", "encoding", "text"),
    [("maxwell", "json", "must be debezium"), ("debezium", "csv", "not for csv")],
)
def test_others_are_refused(envelope: str, encoding: str, text: str) -> None:
    with pytest.raises(BadURL, match=text):
        enveloped(envelope, encoding, None)


# --- in a job -------------------------------------------------------------------------------------


class Changes(MemorySource):
    """A topic of a table's changes."""

    def __init__(self, values: list[Any], **options: Any) -> None:
        super().__init__(values, **options)
        self.encoding = "json"
        self.record_format = enveloped("debezium", "json", None)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        return super().poll(min(max_events, 100), timeout)


def run(source: Any, **options: Any) -> Report:
    model = DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=64)
    return attached(source, model, label="y", ignore=("id",), **options).run()


def rows(n: int) -> list[dict[str, Any]]:
    return [{"id": i, "x": i % 5 / 5, "y": "up" if i % 5 > 2 else "down"} for i in range(n)]


def test_a_job_learns_the_rows_of_a_table() -> None:
    """As the same rows alone, and counts what is none."""
    values: list[Any] = []
    for i, row in enumerate(rows(300)):
        values.append(as_json(change("cur"[i % 3], row)))
        if i % 10 == 0:
            values += [as_json(change("d", None, before=row)), None]
        if i % 50 == 0:
            values.append(as_json({"x": 1}))
    sink, dead, plain = MemorySink(), MemorySink(), MemorySink()
    report = run(Changes(values), sink=sink, dead_letters=dead)
    assert report.counts.learned == 300
    assert report.counts.tombstones == 60
    assert report.counts.bad == {"undecodable": 6}
    assert report.events == len(values)
    assert len(dead.outputs) == 6
    assert dead.outputs[0].value["value"] == '{"x": 1}'
    run(MemorySource(rows(300)), sink=plain)
    assert [one.value for one in sink.outputs] == [one.value for one in plain.outputs]
