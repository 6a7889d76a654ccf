"""Protobuf's binary encoding, beside what the library itself makes of messages in JSON."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import BadRecord, ConnectorError
from connectors.records import framed
from connectors.schemas.protobuf import ProtobufSchema

pytest.importorskip("grpc_tools", reason="protoc is not installed: pip install 'streamk[schemas]'")
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "parts/size.proto";

message Outer {
  message Inner { int32 a = 1; }
  message Other { message Deep { int32 b = 1; } }
}
enum Device { PHONE = 0; TABLET = 1; }
message Click {
  int32 age = 1 [(confluent.field_meta).doc = "in years"];
  double seconds = 2;
  string page = 3;
  bool clicked = 4;
  Device device = 5;
  optional double score = 6;
  repeated double vector = 7;
  map<string, int32> counts = 8;
  map<bool, Size> sizes = 9;
  oneof who { string name = 10; int64 number = 11; }
  google.protobuf.Timestamp at = 12;
  google.protobuf.Duration took = 13;
  google.protobuf.DoubleValue wrapped = 14;
  google.protobuf.Struct free = 15;
  confluent.type.Decimal price = 16;
  parts.Size size = 17;
  Click before = 18;
  repeated Device devices = 19;
  uint64 big = 20;
  float small = 21;
}
message Size { int32 w = 1; }
"""
REFERENCES = {"parts/size.proto": 'syntax = "proto3"; package parts; message Size { int32 w = 1; }'}


@pytest.fixture(scope="module")
def schema() -> ProtobufSchema:
    return ProtobufSchema(TEXT, REFERENCES)


def message(schema: ProtobufSchema, values: Mapping[str, Any] | None = None) -> Any:
    kind = GetMessageClass(schema.message((1,)))
    return json_format.ParseDict(values or {}, kind())


def record(found: Any, place: bytes = b"\2\2") -> bytes:
    return framed(1, place + found.SerializeToString())


ABSENT = {
    "age": 0,
    "seconds": 0.0,
    "page": "",
    "clicked": False,
    "device": "PHONE",
    "vector": [],
    "counts": {},
    "sizes": {},
    "devices": [],
    "big": 0,
    "small": 0.0,
}


def test_all_kinds_of_fields(schema: ProtobufSchema) -> None:
    assert schema.read(record(message(schema))) == ABSENT
    same = {
        "age": 31,
        "device": "TABLET",
        "score": 0.0,
        "vector": [1.5, 2.0],
        "counts": {"a": 1},
        "sizes": {"true": {"w": 3}},
        "wrapped": 2.5,
        "free": {"a": [1.0, None, {"b": "c"}], "d": True},
        "size": {"w": 4},
        "devices": ["TABLET", "PHONE"],
        "small": 0.5,
    }
    others = {
        "number": ("7", 7),
        "at": ("2023-11-14T22:13:20.5Z", datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC)),
        "took": ("1.5s", 1.5),
        "price": ({"value": "BNI=", "scale": 2}, Decimal("12.34")),
        "before": ({"age": 5}, {**ABSENT, "age": 5}),
        "big": (str(2**63), 2**63),
    }
    written = {name: value for name, (value, _) in others.items()}
    read = {name: value for name, (_, value) in others.items()}
    found = schema.read(record(message(schema, {**same, **written})))
    assert found == {**ABSENT, **same, **read}


def test_a_number_that_an_enum_lacks_stays_a_number(schema: ProtobufSchema) -> None:
    found = message(schema)
    found.device = 9
    assert schema.read(record(found))["device"] == 9


def test_a_time_of_a_year_that_python_has_not(schema: ProtobufSchema) -> None:
    found = message(schema)
    for seconds, nanos in ((2**60, 0), (2**63 - 1, 2**31 - 1), (-(2**63), -(2**31))):
        found.at.seconds, found.at.nanos = seconds, nanos
        expected = np.datetime64(max(-(2**63) + 1, seconds), "s")
        assert schema.read(record(found))["at"] == expected


@pytest.mark.parametrize(
    ("place", "body", "expected"),
    [
        (b"\4\0\0", b"\x08\5", {"a": 5}),
        (b"\6\0\2\0", b"\x08\5", {"b": 5}),
        (b"\2\4", b"\x08\5", {"w": 5}),
        (b"\0", b"", {}),
    ],
)
def test_the_frame_names_the_message(
    schema: ProtobufSchema, place: bytes, body: bytes, expected: dict[str, Any]
) -> None:
    assert schema.read(framed(1, place + body)) == expected


