"""Schemas of outputs, as texts: of Avro, JSON Schema and Protobuf.

A field that comes or goes from one job to the next keeps them compatible: in Avro it has a default,
in Protobuf a number of its own, and in JSON Schema none is required.
"""

from __future__ import annotations

import json
from typing import Any

from connectors.fields import UNIONS, Field, ListOf, MapOf, RecordType, Scalar

__all__ = ["avro_text", "branches", "json_schema_text", "protobuf_text"]

_NAMESPACE = "streamk"


def branches(kind: Scalar) -> tuple[Scalar, ...]:
    """Return the types that a value of one may have, in their order.

    >>> branches("text"), branches("value")
    (('text',), ('boolean', 'number', 'text'))
    """
    return tuple(dict.fromkeys(UNIONS[kind].values())) if kind in UNIONS else (kind,)


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
    return _compact({**dialect, **_json_object(record)})


def _json_object(record: RecordType) -> dict[str, Any]:
    properties = {field.name: _json_field(field) for field in record.fields}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _json_field(field: Field) -> dict[str, Any]:
    found: dict[str, Any]
    match field.type:
        case ListOf(items):
            if isinstance(items, RecordType):
                of = _json_object(items)
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
    """Return the message that has a value of a type in the field of what it is."""
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
