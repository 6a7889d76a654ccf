"""Avro's binary encoding, written: outputs by the schema that is made of their fields."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from connectors.errors import BadRecord
from connectors.fields import UNIONS, Field, ListOf, MapOf, RecordType, Scalar
from connectors.schemas.generated import branches

__all__ = ["avro_writer"]

Write = Callable[[Any], bytes]

_double = struct.Struct("<d").pack
_LABELS_KEPT = 1024
"""Labels whose bytes are kept."""


def avro_writer(record: RecordType) -> Write:
    r"""Return the function from outputs to the bytes that `avro_text` describes.

    It raises `BadRecord`, or another `ValueError` or `TypeError`, for what is not of this type.

    >>> record = RecordType("Score", (Field("value", 1, "integer", nullable=True),))
    >>> avro_writer(record)({"value": 3})
    b'\x02\x06'
    """
    fields = [(field.name, _of_field(field)) for field in record.fields]

    def write(value: Mapping[str, Any]) -> bytes:
        try:
            return b"".join([of(value.get(name)) for name, of in fields])
        except struct.error as error:
            raise BadRecord(f"a number of {record.name} is none: {error}") from None

    return write


def _of_field(field: Field) -> Write:
    if field.type in ("label", "value"):
        return _union_writer(field.type, first=1 if field.nullable else 0)
    write = _writer(field.type)
    if not field.nullable:
        return write
    return lambda value: b"\0" if value is None else b"\2" + write(value)


def _writer(kind: Scalar | ListOf | MapOf | RecordType) -> Write:
    """Return the function of a type's values, without that of None."""
    match kind:
        case ListOf("number"):
            return _numbers
        case ListOf(items):
            return _list_writer(_writer(items))
        case MapOf(values):
            return _map_writer(_writer(values))
        case RecordType():
            return avro_writer(kind)
        case "label" | "value":
            return _union_writer(kind, first=0)
        case scalar:
            return _SCALARS[scalar]


def _boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise BadRecord(f"{value!r} is no boolean")
    return b"\1" if value else b"\0"


def _long(number: int) -> bytes:
    if not -(1 << 63) <= number < 1 << 63:
        raise BadRecord(
            f"{number} is past the 64 bits, sign included, that a whole number may have"
        )
    left = (number << 1) ^ (number >> 63)
    if left < 128:
        return bytes((left,))
    found = bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)


def _string(text: str) -> bytes:
    encoded = str.encode(text)  # a TypeError for what is no text
    return _long(len(encoded)) + encoded


def _numbers(numbers: list[float]) -> bytes:
    if not numbers:
        return b"\0"
    return _long(len(numbers)) + struct.pack(f"<{len(numbers)}d", *numbers) + b"\0"


_SCALARS: Mapping[str, Write] = {
    "boolean": _boolean,
    "integer": _long,
    "number": _double,
    "text": _string,
}

_kept_string: Write = lru_cache(_LABELS_KEPT)(_string)
_IN_UNION = {**_SCALARS, "text": _kept_string}


def _union_writer(kind: Scalar, first: int) -> Write:
    """Return the function of values of a union whose branches but null begin with this one."""
    tags = {branch: _long(n) for n, branch in enumerate(branches(kind), start=first)}
    known = {of: (tags[branch], _IN_UNION[branch]) for of, branch in UNIONS[kind].items()}

    def write(value: Any) -> bytes:
        found = known.get(type(value))
        if found is not None:
            tag, of = found
            return tag + of(value)
        if value is None and first:
            return b"\0"
        raise BadRecord(f"{value!r} is no {kind}: a {', '.join(tags)}")

    return write


def _list_writer(item: Write) -> Write:
    def write(items: list[Any]) -> bytes:
        if not items:
            return b"\0"
        return b"".join([_long(len(items)), *map(item, items), b"\0"])

    return write


def _map_writer(of_value: Write) -> Write:
    def write(entries: Mapping[str, Any]) -> bytes:
        if not entries:
            return b"\0"
        parts = [_long(len(entries))]
        for key, value in entries.items():
            parts += (_kept_string(key), of_value(value))
        parts.append(b"\0")
        return b"".join(parts)

    return write