@pytest.mark.parametrize(
    ("rest", "complaint"),
    [
        (b"", "ends before the place of its message"),
        (b"\2", "1 levels of messages in a record of 6 bytes"),
        (b"\2\x80", "ends before the place"),
        (b"\1\0", "-1 levels of messages"),
        (b"\2\x0a", r"no message at \[5\]"),
        (b"\4\2\6", r"no message at \[1, 3\]"),
        (b"\2\1", r"no message at \[-1\]"),
        (b"\xfe\xff\xff\xff\x0f\0", "levels of messages"),
        (b"\xff" * 9, "more than 32 bits"),
        (b"\2\2\x08", "is not a shop.Click"),
        (b"\2\2\x12\x7f", "is not a shop.Click"),
        (b"\2\2\x1a\2\xff\xfe", "is not a shop.Click"),
    ],
)
def test_records_that_are_none(schema: ProtobufSchema, rest: bytes, complaint: str) -> None:
    with pytest.raises(BadRecord, match=complaint):
        schema.read(framed(1, rest))


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(schema: ProtobufSchema, body: bytes) -> None:
    for place in (b"", b"\2\2"):
        with contextlib.suppress(BadRecord):
            assert isinstance(schema.read(framed(1, place + body)), dict)


def test_messages_inside_themselves_go_no_deeper_than_so_many_levels(
    schema: ProtobufSchema,
) -> None:
    body = b""
    for _ in range(300):
        body = b"\x92\x01" + _varint(len(body)) + body
    with pytest.raises(BadRecord, match=r"is not a shop\.Click"):
        schema.read(framed(1, b"\2\2" + body))


def test_messages_of_defaults_do_not_multiply_without_end() -> None:
    fields = "".join(f"int64 f{i} = {i + 1};" for i in range(100))
    many = ProtobufSchema(
        f'syntax = "proto3"; message A {{ repeated B b = 1; }} message B {{ {fields} }}'
    )
    assert len(many.read(framed(1, b"\0" + b"\x0a\0" * 1000))["b"]) == 1000
    with pytest.raises(BadRecord, match="more than 1000000 values"):
        many.read(framed(1, b"\0" + b"\x0a\0" * 20_000))


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def test_a_text_of_the_older_syntax_that_is_not_utf_8_stays_bytes() -> None:
    older = ProtobufSchema('syntax = "proto2"; message A { optional string s = 1; }')
    assert older.read(framed(1, b"\0\x0a\1a")) == {"s": "a"}
    assert older.read(framed(1, b"\0\x0a\2\xff\xfe")) == {"s": b"\xff\xfe"}


@pytest.mark.parametrize(
    ("text", "references", "complaint"),
    [
        ("message {", {}, "protoc refuses it: schema.proto:1:"),
        ('syntax = "proto3"; import "a.proto";', {}, "a.proto"),
        ("", {"../a.proto": ""}, r"'\.\./a\.proto', which is not a file name"),
        ("", {"/tmp/a.proto": ""}, "which is not a file name"),
    ],
)
def test_files_that_are_none(text: str, references: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadRecord, match=complaint):
        ProtobufSchema(text, references)


def test_a_protoc_that_cannot_work_is_not_the_fault_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.schemas.protobuf._COMPILING_SECONDS", 0.001)
    with pytest.raises(ConnectorError, match=r"protoc cannot compile a schema: .*timed out"):
        ProtobufSchema("")
    monkeypatch.undo()
    killed = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr("connectors.schemas.protobuf._COMMAND", (sys.executable, "-c", killed))
    with pytest.raises(ConnectorError, match="ended by signal 9"):
        ProtobufSchema("")


def test_a_file_that_is_called_as_a_reference() -> None:
    references = {"schema.proto": 'syntax = "proto3"; message B { int32 b = 1; }'}
    both = ProtobufSchema(
        'syntax = "proto3"; import "schema.proto"; message A { B of = 1; }', references
    )
    assert both.read(framed(1, b"\0\x0a\2\x08\5")) == {"of": {"b": 5}}
