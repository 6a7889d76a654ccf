"""Outputs as they are written to a topic by a schema: framed records."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from connectors.base import Trouble
from connectors.errors import BadRecord, ConnectorError, Unavailable
from connectors.fields import UNIONS, Field, ListOf, MapOf, RecordType, Scalar, branches
from connectors.formats import Encode, JSONOutputs, json_object
from connectors.records import framed, json_body
from connectors.schemas.formats import SchemaFormat, format_of, store_of
from connectors.schemas.stores import Away, SchemaStore

_NAMESPACE = "streamk"


# --- Avro -----------------------------------------------------------------------------------------

_AVRO = {"boolean": "boolean", "integer": "long", "number": "double", "text": "string"}
_AVRO_DEFAULTS: dict[str, Any] = {"boolean": False, "long": 0, "double": 0.0, "string": ""}


def avro_text(record: RecordType) -> str:
    """Return the schema of Avro.

    >>> avro_text(RecordType("Score", (Field("value", 1, "number", nullable=True),)))
    ... # doctest: +NORMALIZE_WHITESPACE
    '{"type":"record","name":"Score","fields":[{"name":"value","type":["null","double"],"default":null}],"namespace":"streamk"}'
    """
    return _compact({**_avro_record(record), "namespace": _NAMESPACE})


def _avro_record(record: RecordType) -> dict[str, Any]:
    fields = [_avro_field(field) for field in record.fields]
    return {"type": "record", "name": record.name, "fields": fields}


def _avro_field(field: Field) -> dict[str, Any]:
    default: Any
    kinds: list[Any]
    match field.type:
        case ListOf(items):
            of = _avro_record(items) if isinstance(items, RecordType) else _alone(_avro(items))
            kinds, default = [{"type": "array", "items": of}], []
        case MapOf(values):
            kinds, default = [{"type": "map", "values": _alone(_avro(values))}], {}
        case scalar:
            kinds = _avro(scalar)
            default = _AVRO_DEFAULTS[kinds[0]]
    if field.nullable:
        # The default of a union is of its first branch.
        kinds, default = ["null", *kinds], None
    return {"name": field.name, "type": _alone(kinds), "default": default}


def _avro(kind: Scalar) -> list[str]:
    return [_AVRO[branch] for branch in branches(kind)]


def _alone(kinds: list[str]) -> Any:
    return kinds[0] if len(kinds) == 1 else kinds


# --- JSON Schema ----------------------------------------------------------------------------------

_JSON: dict[Scalar, list[str]] = {
    "boolean": ["boolean"],
    "integer": ["integer"],
    "number": ["number", "null"],  # JSON has no NaN
    "text": ["string"],
    "label": ["boolean", "integer", "string"],
    "value": ["boolean", "number", "string"],
}


def json_schema_text(record: RecordType) -> str:
    """Return the schema of JSON Schema, draft 7.

    It allows no further properties: only then may later ones be added, as registries see it.
    """
    dialect = {"$schema": "http://json-schema.org/draft-07/schema#", "title": record.name}
    return _compact({**dialect, **_object_schema(record)})


def _object_schema(record: RecordType) -> dict[str, Any]:
    properties = {field.name: _property_schema(field) for field in record.fields}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _property_schema(field: Field) -> dict[str, Any]:
    found: dict[str, Any]
    match field.type:
        case ListOf(items):
            if isinstance(items, RecordType):
                of = _object_schema(items)
            else:
                of = {"type": _alone(_JSON[items])}
            found = {"type": "array", "items": of}
        case MapOf(values):
            found = {"type": "object", "additionalProperties": {"type": _alone(_JSON[values])}}
        case scalar:
            found = {"type": _alone(_JSON[scalar])}
    if field.nullable:
        kinds = found["type"] if isinstance(found["type"], list) else [found["type"]]
        found["type"] = [*kinds, *({"null"} - set(kinds))]
    return found


def _compact(schema: dict[str, Any]) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


# --- Protobuf -------------------------------------------------------------------------------------

_PROTOBUF: dict[Scalar, str] = {
    "boolean": "bool",
    "integer": "int64",
    "number": "double",
    "text": "string",
    "label": "Label",
    "value": "Value",
}


def protobuf_text(record: RecordType) -> str:
    """Return the .proto file whose first message has these fields.

    >>> print(protobuf_text(RecordType("Score", (Field("value", 1, "number", nullable=True),))))
    syntax = "proto3";
    package streamk;
    message Score {
      optional double value = 1;
    }
    <BLANKLINE>
    """
    lines = ['syntax = "proto3";', f"package {_NAMESPACE};", *_message(record)]
    used = _kinds(record)
    lines[-1:] = [*(line for kind in UNIONS if kind in used for line in _union(kind)), "}"]
    text, depth = "", 0
    for line in lines:
        depth -= line == "}"
        text += "  " * depth + line + "\n"
        depth += line.endswith("{")
    return text


def _kinds(record: RecordType) -> set[Any]:
    """Return the types of a record's fields, and of those of records in lists."""
    found: set[Any] = set()
    for field in record.fields:
        of = field.type.items if isinstance(field.type, ListOf) else field.type
        found |= _kinds(of) if isinstance(of, RecordType) else {of}
    return found


