"""Avro: the values of fastavro, names of fields, and bytes and schemas that lie."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_kit import avro_body, record_schema

from connectors.errors import BadRecord
from connectors.records import framed
from connectors.schemas.avro import AvroSchema

NESTED = record_schema(
    ("nothing", "null"),
    *((name, name) for name in ("boolean", "int", "long", "float", "double", "bytes", "string")),
    ("enum", {"type": "enum", "name": "E", "symbols": ["a", "b"]}),
    ("fixed", {"type": "fixed", "name": "F", "size": 3}),
    ("maybe", ["null", "E"]),
    ("either", ["int", "null", "string", {"type": "array", "items": "F"}]),
    ("list", {"type": "array", "items": record_schema(("a", "int"), ("e", "E"), name="Item")}),
    ("table", {"type": "map", "values": {"type": "map", "values": "Item"}}),
    ("inner", record_schema(("deeper", record_schema(("i", "Item"), name="Deep")), name="Inner")),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "nothing": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=8),
    "string": st.text(st.characters(codec="utf-8"), max_size=8),
    "enum": st.sampled_from("ab"),
    "fixed": st.binary(min_size=3, max_size=3),
}
ITEM = st.fixed_dictionaries({"a": VALUES["int"], "e": VALUES["enum"]})
EVENTS = st.fixed_dictionaries(
    {
        **VALUES,
        "maybe": st.none() | VALUES["enum"],
        "either": VALUES["int"] | st.none() | VALUES["string"] | st.lists(VALUES["fixed"]),
        "list": st.lists(ITEM, max_size=3),
        "table": st.dictionaries(st.text(max_size=2), st.dictionaries(st.text(max_size=2), ITEM)),
        "inner": st.fixed_dictionaries({"deeper": st.fixed_dictionaries({"i": ITEM})}),
    }
)


@settings(deadline=None, max_examples=25)
@given(EVENTS)
def test_values_are_those_that_were_written(event: dict[str, Any]) -> None:
    body = avro_body(NESTED, event)
    schema = AvroSchema(json.dumps(NESTED))
    assert schema.read(framed(1, body)) == event
    for end in range(len(body)):
        with pytest.raises(BadRecord):
            schema.read(framed(1, body[:end]))
    with pytest.raises(BadRecord, match="1 bytes follow"):
        schema.read(framed(1, body + b"\0"))


def test_named_types_are_found_in_their_namespaces_and_in_references() -> None:
    size = record_schema(("w", "int"), name="Size") | {"namespace": "shop.parts"}
    item = record_schema(("size", "parts.Size"), ("other", "Inner"), name="Item")
    item["fields"][0]["type"] = "shop.parts.Size"
    item["namespace"] = "shop"
    inner = {"type": "enum", "name": "Inner", "namespace": "shop", "symbols": ["x", "y"]}
    schema = AvroSchema(json.dumps(item), {"size": json.dumps(size), "inner": json.dumps(inner)})
    assert schema.read(framed(1, b"\x04\x02")) == {"size": {"w": 2}, "other": "y"}
    with pytest.raises(BadRecord, match=r"no type 'shop.parts.Size'.*reference"):
        AvroSchema(json.dumps(item))


# --- logical types --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "logical", "raw", "expected"),
    [
        (
            "bytes",
            {"logicalType": "decimal", "precision": 9, "scale": 2},
            b"\x04\xd2",
            Decimal("12.34"),
        ),
        (
            "bytes",
            {"logicalType": "decimal", "precision": 9, "scale": 2},
            b"\xff",
            Decimal("-0.01"),
        ),
        ("bytes", {"logicalType": "decimal", "precision": 9, "scale": -1}, b"\x01", b"\x01"),
        ("int", {"logicalType": "date"}, 59, date(1970, 3, 1)),
        ("int", {"logicalType": "date"}, 2**31 - 1, np.datetime64(2**31 - 1, "D")),
        ("int", {"logicalType": "time-millis"}, 1500, 1.5),
        (
            "long",
            {"logicalType": "timestamp-millis"},
            -1,
            datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        ),
        ("long", {"logicalType": "timestamp-micros"}, 7, datetime(1970, 1, 1, 0, 0, 0, 7, UTC)),
        ("long", {"logicalType": "timestamp-nanos"}, 7999, datetime(1970, 1, 1, 0, 0, 0, 7, UTC)),
        ("long", {"logicalType": "local-timestamp-millis"}, 5, datetime(1970, 1, 1, 0, 0, 0, 5000)),
        ("int", {"logicalType": "date"}, -(2**31), np.datetime64(-(2**31), "D")),
        ("long", {"logicalType": "timestamp-millis"}, 2**62, np.datetime64(2**62 // 1000, "s")),
        ("string", {"logicalType": "uuid"}, "1-2-3", "1-2-3"),
        ("long", {"logicalType": "of-tomorrow"}, 3, 3),
    ],
)
def test_logical_types(plain: str, logical: dict[str, Any], raw: Any, expected: Any) -> None:
    schema = AvroSchema(json.dumps(record_schema(("a", {"type": plain, **logical}))))
    body = avro_body(record_schema(("a", plain)), {"a": raw})
    found = schema.read(framed(1, body))["a"]
    assert found == expected
    assert type(found) is type(expected)


# --- names that fields had before -----------------------------------------------------------------


def renaming(kind: Any, *names: str) -> dict[str, Any]:
    """The names, with the values by which they are told apart."""
    schema = AvroSchema(json.dumps(kind))
    assert schema.has_aliases
    return schema.renamed(frozenset(names)).read(framed(1, b"\x02\x04"))


AGE = {"name": "age", "aliases": ["years", "old"], "type": "int"}


def test_a_field_takes_a_former_name_that_is_known_and_not_its_own() -> None:
    kind = record_schema(AGE, ("size", "int"))
    assert renaming(kind) == {"age": 1, "size": 2}
    assert renaming(kind, "old") == {"old": 1, "size": 2}
    assert renaming(kind, "old", "years") == {"years": 1, "size": 2}
    assert renaming(kind, "old", "age") == {"age": 1, "size": 2}
    assert renaming(kind, "old", "size") == {"old": 1, "size": 2}
    # A former name that another field has now is not free.
    assert renaming(record_schema(AGE, ("old", "int")), "old") == {"age": 1, "old": 2}
    both = record_schema(AGE, {**AGE, "name": "more"})
    assert renaming(both, "old") == {"old": 1, "more": 2}


def test_names_that_are_all_known_do_not_change_any_more() -> None:
    schema = AvroSchema(json.dumps(record_schema(AGE, ("size", "int"))))
    known = {
        names: schema.renamed(frozenset(names.split())).is_settled
        for names in ("", "size", "old", "old size", "age", "age old")
    }
    assert [names for names, settled in known.items() if settled] == ["age", "age old"]


def test_names_are_known_by_their_place() -> None:
    inner = record_schema(AGE, name="User")
    kind = record_schema({"name": "user", "aliases": ["person"], "type": inner}, ("old", "int"))
    assert renaming(kind, "old") == {"user": {"age": 1}, "old": 2}
    assert renaming(kind, "user.old") == {"user": {"old": 1}, "old": 2}
    assert renaming(kind, "person.old") == {"person": {"old": 1}, "old": 2}
    assert renaming(kind, "person.size") == {"person": {"age": 1}, "old": 2}


def test_the_schema_of_the_reader_gives_names_that_fields_got_later() -> None:
    old = record_schema(("years", "int"), ("user", record_schema(("old", "int"), name="U")))
    inner = record_schema(AGE, name="U")
    new = record_schema(
        {"name": "count", "aliases": ["years"], "type": "int"},
        {"name": "person", "aliases": ["user"], "type": ["null", inner]},
        ("added", "int"),
    )
    reader = AvroSchema(json.dumps(new))
    found = AvroSchema(json.dumps(old), reader=reader)
    assert found.read(framed(1, b"\2\4")) == {"count": 1, "person": {"age": 2}}
    # What the reader calls otherwise may have been a column under a third name.
    third = record_schema({"name": "years", "aliases": ["number"], "type": "int"}, ("b", "int"))
    both = AvroSchema(json.dumps(third), reader=reader)
    for names, name in (("", "count"), ("number", "number"), ("number count", "count")):
        renamed = both.renamed(frozenset(names.split()))
        assert renamed.read(framed(1, b"\2\4")) == {name: 1, "b": 2}
    # A name that another field of the record has is not free.
    taken = AvroSchema(json.dumps(record_schema(("years", "int"), ("count", "int"))), reader=reader)
    assert taken.read(framed(1, b"\2\4")) == {"years": 1, "count": 2}


# --- bytes that lie -------------------------------------------------------------------------------

TREE = record_schema(
    ("value", "int"),
    ("children", {"type": "array", "items": "Tree"}),
    ("next", ["null", "Tree"]),
    name="Tree",
)
WIDE = record_schema(
    ("texts", {"type": "array", "items": "string"}),
    ("table", {"type": "map", "values": {"type": "array", "items": "boolean"}}),
    ("blob", ["null", "bytes", {"type": "enum", "name": "E", "symbols": ["x"]}]),
    ("tree", TREE),
    ("price", {"type": "bytes", "logicalType": "decimal", "scale": 3}),
    ("at", {"type": "long", "logicalType": "timestamp-nanos"}),
)


@settings(deadline=None, max_examples=150)
@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from([b"\0", b"\2", b"\xfe\xff\xff\xff\x0f", b"\3", b"\4a"])).map(
        b"".join
    )
)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for kind in (TREE, WIDE):
        schema = AvroSchema(json.dumps(kind))
        with contextlib.suppress(BadRecord):
            assert isinstance(schema.read(framed(1, body)), dict)


def long(number: int) -> bytes:
    return avro_body("long", number)


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("string", long(2**40) + b"abc"),
        ("string", long(-1) + b"abc"),
        ("string", long(2) + b"\xff\xfe"),
        ("bytes", long(2**62)),
        ({"type": "int", "logicalType": "date"}, b"\xff" * 9),
        ({"type": "array", "items": "int"}, long(2**40)),
        ({"type": "array", "items": "int"}, long(-(2**40)) + long(0)),
        ({"type": "map", "values": "null"}, long(2**40)),
        (["null", "int"], long(2)),
        (["null", "int"], long(-3)),
        ({"type": "enum", "name": "E", "symbols": ["x"]}, long(1)),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc"),
        ("double", bytes(7)),
    ],
)
def test_what_a_record_says_of_itself_is_not_believed(field: Any, body: bytes) -> None:
    schema = AvroSchema(json.dumps(record_schema(("a", field))))
    with pytest.raises(BadRecord, match=r"do not fit its schema|not UTF-8"):
        schema.read(framed(1, body))


def test_types_inside_themselves_go_no_deeper_than_so_many_levels() -> None:
    chain = AvroSchema(json.dumps(record_schema(("next", ["null", "L"]), name="L")))
    assert chain.read(framed(1, b"\2" * 60 + b"\0"))
    for depth in (65, 100_000):
        with pytest.raises(BadRecord, match="nested deeper than 128"):
            chain.read(framed(1, b"\2" * depth + b"\0"))
    endless = AvroSchema(json.dumps(record_schema(("self", "L"), name="L")))
    with pytest.raises(BadRecord, match="nested deeper than 128"):
        endless.read(framed(1, b""))
    many = AvroSchema(json.dumps(record_schema(("all", {"type": "array", "items": "L"}), name="L")))
    with pytest.raises(BadRecord, match="nested deeper than 128"):
        many.read(framed(1, b"\2" * 1000))


@pytest.mark.parametrize(
    ("field", "item"),
    [
        ({"type": "array", "items": record_schema(("a", "boolean"), name="B")}, b"\0"),
        ({"type": "map", "values": "null"}, b"\0"),
    ],
)
def test_memory_is_of_the_order_of_the_record(field: Any, item: bytes) -> None:
    schema = AvroSchema(json.dumps(record_schema(("a", field))))
    n = 50_000
    value = framed(1, long(n) + item * n + b"\0")
    tracemalloc.start()
    try:
        assert schema.read(value)
        assert tracemalloc.get_traced_memory()[1] < 300 * len(value)
    finally:
        tracemalloc.stop()


# --- schemas that are none ------------------------------------------------------------------------


def of(kind: str) -> str:
    """The schema of a record with a field of a type."""
    return f'{{"type": "record", "name": "R", "fields": [{{"name": "a", "type": {kind}}}]}}'


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("{", "not JSON"),
        ('"int"', "not the schema of a record"),
        ('{"type": "record", "fields": []}', '"name" is a required field'),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "'a' is missing 'type'"),
        ('{"type": "array"}', "not an Avro schema"),
        (of('["null", ["int"]]'), "a union is a branch"),
        (of('{"type": "enum", "name": "E"}'), "not an Avro schema"),
        (of('{"type": "fixed", "name": "F", "size": -1}'), "has no size"),
        (of('{"type": "array", "items": "null"}'), "items that take no bytes"),
        (of('{"type": "array", "items": {"type": "null", "a": 1}}'), "items that take no bytes"),
        (
            of(f'{{"type": "array", "items": {json.dumps(record_schema(("n", "null")))}}}'),
            "items that take no bytes",
        ),
        ('"missing.Type"', "no type 'missing.Type'"),
        ("[" * 100_000, "nested deeper"),
        (of('{"type": "map", "values":' * 2000 + '"int"' + "}" * 2000), "nested deeper"),
        (of('{"type": 7}'), "not an Avro schema|no type"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_its_reason(schema: str, complaint: str) -> None:
    with pytest.raises(BadRecord, match=complaint):
        AvroSchema(schema)


def test_a_schema_with_oddities_is_read() -> None:
    """Defaults of another type, types in objects of their own, and names that are none in Java."""
    kind = record_schema(
        {"name": "x-y", "type": "int", "default": "x"},
        ("b", {"type": {"type": "array", "items": "int"}}),
        ("c", {"type": ["null", "int"]}),
    )
    assert AvroSchema(json.dumps(kind)).read(framed(1, b"\2\2\4\0\0")) == {
        "x-y": 1,
        "b": [2],
        "c": None,
    }


def test_a_schema_whose_types_multiply_is_refused() -> None:
    kind: Any = "int"
    references = {}
    for level in range(20):
        name = f"L{level}"
        fields = [{"name": f"f{i}", "aliases": ["x"], "type": kind} for i in range(4)]
        references[name] = json.dumps(record_schema(*fields, name=name))
        kind = name
    text = references.pop("L19")
    schema = AvroSchema(text, references)
    with pytest.raises(BadRecord, match="more than 100000 types"):
        schema.renamed(frozenset({"x"}))
