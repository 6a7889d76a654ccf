"""A value means the same, as a feature, as a label and as a key, whatever way it comes in.

The table below is that of docs/streams.md. Each value is given by all ways in that can hold it, to
a model that knows nothing yet, to one whose field has held texts, and to one whose field has held
numbers.
"""

from __future__ import annotations

import decimal
import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from schema_kit import Stored, avro_format, avro_record, record_schema

from connectors.records import RecordFormat, framed
from connectors.registry import open_source
from connectors.schemas.formats import SchemaFormat
from connectors.schemas.protobuf import ProtobufSchema
from streamk.adapters.batches import as_frame
from streamk.adapters.rows import Model
from streamk.encoding import (
    ColumnTable,
    FieldReader,
    LabelReader,
    Rejected,
    Schema,
    alone,
    decoder,
    key_of,
)
from streamk.encoding.values import MISSING, Moment, is_odd, parse_number, plain, prevail, text_of
from streamk.errors import InvalidInput
from streamk.learners import create

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
pytest.importorskip("grpc_tools", reason="protoc is not installed: streamk[schemas]")

Outcome = Any
"""Columns with their numbers, a label, a key, or the kind of what is wrong."""
TIME = "a time"
"""In the place of the seven columns of a time."""


@dataclass
class Value:
    """A value: how it is written, and what it is by then."""

    name: str
    new: Outcome
    """The columns of field "c" in its first event."""
    among_texts: Outcome
    label: Outcome
    quantity: Outcome
    key: Outcome
    objects: list[Any] = field(default_factory=list)
    """Of Python, NumPy and pandas."""
    csv: list[str] = field(default_factory=list)
    arrow: list[Any] = field(default_factory=list)
    """Arrays of one."""
    avro: list[tuple[Any, Any]] = field(default_factory=list)
    proto: list[tuple[str, Any]] = field(default_factory=list)
    among_numbers: Outcome = "as new"


class Colour(StrEnum):
    red = "red"


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
WHOLE = {**DECIMAL, "scale": 0}
PROTO_DECIMAL = "confluent.type.Decimal"
D = decimal.Decimal
NOT_A_CLASS, NOT_A_NUMBER = "label out of domain", "label out of domain"
ID, BEYOND = 2**53 + 1, 2**64 + 1

