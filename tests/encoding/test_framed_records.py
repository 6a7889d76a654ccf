"""Framed records give the columns of the same events in JSON, through all changes of schemas."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_kit import Stored, avro_format, avro_record, record_schema

from connectors.errors import BadRecord
from connectors.records import framed
from connectors.schemas.formats import SchemaFormat
from connectors.schemas.protobuf import ProtobufSchema
from streamk.encoding import Decoded, FieldReader, Schema, decoder

# --- schemas and events ---------------------------------------------------------------------------

AT = {"type": "long", "logicalType": "timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
DEVICE = {"type": "enum", "name": "Device", "symbols": ["PHONE", "TABLET", "DESKTOP"]}
USER = record_schema(("age", ["null", "int"]), ("city", "string"), name="User")
FLAT = record_schema(
    ("size", "double"),
    ("count", "long"),
    ("device", DEVICE),
    ("at", AT),
    ("price", ["null", PRICE]),
    ("note", ["null", "string"]),
    ("clicked", "boolean"),
)
DEEP = record_schema(
    ("size", "double"),
    ("user", ["null", USER]),
    ("tags", {"type": "array", "items": "string"}),
    ("vector", {"type": "array", "items": "double"}),
    ("counts", {"type": "map", "values": "int"}),
    ("clicked", ["null", "boolean"]),
)


def flat_events(n: int) -> list[dict[str, Any]]:
    randomness = random.Random(3)
    return [
        {
            "size": randomness.gauss(0, 1),
            "count": randomness.randrange(10**12),
            "device": randomness.choice(DEVICE["symbols"]),
            "at": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=randomness.randrange(10**8)),
            "price": randomness.choice([None, randomness.randrange(10**6) / 100]),
            "note": randomness.choice([None, "good", "bad", "7"]),
            "clicked": randomness.random() < 0.5,
        }
        for _ in range(n)
    ]


def deep_events(n: int) -> list[dict[str, Any]]:
    randomness = random.Random(4)
    return [
        {
            "size": randomness.gauss(0, 1),
            "user": randomness.choice(
                [None, {"age": randomness.choice([None, 31]), "city": "Ulm"}]
            ),
            "tags": randomness.choices("abc", k=randomness.randrange(3)),
            "vector": [0.5, randomness.random()],
            "counts": {key: 1 for key in "xyz" if randomness.random() < 0.5},
            "clicked": randomness.choice([None, True, False]),
        }
        for _ in range(n)
    ]


def as_avro(schema: Any, event: Mapping[str, Any], number: int = 1) -> bytes:
    given = dict(event)
    if given.get("price") is not None:
        from decimal import Decimal

        given["price"] = Decimal(str(event["price"]))
    return avro_record(number, schema, given)


def as_json(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, default=datetime.isoformat).encode()


def decoded(encoding: str, values: list[bytes], *, step: int, of: Any = None, **schema: Any) -> Any:
    """The columns, X with those, and labels of events that are decoded so many at a time."""
    if of is not None:
        assert of.ready(values) == len(values)
    decoding = decoder(encoding, Schema(label="clicked", **schema), record_format=of)
    parts = [decoding.decode(values[i : i + step]) for i in range(0, len(values), step)]
    assert [part.bad for part in parts if part.bad] == []
    width = len(decoding.schema.columns)
    X = [np.pad(part.X, ((0, 0), (0, width - part.X.shape[1]))) for part in parts]
    return decoding, np.concatenate(X), [label for part in parts for label in part.y]


def known_then(found: Decoded) -> Any:
    """The rows, with nothing in the columns that came after them."""
    X = found.X.copy()
    for row, _ in reversed(found.growth):
        before = max((width for at, width in found.growth if at < row), default=0)
        X[:row, before:] = 0.0
    return X


def alike(one: Any, other: Any) -> None:
    assert one[0].schema == other[0].schema
    np.testing.assert_array_equal(one[1], other[1])
    assert one[2] == other[2]


# --- the same as JSON -----------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize("absent", ["zero", "missing"])
@pytest.mark.parametrize("ignore", [(), ("note", "user")])
@pytest.mark.parametrize(("schema", "make"), [(FLAT, flat_events), (DEEP, deep_events)])
def test_avro_gives_the_columns_of_json(
    step: int, absent: Any, ignore: tuple[str, ...], schema: Any, make: Any
) -> None:
    events = make(100)
    of, options = avro_format(schema), {"absent": absent, "ignore": ignore}
    expected = decoded("json", [as_json(event) for event in events], step=step, **options)
    values = [as_avro(schema, event) for event in events]
    alike(decoded("avro", values, step=step, of=of, **options), expected)
    framed_json = [framed(5, as_json(event)) for event in events]
    alike(decoded("json-schema", framed_json, step=step, **options), expected)


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Event {
  enum Device { PHONE = 0; TABLET = 1; DESKTOP = 2; }
  message User { optional int32 age = 1; string city = 2; }
  double size = 1;
  optional int64 count = 2;
  Device device = 3;
  google.protobuf.Timestamp at = 4;
  User user = 5;
  repeated string tags = 6;
  map<string, int32> counts = 7;
  optional bool clicked = 8;
}
"""