def _union(kind: Scalar) -> list[str]:
    """Return the message of a union: one field for each type, of which one is set."""
    fields = [f"{_PROTOBUF[one]} {one} = {n};" for n, one in enumerate(branches(kind), start=1)]
    return [f"message {_PROTOBUF[kind]} {{", "oneof kind {", *fields, "}", "}"]


def _message(record: RecordType) -> list[str]:
    lines = [f"message {record.name} {{"]
    for field in record.fields:
        match field.type:
            case ListOf(items):
                if isinstance(items, RecordType):
                    lines += _message(items)
                    name = items.name
                else:
                    name = _PROTOBUF[items]
                kind = f"repeated {name}"
            case MapOf(values):
                kind = f"map<string, {_PROTOBUF[values]}>"
            case scalar:
                has_presence = field.nullable and scalar not in UNIONS
                kind = "optional " * has_presence + _PROTOBUF[scalar]
        lines.append(f"{kind} {field.name} = {field.number};")
    return [*lines, "}"]


# --- formats --------------------------------------------------------------------------------------

_log = logging.getLogger("streamk.connectors")


class FramedOutputs(JSONOutputs):
    """Writes outputs as framed records, with a schema made from their fields.

    `connectors.formats.open_output_format` has parameters and errors.
    """

    def __init__(self, encoding: str, place: str) -> None:
        self.name = _NAMES[encoding]
        self.encode: Encode = _undeclared
        self._encoding = encoding
        self._store: SchemaStore = store_of(encoding, place)
        self._read: SchemaFormat | None = None
        if encoding != "json-schema":
            self._read = format_of(encoding, self._store)
        self._record = RecordType("", ())

    def declare(self, record: RecordType, subject: str) -> None:
        """Make the schema of these outputs, and have it kept under a subject.

        Raises `Unavailable` if no registry answers, and `ConnectorError` if the schema is not
        taken: it is not compatible with the subject's, say.
        """
        text = _TEXTS[self._encoding](record)
        try:
            number = self._store.keep(text, subject)
        except Away as away:
            raise Unavailable(
                f"{away}. It must accept the schema of the outputs before any is written"
            ) from None
        self._record = record
        self.encode = _encoder(self._encoding, record, text, number)

    def contents(self, records: Sequence[bytes | None]) -> list[dict[str, Any]]:
        """Return the outputs that were written as these records, {} of what cannot be read.

        Asks for the schemas that are not known yet, and waits for a registry that is gone.
        """
        if self._read is None:
            return [json_object(_body(record)) for record in records]
        told = False
        while self._read.ready(records) < len(records):
            trouble = self._read.trouble()
            if trouble is not None and not told:
                told = True
                _log.warning("the end of the output cannot be read: %s", trouble.text)
            time.sleep(self._read.rest)
        read = self._read.reading(frozenset)
        return [self._content(read, record) for record in records]

    def _content(self, read: Callable[[Any], dict[str, Any]], record: Any) -> dict[str, Any]:
        try:
            found = read(record)
        except BadRecord:
            return {}
        if self._encoding == "protobuf":
            from connectors.schemas.protobuf import as_output

            found = as_output(found, self._record)
        for field in self._record.fields:
            if field.optional and found.get(field.name) is None:
                found.pop(field.name, None)
        return found

    def trouble(self) -> Trouble | None:
        """Tell of a registry that is gone."""
        return None if self._read is None else self._read.trouble()


_NAMES = {"avro": "Avro", "json-schema": "JSON Schema", "protobuf": "Protobuf"}
_TEXTS: Mapping[str, Callable[[RecordType], str]] = {
    "avro": avro_text,
    "json-schema": json_schema_text,
    "protobuf": protobuf_text,
}


def _encoder(encoding: str, record: RecordType, text: str, number: int) -> Encode:
    write: Encode
    match encoding:
        case "avro":
            from connectors.schemas.avro import avro_writer

            write = avro_writer(text)
        case "protobuf":
            from connectors.schemas.protobuf import protobuf_writer

            write = protobuf_writer(record, text)
        case _:
            write = msgspec.json.Encoder().encode
    head = framed(number, b"")
    all_names = frozenset(field.name for field in record.fields)
    needed = frozenset(field.name for field in record.fields if not field.optional)

    def encode(value: Mapping[str, Any]) -> bytes:
        names = value.keys()
        if names != all_names and not needed <= names <= all_names:
            odd = ", ".join(sorted(needed - names | names - all_names))
            raise BadRecord(f"its fields are not those of {record.name}: {odd}")
        return head + write(value)

    return encode


def _undeclared(_: Mapping[str, Any]) -> bytes:
    raise ConnectorError(
        "a sink with a schema must be told the fields of outputs before the first one is written:"
        " call declare"
    )


def _body(record: bytes | None) -> bytes:
    with contextlib.suppress(BadRecord):
        return json_body(record)
    return b""