VALUES = [
    Value(
        "true", {"c": 1.0}, {"c=true": 1.0}, True, NOT_A_NUMBER, "true",
        objects=[True, np.True_, "true", "True", "TRUE"],
        csv=["true", "True", "TRUE"],
        arrow=[pa.array([True]), pa.array(["True"])],
        avro=[("boolean", True), ("string", "TRUE")],
        proto=[("bool", True), ("string", "true"), ("google.protobuf.Value", True)],
    ),
    Value(
        "false", {"c": 0.0}, {"c=false": 1.0}, False, NOT_A_NUMBER, "false",
        objects=[False, np.False_, "false", "False", "FALSE"],
        csv=["false", "False", "FALSE"],
        arrow=[pa.array([False])],
        avro=[("boolean", False)],
        proto=[("bool", False)],
    ),
    Value(
        "a whole number", {"c": 7.0}, {"c=7": 1.0}, 7, 7.0, "7",
        objects=[7, np.int8(7), np.uint64(7), D(7), D("7.00"), "7"],
        csv=["7"],
        arrow=[pa.array([7]), pa.array([D("7.00")]), pa.array([7], pa.uint8()), pa.array(["7"])],
        avro=[("int", 7), ("long", 7), (DECIMAL, D("7.00")), ("string", "7")],
        proto=[("int32", 7), ("uint64", 7), ("string", "7"), (PROTO_DECIMAL, (700, 2))],
    ),
    Value(
        "a whole number with a point", {"c": 7.0}, {"c=7.0": 1.0}, 7, 7.0, "7",
        objects=[7.0, np.float32(7), "7.0", np.array(7.0)],
        csv=["7.0"],
        arrow=[pa.array([7.0]), pa.array([7.0], pa.float32())],
        avro=[("double", 7.0), ("float", 7.0)],
        proto=[("double", 7.0), ("float", 7.0), ("google.protobuf.Value", 7.0)],
    ),
    Value(
        "a fraction", {"c": -2.5}, {"c=-2.5": 1.0}, NOT_A_CLASS, -2.5, "-2.5",
        objects=[-2.5, np.float64(-2.5), D("-2.5"), Fraction(-5, 2), "-2.5"],
        csv=["-2.5"],
        arrow=[pa.array([-2.5]), pa.array([D("-2.50")]), pa.array([-2.5], pa.float16())],
        avro=[("double", -2.5), (DECIMAL, D("-2.50"))],
        proto=[("double", -2.5), (PROTO_DECIMAL, (-250, 2))],
    ),
    Value(
        "thousands", {"c": 2441.61}, {"c=2,441.61": 1.0}, NOT_A_CLASS, 2441.61, "2,441.61",
        objects=["2,441.61"], csv=['"2,441.61"'], arrow=[pa.array(["2,441.61"])],
        avro=[("string", "2,441.61")], proto=[("string", "2,441.61")],
    ),
    Value(
        "an id of 16 digits", {f"c={ID}": 1.0}, {f"c={ID}": 1.0}, ID, float(ID), str(ID),
        objects=[ID, np.int64(ID), np.uint64(ID), D(ID), str(ID)],
        csv=[str(ID)],
        arrow=[pa.array([ID]), pa.array([ID], pa.uint64()), pa.array([D(ID)])],
        avro=[("long", ID), (WHOLE, D(ID)), ("string", str(ID))],
        proto=[("int64", ID), ("uint64", ID), ("fixed64", ID), (PROTO_DECIMAL, (ID, 0))],
    ),
    Value(
        "the largest of 64 bits", {f"c={2**64 - 1}": 1.0}, {f"c={2**64 - 1}": 1.0},
        2**64 - 1, NOT_A_NUMBER, str(2**64 - 1),
        objects=[2**64 - 1, np.uint64(2**64 - 1), D(2**64 - 1), str(2**64 - 1)],
        csv=[str(2**64 - 1)],
        arrow=[pa.array([2**64 - 1], pa.uint64()), pa.array([D(2**64 - 1)])],
        avro=[(WHOLE, D(2**64 - 1))],
        proto=[("uint64", 2**64 - 1)],
    ),
    Value(
        "more than 64 bits", {f"c={BEYOND}": 1.0}, {f"c={BEYOND}": 1.0}, str(BEYOND),
        NOT_A_NUMBER, str(BEYOND),
        objects=[BEYOND, D(BEYOND), str(BEYOND)],
        csv=[str(BEYOND)],
        arrow=[pa.array([D(BEYOND)])],
        avro=[(WHOLE, D(BEYOND))],
        proto=[("string", str(BEYOND)), (PROTO_DECIMAL, (BEYOND, 0))],
    ),
    Value(
        "an id with zeros in front", {"c": 7.0}, {"c=007": 1.0}, "007", 7.0, "007",
        objects=["007"], csv=["007"], arrow=[pa.array(["007"])],
        avro=[("string", "007")], proto=[("string", "007")],
    ),
    Value(
        "a commit", {"c": 12e45}, {"c=12e45": 1.0}, "12e45", NOT_A_NUMBER, "12e45",
        objects=["12e45"], csv=["12e45"], arrow=[pa.array(["12e45"])],
        avro=[("string", "12e45")], proto=[("string", "12e45")],
    ),
    Value(
        "a commit past the range", {"c=464e235": 1.0}, {"c=464e235": 1.0}, "464e235",
        NOT_A_NUMBER, "464e235", among_numbers="inf",
        objects=["464e235"], csv=["464e235"], arrow=[pa.array(["464e235"])],
        avro=[("string", "464e235")], proto=[("string", "464e235")],
    ),
    Value(
        "a name that is Infinity", {"c=Infinity": 1.0}, {"c=Infinity": 1.0}, "Infinity",
        "inf", "Infinity", among_numbers="inf",
        objects=["Infinity"], csv=["Infinity"], arrow=[pa.array(["Infinity"])],
        avro=[("string", "Infinity")], proto=[("string", "Infinity")],
    ),
    Value(
        "a name that is Nan", {"c=Nan": 1.0}, {"c=Nan": 1.0}, "Nan", None, "Nan",
        among_numbers={"c": math.nan},
        objects=["Nan"], csv=["Nan"], arrow=[pa.array(["Nan"])],
        avro=[("string", "Nan")], proto=[("string", "Nan")],
    ),
    Value(
        "an infinite number", "inf", "inf", "inf", "inf", "key missing",
        objects=[math.inf, np.float32(np.inf), D("Infinity")],
        arrow=[pa.array([math.inf])],
        avro=[("double", math.inf)],
        proto=[("double", math.inf)],
    ),
    Value(
        "a text", {"c=red": 1.0}, {"c=red": 1.0}, "red", NOT_A_NUMBER, "red",
        objects=["red", np.str_("red"), Colour.red],
        csv=["red", '"red"'],
        arrow=[pa.array(["red"]), pa.array(["red"], pa.large_string()),
               pa.array(["red"]).dictionary_encode()],
        avro=[("string", "red"), ({"type": "enum", "name": "C", "symbols": ["red"]}, "red")],
        proto=[("string", "red")],
    ),
    Value(
        "missing", {"c": math.nan}, {"c": math.nan}, None, None, "key missing",
        objects=[None, math.nan, np.float32(np.nan), D("NaN"), pd.NA, pd.NaT,
                 np.datetime64("NaT"), *MISSING],
        csv=[text for text in MISSING if text],
        arrow=[pa.nulls(1), pa.array([None], pa.int64()), pa.array([math.nan]),
               pa.array([None], pa.timestamp("us")), pa.array(["NA"])],
        avro=[(["null", "double"], None), ("double", math.nan), ("string", "null")],
        proto=[("double", math.nan), ("string", "N/A"), ("google.protobuf.Value", None)],
    ),
    Value(
        "a date", TIME, {"c=2024-02-29": 1.0}, "2024-02-29", NOT_A_NUMBER, "2024-02-29",
        objects=["2024-02-29", date(2024, 2, 29)],
        csv=["2024-02-29"],
        arrow=[pa.array([date(2024, 2, 29)]), pa.array(["2024-02-29"])],
        avro=[({"type": "int", "logicalType": "date"}, date(2024, 2, 29))],
        proto=[("string", "2024-02-29")],
    ),
    Value(
        "a time", TIME, {"c=2024-02-29T18:30:00": 1.0}, "2024-02-29T18:30:00", NOT_A_NUMBER,
        "2024-02-29T18:30:00",
        objects=["2024-02-29T18:30:00", datetime(2024, 2, 29, 18, 30),
                 np.datetime64("2024-02-29T18:30"), pd.Timestamp("2024-02-29 18:30")],
        csv=["2024-02-29T18:30:00"],
        arrow=[pa.array([datetime(2024, 2, 29, 18, 30)], pa.timestamp(unit))
               for unit in ("s", "ms", "us", "ns")],
        avro=[({"type": "long", "logicalType": "local-timestamp-millis"},
               datetime(2024, 2, 29, 18, 30))],
        proto=[("string", "2024-02-29T18:30:00")],
    ),
    Value(
        "a time of day", {"c": 45030.5}, "?", "?", 45030.5, "?",
        objects=[time(12, 30, 30, 500_000), "12:30:30.5", timedelta(seconds=45030.5),
                 np.timedelta64(45_030_500, "ms"), pd.Timedelta(45030.5, "s")],
        csv=["12:30:30.5"],
        arrow=[pa.array([time(12, 30, 30, 500_000)]), pa.array([45_030_500], pa.time32("ms")),
               pa.array([timedelta(seconds=45030.5)])],
        avro=[({"type": "int", "logicalType": "time-millis"}, time(12, 30, 30, 500_000)),
              ({"type": "long", "logicalType": "time-micros"}, time(12, 30, 30, 500_000))],
        proto=[("google.protobuf.Duration", timedelta(seconds=45030.5))],
    ),
    Value(
        "an id of 32 digits", *({"c=6ba7b810-9dad-11d1-80b4-00c04fd430c8": 1.0},) * 2,
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8", NOT_A_NUMBER,
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        objects=[uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")],
        csv=["6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
        avro=[({"type": "string", "logicalType": "uuid"},
               uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))],
    ),
    Value(
        "a list of texts", {"c=7": 1.0, "c=a": 2.0}, {"c=7": 1.0, "c=a": 2.0}, NOT_A_CLASS,
        NOT_A_NUMBER, "key missing",
        objects=[["a", "7", "a"], ("a", "7", "a"), np.array(["a", "7", "a"]), ["a", 7, "a", None],
                 ["a", "7", "NA", "a"]],
        arrow=[pa.array([["a", "7", "a"]])],
        avro=[({"type": "array", "items": "string"}, ["a", "7", "a"])],
        proto=[("repeated string", ["a", "7", "a"])],
    ),
    Value(
        "a list of fractions", *({"c.0": 0.5, "c.1": 2.0},) * 2, NOT_A_CLASS, NOT_A_NUMBER,
        "key missing",
        objects=[[0.5, 2.0], (0.5, 2), np.array([0.5, 2.0]), [D("0.5"), D(2)]],
        arrow=[pa.array([[0.5, 2.0]]), pa.array([[0.5, 2.0]], pa.list_(pa.float32(), 2))],
        avro=[({"type": "array", "items": "double"}, [0.5, 2.0])],
        proto=[("repeated double", [0.5, 2.0])],
    ),
    Value(
        "an object", *({"c.a": 1.0, "c.b=x": 1.0},) * 2, NOT_A_CLASS, NOT_A_NUMBER,
        "key missing",
        objects=[{"a": 1, "b": "x"}],
        arrow=[pa.array([{"a": 1, "b": "x"}])],
        avro=[(record_schema(("a", "int"), ("b", "string"), name="C"), {"a": 1, "b": "x"})],
    ),
    Value(
        "a map", *({"c.a": 1.0, "c.b": 2.0},) * 2, NOT_A_CLASS, NOT_A_NUMBER, "key missing",
        objects=[{"a": 1, "b": 2}],
        arrow=[pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64()))],
        avro=[({"type": "map", "values": "int"}, {"a": 1, "b": 2})],
        proto=[("map<string, int32>", {"a": 1, "b": 2})],
    ),
    Value(
        "a long text", "shared", "shared", "x" * 200 + "…", NOT_A_NUMBER, "x" * 200 + "…",
        objects=["x" * 900], csv=["x" * 900], arrow=[pa.array(["x" * 900])],
        avro=[("string", "x" * 900)], proto=[("string", "x" * 900)],
    ),
]  # fmt: skip