@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_protobuf_gives_the_columns_of_json(absent: Any) -> None:
    pytest.importorskip("grpc_tools", reason="protoc is not installed: streamk[schemas]")
    from google.protobuf import json_format
    from google.protobuf.message_factory import GetMessageClass

    store = Stored({1: PROTO})
    of = SchemaFormat(store, lambda schema: ProtobufSchema(schema.text))
    kind = GetMessageClass(ProtobufSchema(PROTO).message((0,)))
    names = {field.name for field in kind.DESCRIPTOR.fields}
    events = []
    for flat, deep in zip(flat_events(100), deep_events(100), strict=True):
        event = {name: value for name, value in {**flat, **deep}.items() if name in names}
        if event["user"] is not None:
            event["user"] = {k: v for k, v in event["user"].items() if v is not None}
        events.append({name: value for name, value in event.items() if value is not None})
    values = [json_format.ParseDict(json.loads(as_json(event)), kind()) for event in events]
    records = [framed(1, b"\0" + value.SerializeToString()) for value in values]
    for step in (9, 1000):
        expected = decoded("json", [as_json(event) for event in events], step=step, absent=absent)
        found = decoded("protobuf", records, step=step, of=of, absent=absent)
        assert set(found[0].schema.columns) == set(expected[0].schema.columns)
        order = [found[0].schema.columns.index(name) for name in expected[0].schema.columns]
        np.testing.assert_array_equal(found[1][:, order], expected[1])
        assert found[2] == expected[2]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_the_fast_way_gives_what_the_careful_way_does(absent: Any, seed: int) -> None:
    def refuse(_value: Any) -> Any:
        raise ValueError

    both = record_schema(("size", ["null", "double"]), ("note", ["string", "double"]))
    both["fields"].append({"name": "clicked", "type": ["null", "boolean"]})
    fewer = record_schema(("size", "double"), ("clicked", ["null", "boolean"]))
    values = [as_avro(FLAT, event) for event in flat_events(60)]
    values += [as_avro(DEEP, event, 2) for event in deep_events(60)]
    rare = record_schema(
        ("size", "double"),
        ("rare", ["null", "double"]),
        {"name": "seldom", "aliases": ["rare"], "type": ["null", "double"]},
        ("clicked", ["null", "boolean"]),
    )
    seldom = record_schema(
        {"name": "seldom", "aliases": ["rare"], "type": ["null", "double"]},
        ("clicked", ["null", "boolean"]),
    )
    of_rare = {"size": 1.0, "seldom": None, "clicked": True}
    nulls = [avro_record(5, rare, {**of_rare, "rare": None})] * 9
    nulls += [avro_record(6, seldom, {"seldom": None, "clicked": False})] * 9
    nulls += [avro_record(5, rare, {**of_rare, "rare": 2.0})]
    values += [
        avro_record(3, both, {"size": size, "note": note, "clicked": clicked})
        for size in (None, 1.0, 2.0)
        for note in ("x", 1.0, "7")
        for clicked in (None, True)
    ]
    values += [
        avro_record(4, fewer, {"size": float(i), "clicked": clicked})
        for i, clicked in enumerate((True, False, None, True))
    ]
    of = avro_format(FLAT, DEEP, both, fewer, rare, seldom)
    values += nulls
    random.Random(seed).shuffle(values)
    assert of.ready(values) == len(values)
    fast, careful = (
        decoder("avro", Schema(label="clicked", absent=absent), record_format=of) for _ in range(2)
    )
    careful._reading = lambda _names: (refuse, None)  # type: ignore[attr-defined]
    one, other = fast.decode(values), careful.decode(values)
    assert careful.schema == fast.schema
    np.testing.assert_array_equal(known_then(one), known_then(other))
    assert (one.y, one.growth, one.bad) == (other.y, other.growth, [])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.randoms())
