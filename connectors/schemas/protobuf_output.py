"""Outputs as messages of Protobuf, of the type that is made of their fields, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from connectors.errors import BadRecord
from connectors.fields import UNIONS, ListOf, RecordType, Scalar
from connectors.schemas.generated import branches
from connectors.schemas.protobuf import ProtobufSchema

__all__ = ["as_output", "protobuf_writer"]

_FIRST_MESSAGE = b"\0"
"""The place of the first message of a file, in the frame of a record."""


def protobuf_writer(record: RecordType, text: str) -> Callable[[Mapping[str, Any]], bytes]:
    """Return the function from outputs to bodies of records, by the text of their schema.

    It raises a `ValueError` or `TypeError` for what is not of this type.
    """
    make = ProtobufSchema(text).message_class((0,))
    convert = _arguments(record)

    def write(value: Mapping[str, Any]) -> bytes:
        body: bytes = make(**convert(value)).SerializeToString(deterministic=True)
        return _FIRST_MESSAGE + body

    return write


def _arguments(record: RecordType) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return the function from outputs to the arguments of their messages."""
    changed: list[tuple[str, Callable[[Any], Any]]] = []
    for field in record.fields:
        match field.type:
            case "label" | "value":
                changed.append((field.name, partial(_in_union, field.type)))
            case ListOf("label"):
                changed.append((field.name, _each(partial(_in_union, "label"))))
            case ListOf(RecordType() as items):
                changed.append((field.name, _each(_arguments(items))))

    def convert(value: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(value)
        for name, of in changed:
            if found.get(name) is not None:
                found[name] = of(found[name])
        return found

    return convert


def _each(of: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda items: [of(item) for item in items]


def _in_union(kind: Scalar, value: Any) -> dict[str, Any]:
    branch = UNIONS[kind].get(type(value))
    if branch is None:
        raise BadRecord(f"{value!r} is no {kind}: a {', '.join(branches(kind))}")
    return {branch: value}


def as_output(event: Mapping[str, Any], record: RecordType) -> dict[str, Any]:
    """Return the output that was written as a message, which was read as an event.

    Protobuf knows no list that is None: one that may be is None where it is empty.

    >>> from connectors.fields import Field
    >>> record = RecordType("Answer", (Field("is", 1, "label"), Field("of", 2, ListOf("label"))))
    >>> as_output({"is": {"text": "a"}, "of": [{"text": "a"}, {"integer": 7}]}, record)
    {'is': 'a', 'of': ['a', 7]}
    """
    found = dict(event)
    for field in record.fields:
        value = found.get(field.name)
        match field.type:
            case "label" | "value" if value is not None:
                value = _out_of_union(value)
            case ListOf("label") if value:
                value = [_out_of_union(item) for item in value]
            case ListOf(RecordType() as items) if value:
                value = [as_output(item, items) for item in value]
        found[field.name] = None if field.nullable and value == [] else value
    return found


def _out_of_union(message: Any) -> Any:
    return next(iter(message.values()), None) if isinstance(message, Mapping) else message