# --- the ways in ----------------------------------------------------------------------------------


@dataclass
class Given:
    """A raw event whose field has the value, and what reads it."""

    way: str
    encoding: str
    raw: Any
    fields: tuple[str, ...] | None = None
    record_format: RecordFormat | None = None


def _as_json(value: Any) -> str | None:
    try:
        return json.dumps(value)
    except TypeError:
        return None


@cache
def _message_of(kind: str, name: str) -> tuple[RecordFormat, Any]:
    """The format of records of one field, and the class that writes them."""
    from google.protobuf.message_factory import GetMessageClass

    imports = "".join(
        f'import "{file}";\n'
        for file, word in (
            ("google/protobuf/struct.proto", "protobuf.Value"),
            ("google/protobuf/duration.proto", "Duration"),
            ("confluent/type/decimal.proto", "Decimal"),
        )
        if word in kind
    )
    text = f'syntax = "proto3";\n{imports}message E {{ {kind} {name} = 1; }}'
    compiled = ProtobufSchema(text)
    of = SchemaFormat(Stored({1: text}), lambda _schema: compiled)
    return of, GetMessageClass(compiled.message((0,)))


def _protobuf(kind: str, value: Any, name: str) -> tuple[RecordFormat, bytes]:
    of, message_class = _message_of(kind, name)
    message = message_class()
    held = getattr(message, name)
    if kind == PROTO_DECIMAL:
        held.value = value[0].to_bytes(12, "big", signed=True)
        held.scale = value[1]
    elif kind == "google.protobuf.Duration":
        held.FromTimedelta(value)
    elif kind == "google.protobuf.Value":
        if value is None:
            held.null_value = 0
        else:
            setattr(held, "bool_value" if isinstance(value, bool) else "number_value", value)
    elif kind.startswith("map"):
        held.update(value)
    elif kind.startswith("repeated"):
        held.extend(value)
    else:
        setattr(message, name, value)
    return of, framed(1, b"\0" + message.SerializeToString())