def test_columns_do_not_depend_on_the_division_into_calls(
    kinds: list[int], randomness: random.Random
) -> None:
    size = {"name": "size", "type": ["null", "double", "string"]}
    small = {"name": "small", "aliases": ["size", "no.size"], "type": ["null", "double"]}
    clicked = ("clicked", ["null", "boolean"])
    inner = record_schema(small, name="Inner")
    schemas = [
        record_schema(size, clicked),
        record_schema(small, clicked),
        record_schema(clicked, {**small, "name": "tiny"}, size),
        record_schema({"name": "of", "aliases": ["no"], "type": ["null", inner]}, clicked),
        record_schema(("no", ["null", record_schema(size, name="Outer")]), clicked),
        record_schema(("at", ["null", AT]), ("small", ["null", "string"]), clicked),
    ]
    some = {
        "size": [None, 1.5, "x"],
        "small": [None, 2.5],
        "tiny": [None, 3.5],
        "of": [None, {"small": 4.5}, {"small": None}],
        "no": [None, {"size": 5.5}, {"size": None}],
        "at": [None, datetime(2024, 1, 1, tzinfo=UTC)],
        "clicked": [None, True, False],
    }
    of, values = avro_format(*schemas), []
    for kind in kinds:
        names = [field["name"] for field in schemas[kind - 1]["fields"]]
        event = {name: randomness.choice(some[name]) for name in names}
        if kind == 6 and event["small"] is not None:
            event["small"] = "y"
        values.append(avro_record(kind, schemas[kind - 1], event))
    assert of.ready(values) == len(values)
    found = []
    for step in (1, 3, len(values)):
        decoding = decoder("avro", Schema(label="clicked"), record_format=of)
        rows = []
        for i in range(0, len(values), step):
            width = len(decoding.schema.columns)
            out = decoding.decode(values[i : i + step])
            grown = dict(out.growth)
            for row, x in enumerate(out.X):
                width = grown.get(row, width)
                rows.append((x[:width].tolist(), out.y[row]))
        found.append((repr(rows), decoding.schema))
    assert found[0] == found[1] == found[2]


def test_most_events_go_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamk.encoding.named import NamedDecoder

    careful, read = [], NamedDecoder._careful

    def counted(self: Any, value: Any) -> Any:
        careful.append(value)
        return read(self, value)

    monkeypatch.setattr(NamedDecoder, "_careful", counted)
    nested = record_schema(
        ("size", "double"), ("user", USER), ("clicked", "boolean"), ("never", ["null", "string"])
    )
    of_all = {"size": 1.0, "clicked": True, "never": None}
    events = [{**of_all, "user": {"age": i, "city": "Ulm"}} for i in range(500)]
    decoded("avro", [as_avro(nested, e) for e in events], step=1000, of=avro_format(nested))
    plain = [framed(1, as_json({"a": i, "clicked": 1})) for i in range(500)]
    decoded("json-schema", plain, step=99)
    assert len(careful) < 5
    renamed = [changing()[0], *[changing()[2]] * 500]
    decoded("avro", renamed, step=99, of=avro_format(FIRST, SECOND))
    assert len(careful) < 5 + 99  # those of the first call, as a column came with them


# --- schemas change -------------------------------------------------------------------------------

FIRST = record_schema(("years", "int"), ("size", "float"), ("gone", "int"), ("clicked", "boolean"))
SECOND = record_schema(
    {"name": "age", "aliases": ["years"], "type": "double"},
    ("size", "double"),
    ("city", "string"),
    {"name": "hit", "aliases": ["clicked"], "type": "boolean"},
)


def changing() -> list[bytes]:
    first = {"years": 30, "size": 1.5, "gone": 4, "clicked": True}
    second = {"age": 31.5, "size": 2.5, "city": "Ulm", "hit": False}
    values = [avro_record(1, FIRST, first), avro_record(2, SECOND, second)]
    return [values[i] for i in (0, 0, 1, 0, 1, 1, 0)]


@pytest.mark.parametrize("step", [1, 2, 7])
def test_fields_are_added_dropped_renamed_and_promoted(step: int) -> None:
    decoding, X, y = decoded("avro", changing(), step=step, of=avro_format(FIRST, SECOND))
    assert decoding.schema.columns == ("gone", "size", "years", "city=Ulm")
    first, second = [4, 1.5, 30, 0], [0, 2.5, 31.5, 1]
    expected = [(first, second)[i] for i in (0, 0, 1, 0, 1, 1, 0)]
    np.testing.assert_array_equal(X, expected)
    assert y == [True, True, False, True, False, False, True]


def test_a_model_that_knows_the_former_name_goes_on_with_it() -> None:
    known, _, _ = decoded("avro", changing()[:2], step=7, of=avro_format(FIRST, SECOND))
    of = avro_format(FIRST, SECOND)
    value = changing()[2]
    of.ready([value])
    out = decoder("avro", known.schema, record_format=of).decode([value])
    np.testing.assert_array_equal(out.X, [[0, 2.5, 31.5, 1]])
    # Without such a model the new names are the only ones, but for the label's.
    decoding, _, y = decoded("avro", [value], step=7, of=of)
    assert decoding.schema.columns == ("age", "city=Ulm", "size")
    assert y == [False]
    strict, _, _ = decoded("avro", [changing()[0], value], step=7, of=of, ignore=("years", "city"))
    assert strict.schema.columns == ("gone", "size")


