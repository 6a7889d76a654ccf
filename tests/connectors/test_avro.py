"""Avro: the values of fastavro, names of fields, and bytes and schemas that lie."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import json
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_kit import avro_body, record_schema

from connectors.errors import BadRecord
from connectors.records import framed
from connectors.schemas.avro import AvroSchema

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=8),
    "string": st.text(st.characters(codec="utf-8"), max_size=8),
}

# --- as another implementation reads them ---------------------------------------------------------


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """A type, and values of it; names are those of its kinds."""
    kinds = ["plain", "enum", "fixed"] + (["array", "map", "union", "record"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "plain":
        name = draw(st.sampled_from(sorted(PLAIN)))
        return name, PLAIN[name]
    if kind == "enum":
        return {"type": "enum", "name": "E", "symbols": ["a", "b"]}, st.sampled_from("ab")
    if kind == "fixed":
        size = draw(st.integers(0, 3))
        fixed = {"type": "fixed", "name": "F", "size": size}
        return fixed, st.binary(min_size=size, max_size=size)
    if kind == "array":
        items, values = draw(schemas(0).filter(lambda one: takes_bytes(one[0])))
        return {"type": "array", "items": items}, st.lists(values, max_size=3)
    if kind == "map":
        items, values = draw(schemas(depth - 1))
        return {"type": "map", "values": items}, st.dictionaries(
            PLAIN["string"], values, max_size=3
        )
    if kind == "union":
        of, values = draw(schemas(0).filter(lambda one: one[0] != "null"))
        branches = draw(st.permutations(["null", of]))
        return list(branches), st.none() | values
    return draw(records(depth - 1))


@st.composite
def records(draw: st.DrawFn, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    fields = draw(st.lists(schemas(depth), min_size=1, max_size=5))
    names = [f"f{i}" for i in range(len(fields))]
    kind = record_schema(
        *((name, one) for name, (one, _) in zip(names, fields, strict=True)), name="R"
    )
    return kind, st.fixed_dictionaries(
        {name: values for name, (_, values) in zip(names, fields, strict=True)}
    )


def named(kind: Any, numbers: Iterator[int]) -> None:
    """Give records, enums and fixed types names of their own."""
    if isinstance(kind, list):
        for one in kind:
            named(one, numbers)
    elif isinstance(kind, dict):
        if "name" in kind and "type" in kind and not isinstance(kind["type"], dict | list):
            kind["name"] += str(next(numbers)) if kind["name"] in ("R", "E", "F") else ""
        for value in kind.values():
            if isinstance(value, dict | list):
                named(value, numbers)


def takes_bytes(kind: Any) -> bool:
    return kind != "null" and not (isinstance(kind, dict) and kind.get("size") == 0)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_values_are_those_that_another_implementation_reads(data: st.DataObject) -> None:
    kind, values = data.draw(records(3))
    kind = copy.deepcopy(kind)
    named(kind, itertools.count())
    event = data.draw(values)
    body = avro_body(kind, event)
    expected = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(kind), None)
    schema = AvroSchema(json.dumps(kind))
    assert schema.read(framed(1, body)) == expected
    for end in range(len(body)):
        with pytest.raises(BadRecord):
            schema.read(framed(1, body[:end]))
    with pytest.raises(BadRecord, match="1 bytes stand behind"):
        schema.read(framed(1, body + b"\0"))


def test_blocks_of_arrays_and_maps_may_have_their_size() -> None:
    kind = record_schema(("a", {"type": "array", "items": "int"}))
    body = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\0"  # two items in 2 bytes, one, none
    assert AvroSchema(json.dumps(kind)).read(framed(1, body)) == {"a": [1, 2, 3]}


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


@settings(deadline=None, max_examples=400)
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
    with pytest.raises(BadRecord, match=r"not what its schema describes|not UTF-8"):
        schema.read(framed(1, body))


def test_types_inside_themselves_go_no_deeper_than_so_many_levels() -> None:
    chain = AvroSchema(json.dumps(record_schema(("next", ["null", "L"]), name="L")))
    assert chain.read(framed(1, b"\2" * 50 + b"\0"))
    for depth in (100, 100_000):
        with pytest.raises(BadRecord, match="nested deeper than 64"):
            chain.read(framed(1, b"\2" * depth + b"\0"))
    endless = AvroSchema(json.dumps(record_schema(("self", "L"), name="L")))
    with pytest.raises(BadRecord, match="nested deeper than 64"):
        endless.read(framed(1, b""))
    many = AvroSchema(json.dumps(record_schema(("all", {"type": "array", "items": "L"}), name="L")))
    with pytest.raises(BadRecord, match="nested deeper than 64"):
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
        ('{"type": "array"}', "no schema of Avro"),
        (of('["null", ["int"]]'), "a union is a branch"),
        (of('{"type": "enum", "name": "E"}'), "no schema of Avro"),
        (of('{"type": "fixed", "name": "F", "size": -1}'), "has no size"),
        (of('{"type": "array", "items": "null"}'), "items that take no bytes"),
        ('"missing.Type"', "no type 'missing.Type'"),
        ("[" * 100_000, "nested deeper"),
        (of('{"type": "map", "values":' * 100 + '"int"' + "}" * 100), "nested deeper than 64"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_its_reason(schema: str, complaint: str) -> None:
    with pytest.raises(BadRecord, match=complaint):
        AvroSchema(schema)


def test_a_schema_whose_types_multiply_is_refused() -> None:
    kind: Any = "int"
    references = {}
    for level in range(20):
        name = f"L{level}"
        fields = [{"name": f"f{i}", "aliases": ["x"], "type": kind} for i in range(4)]
        references[name] = json.dumps(record_schema(*fields, name=name))
        kind = name
    text = references.pop("L19")
    with pytest.raises(BadRecord, match="more than 20000 types"):
        AvroSchema(text, references)