def given_by(value: Value, name: str, folder: Path) -> Iterator[Given]:
    """Yield the value in a field, by each way that can hold it."""
    for one in value.objects:
        yield Given(f"dict, {one!r}", "dict", {name: one})
        text = _as_json(one)
        if text is not None:
            raw = f'{{"{name}": {text}}}'.encode()
            yield Given(f"JSON, {text}", "json", raw)
            yield Given(f"JSON Schema, {text}", "json-schema", framed(3, raw))
    for cell in value.csv:
        yield Given(f"CSV, {cell}", "csv", f"{cell},".encode(), fields=(name, "other"))
    for array in value.arrow:
        path = folder / "one.parquet"
        pq.write_table(pa.table({name: array}), path)
        source = open_source(f"parquet:{path}")
        [chunk] = source.poll(1, 0.0)
        source.close()
        yield Given(f"Parquet, {array.type}", "dict", chunk.values[0])
    for kind, held in value.avro:
        schema = record_schema((name, kind))
        of = avro_format(schema)
        record = avro_record(1, schema, {name: held})
        assert of.ready([record]) == 1
        yield Given(f"Avro, {kind}", "avro", record, record_format=of)
    for kind, held in value.proto:
        of, record = _protobuf(kind, held, name)
        assert of.ready([record]) == 1
        yield Given(f"Protobuf, {kind}", "protobuf", record, record_format=of)