def test_keys_and_times_of_late_labels_have_former_names_too() -> None:
    of = avro_format(FIRST, SECOND)
    values = changing()
    of.ready(values)
    reading = FieldReader("avro", ("years", "clicked"), record_format=of)
    assert reading.many(values[1:4]) == [(30, True), (31.5, False), (30, True)]


# --- records that cannot be read ------------------------------------------------------------------

GOOD = as_avro(FLAT, flat_events(1)[0])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "bytes expected, not no value at all"),
        (b"", "0 bytes, but a frame with the id of a schema has 5"),
        (GOOD[:4], "4 bytes, but a frame"),
        (b"\1" + GOOD[1:], "the first byte is 1, not 0"),
        (b'{"size": 1}', "the first byte is 123, not 0"),
        (GOOD[:-1], "its 30 bytes do not fit"),
        (GOOD + b"\0", "1 bytes follow the record that its schema describes"),
        (b"\0\0\0\0\x09" + GOOD[5:], "schema 9 is unknown"),
        (b"\0\0\0\0\2" + GOOD[5:], "schema 2 cannot be used: it is not the schema of a record"),
        (b"\0\0\0\0\3" + b"\2", "schema 3 cannot be used: it is not JSON"),
    ],
)
def test_a_record_that_is_none_is_a_bad_event(value: Any, reason: str) -> None:
    of = avro_format(FLAT, "int")
    of._store[3] = "{"  # type: ignore[index]
    values = [GOOD, value, GOOD]
    assert of.ready(values) == 3
    for schema in (Schema(label="clicked"), decoded("avro", [GOOD], step=1, of=of)[0].schema):
        out = decoder("avro", schema, record_format=of).decode(values)
        assert [event.row for event in out.bad] == [1]
        assert out.bad[0].kind == "undecodable"
        assert out.bad[0].reason.removeprefix("undecodable: ").startswith(reason)
        assert out.good.tolist() == [0, 2]


@pytest.mark.parametrize("value", [None, b"", b"\1\0\0\0\1{}", b'{"a": 1}', b"\0\0\0\0\1{"])
def test_framed_json_that_is_none_is_a_bad_event(value: Any) -> None:
    good = framed(3, b'{"a": 1, "y": 2}')
    out = decoder("json-schema", Schema(label="y")).decode([good, good, value, good])
    assert [(event.row, event.kind) for event in out.bad] == [(2, "undecodable")]
    assert out.y == [2, 2, 2]


def test_values_without_a_column_are_of_the_wrong_type_and_too_long_records_oversized() -> None:
    kind = record_schema(("a", "bytes"), ("y", "int"))
    of = avro_format(kind)
    values = [
        avro_record(1, kind, {"a": b"x", "y": 1}),
        avro_record(1, kind, {"a": bytes(99), "y": 1}),
    ]
    of.ready(values)
    decoding = decoder("avro", Schema(label="y"), record_format=of, max_event_bytes=90)
    assert [(event.column, event.kind) for event in decoding.decode(values).bad] == [
        ("a", "wrong type"),
        (None, "oversized"),
    ]
    ignoring = decoder("avro", Schema(label="y", ignore=("a",)), record_format=of)
    assert ignoring.decode(values).y == [1, 1]


def test_records_need_the_format_of_their_source() -> None:
    with pytest.raises(BadRecord, match="records of avro need the format of their source"):
        decoder("avro", Schema())


@settings(deadline=None, max_examples=80)
@given(st.lists(st.binary(max_size=40) | st.just(GOOD) | st.none(), max_size=5), st.data())
def test_no_bytes_stop_the_decoder(values: list[Any], data: st.DataObject) -> None:
    of = avro_format(FLAT, DEEP)
    for i, value in enumerate(values):
        if value and value != GOOD and data.draw(st.booleans()):
            values[i] = framed(data.draw(st.integers(1, 2)), value)
    assert of.ready(values) == len(values)
    known = decoded("avro", [GOOD], step=1, of=of)[0].schema
    out = decoder("avro", known, record_format=of).decode(values)
    assert len(out.good) + len(out.bad) == len(values)
    assert len(out.good) >= values.count(GOOD)
    for event in out.bad:
        assert event.kind in ("undecodable", "wrong type", "inf", "duplicate column")