def frames_of(value: Value) -> Iterator[tuple[str, Any]]:
    """Yield frames of one row, in column "c", of each library that can hold the value."""
    for array in value.arrow:
        table = pa.table({"c": array})
        yield f"Arrow, {array.type}", table
        if not pa.types.is_map(array.type):
            yield f"Polars, {array.type}", pl.from_arrow(table)
            yield f"pandas, {array.type}", table.to_pandas()
            yield f"pandas of Arrow, {array.type}", table.to_pandas(types_mapper=pd.ArrowDtype)
    for one in value.objects:
        yield f"pandas, {one!r}", pd.DataFrame({"c": pd.Series([one], dtype=object)})


# --- features -------------------------------------------------------------------------------------

KNOWN: dict[str, tuple[list[bytes], Callable[[Value], Outcome]]] = {
    "new": ([], lambda value: value.new),
    "among texts": ([b'{"c": "blue"}'], lambda value: value.among_texts),
    "among numbers": (
        [b'{"c": 1.5}'],
        lambda value: value.new if value.among_numbers == "as new" else value.among_numbers,
    ),
}
"""What the field has held before, and where that stands in the table."""


def columns_of(schema: Schema, row: Any) -> Outcome:
    """Return the columns of field "c" that hold something, in short."""
    found = {str(name): x for name, x in zip(schema.columns, row.tolist(), strict=True) if x}
    parts = {f"c@{part}" for part in Moment._fields if f"c@{part}" in schema.columns}
    if parts and not any(math.isnan(row[schema.columns.index(part)]) for part in parts):
        return TIME
    if any(re.fullmatch(r"c=#\d+", name) for name in found):
        return "shared"
    held = {name: x for name, x in found.items() if not math.isnan(x)}
    if not held and "c" in schema.columns and row[schema.columns.index("c")] == 0.0:
        return {"c": 0.0}
    return held or {"c": math.nan}


def same(found: Outcome, expected: Outcome) -> bool:
    """Whether two outcomes are one; "?" is not told in the table."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            math.isclose(x, expected[name]) or (x != x and expected[name] != expected[name])
            for name, x in found.items()
        )
    if isinstance(expected, str) and expected.endswith("…"):
        return isinstance(found, str) and re.fullmatch(expected + "[0-9a-f]{32}", found) is not None
    return expected == "?" or (type(found) is type(expected) and bool(found == expected))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("meaning")


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.name)
def test_a_feature_is_the_same_by_every_way_in(value: Value, known: str, folder: Path) -> None:
    before, of_table = KNOWN[known]
    for one in given_by(value, "c", folder):
        first = decoder("json", Schema())
        first.decode(before)
        decoding = decoder(
            one.encoding, first.schema, fields=one.fields, record_format=one.record_format
        )
        # The second time by the fast way, if there is one for it.
        out = decoding.decode([one.raw])
        again = decoding.decode([one.raw, one.raw])
        if out.bad:
            found: Outcome = out.bad[0].kind
        else:
            found = columns_of(decoding.schema, out.X[0])
            for row in again.X:
                np.testing.assert_array_equal(row, out.X[0], one.way)
        assert len(again.bad) == 2 * len(out.bad)
        assert same(found, of_table(value)), (one.way, found)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.name)
def test_frames_and_dicts_of_the_adapters_too(value: Value, known: str) -> None:
    before, of_table = KNOWN[known]
    events = [json.loads(event) for event in before]
    events = [{**event, "n": float(i)} for i, event in enumerate([*events, {}])]
    rivers = [(f"River, {one!r}", {"c": one}) for one in value.objects]
    for way, given_ in [*rivers, *frames_of(value)]:
        model = Model(create("doubly-stochastic", task="classification", seed=1, max_features=64))
        for event in events:
            model.learner.learn_one(model.row(event, ["a"]), "a")
        try:
            if isinstance(given_, Mapping):
                row = model.row(given_, ["a"]).copy()
            else:
                frame = as_frame(given_)
                assert frame is not None
                frame.learn(model, ["a"])
                [[row]] = frame.rows(model)
            found: Outcome = columns_of(model._table.schema, row)
        except InvalidInput as error:
            found = "inf" if "past 1e+150" in str(error) else str(error)
        assert same(found, of_table(value)), (way, found)


# --- labels and keys ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.name)
def test_a_label_is_the_same_by_every_way_in(value: Value, folder: Path) -> None:
    for label_type, expected in ((None, value.label), ("float", value.quantity)):
        for one in given_by(value, "y", folder):
            decoding = decoder(
                one.encoding,
                Schema(label="y", label_type=label_type),  # type: ignore[arg-type]
                fields=one.fields,
                record_format=one.record_format,
            )
            for _ in range(2):
                out = decoding.decode([one.raw, one.raw])
                found = out.bad[0].kind if out.bad else out.y[0]
                assert same(found, expected), (one.way, found)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.name)
def test_a_key_is_the_same_by_every_way_in(value: Value, folder: Path) -> None:
    for one in given_by(value, "k", folder):
        read = FieldReader(one.encoding, ("k",), fields=one.fields, record_format=one.record_format)
        [cells] = read.many([one.raw])
        try:
            assert isinstance(cells, tuple), one.way
            found = key_of(cells[0], "k")
        except Rejected as error:
            found = error.reason.partition(":")[0]
        assert same(found, value.key), (one.way, found)


def test_a_time_is_one_key_however_it_is_written() -> None:
    moment = datetime(2024, 2, 29, 18, 30)
    texts = ["2024-02-29 18:30:00", "2024-02-29T18:30:00", "2024-02-29T18:30"]
    found = {key_of(value, "k") for value in (moment, np.datetime64(moment, "ms"), *texts)}
    assert found == {"2024-02-29T18:30:00"}
    assert key_of(date(2024, 2, 29), "k") == key_of(datetime(2024, 2, 29), "k") == "2024-02-29"


def test_known_classes_are_found_by_their_texts() -> None:
    read = LabelReader(Schema(label="y", classes=("7", "NA", "no", True))).one
    assert [read(label) for label in (7, "7", 7.0, "NA", "no", "TRUE")] == [
        *("7", "7", "7", "NA", "no", True)
    ]
    with pytest.raises(Rejected, match="not a known class"):
        read(1)
    texts = LabelReader(Schema(label="y", label_type="str")).one
    assert [texts(label) for label in ("007", "2.50", 2.5, 7, True, "", "a")] == [
        *("007", "2.50", "2.5", "7", "true", None, "a")
    ]


# --- the neighbours -------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.one_of(
    st.text(max_size=8),
    st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{1,3})?(e[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["NA", "Nan", "true", "Infinity", "1,234.5", "2024-02-29", "12:00:01"]),
)


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@settings(deadline=None, max_examples=80)
@given(st.lists(st.one_of(TEXTS, NUMBERS), min_size=1, max_size=12))
def test_a_stream_of_any_values_is_the_same_in_json_and_csv(values: list[Any]) -> None:
    """A text in one format and a number in another are the same column and the same label."""
    values = [v for v in values if not isinstance(v, str) or not set(v) & set("\r\n\0")]
    texts = [v if isinstance(v, str) else json.dumps(v) for v in values]
    by_json, by_csv = (
        decoder(encoding, Schema(label="y"), fields=("c", "y")) for encoding in ("json", "csv")
    )
    typed = by_json.decode([json.dumps({"c": v, "y": v}).encode() for v in values])
    cells = by_csv.decode([f"{_cell(text)},{_cell(text)}".encode() for text in texts])
    untyped = decoder("json", Schema(label="y"))
    as_texts = untyped.decode([json.dumps({"c": t, "y": t}).encode() for t in texts])
    assert by_csv.schema == untyped.schema
    np.testing.assert_array_equal(cells.X, as_texts.X)
    assert (cells.y, cells.bad) == (as_texts.y, as_texts.bad)
    assert by_json.schema == by_csv.schema
    np.testing.assert_array_equal(typed.X, cells.X)
    assert typed.y == cells.y


@settings(deadline=None, max_examples=80)
@given(st.lists(TEXTS, min_size=1, max_size=30), st.integers(1, 8))
def test_columns_of_any_texts_do_not_depend_on_cuts(texts: list[str], size: int) -> None:
    events = [json.dumps({"c": text, "y": 0}).encode() for text in texts]
    whole, parts = (decoder("json", Schema(label="y")) for _ in range(2))
    X = whole.decode(events).X
    rows = [
        row for i in range(0, len(events), size) for row in parts.decode(events[i : i + size]).X
    ]
    assert whole.schema == parts.schema
    for row, one in zip(X, rows, strict=True):
        np.testing.assert_array_equal(row[: len(one)], one)
    again = decoder("json", Schema.from_json(whole.schema.to_json()))
    np.testing.assert_array_equal(again.decode(events).X, whole.decode(events).X)
    assert ColumnTable(whole.schema).is_of_texts("c") == whole.table.is_of_texts("c")


@given(st.one_of(NUMBERS, TEXTS))
def test_what_is_plain_stays_plain(value: Any) -> None:
    once = plain(value)
    assert plain(once) == once
    assert once is None or isinstance(text_of(once), str)


@example(time(0, 28, 17, 357_799))  # whose parts have another sum
@given(st.times())
def test_a_time_of_day_is_one_number(value: time) -> None:
    since = timedelta(
        hours=value.hour,
        minutes=value.minute,
        seconds=value.second,
        microseconds=value.microsecond,
    )
    exact = float(Fraction(since // timedelta(microseconds=1), 10**6))
    text = value.isoformat()
    assert plain(value) == plain(since) == parse_number(text) == exact


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "items",
    [
        [datetime(2024, 2, 29, 18, 30), datetime(1960, 1, 1, 0, 0, 1)],
        [timedelta(seconds=90), timedelta(days=-1)],
        [],
    ],
)
def test_times_in_arrays_are_those_of_lists(unit: str, items: list[Any]) -> None:
    kind = "timedelta64" if timedelta in map(type, items) else "datetime64"
    array = np.array(items, f"{kind}[us]").astype(f"{kind}[{unit}]")
    assert alone({"c": array}) == pytest.approx(alone({"c": items}), nan_ok=True, abs=0)


@pytest.mark.parametrize("zero", "0\u0660\u0966\uff10")
def test_ids_keep_their_digits_in_any_script(zero: str) -> None:
    def written(number: int) -> str:
        return "\u00a0" + "".join(chr(ord(zero) + int(digit)) for digit in str(number))

    assert parse_number(written(2**53 - 1)) == 2**53 - 1
    assert parse_number(written(2**53)) is parse_number(written(2**53 + 1)) is None


def test_a_mark_among_numbers_does_not_make_them_texts() -> None:
    """ "?" in the first rows of a column of numbers, as files of UCI have it."""
    events = [f'{{"c": "{"?" if i < 3 or i % 10 == 0 else i / 4}"}}'.encode() for i in range(60)]
    decoding = decoder("json", Schema())
    X = decoding.decode(events).X
    assert {"c", "c=?"} < set(decoding.schema.columns)
    assert len(decoding.schema.columns) == 10
    assert X[-1, decoding.schema.columns.index("c")] == 59 / 4
    assert not prevail(9, 8)
    assert prevail(9, 7)


def test_a_field_of_texts_stays_one() -> None:
    ids = [f"{n:07x}" for n in np.random.default_rng(0).integers(16**7, size=3000).tolist()]
    assert any(is_odd(text) and parse_number(text) == math.inf for text in ids)
    assert sum(map(is_odd, ids)) > 100
    decoding = decoder("json", Schema())
    out = decoding.decode([f'{{"sha": "{text}"}}'.encode() for text in ids])
    assert out.bad == []
    assert "sha" not in decoding.schema.columns
    np.testing.assert_array_equal(out.X.sum(axis=1), 1.0)
