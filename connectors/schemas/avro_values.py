"""Functions that read values of Avro's binary encoding, one for each type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC
from functools import partial
from typing import Any

from connectors.errors import BadRecord
from connectors.schemas.avro_types import Fixed, Plain, Union
from connectors.schemas.values import day_after_1970, decimal_number, time_after_1970

__all__ = [
    "CODES",
    "PLAIN",
    "Read",
    "array_reader",
    "enum_reader",
    "fixed_reader",
    "map_reader",
    "numbers_reader",
    "union_reader",
    "with_logical_type",
]

Read = Callable[[bytes, int, int], tuple[Any, int]]
"""From bytes, place and depth to the value and the place behind it."""

_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_PER_SECOND = {"millis": 1e3, "micros": 1e6}
"""Of times of day, which are seconds in every format."""

# --- plain types ----------------------------------------------------------------------------------


def _null(_data: bytes, at: int, _depth: int) -> tuple[None, int]:
    return None, at


def _boolean(data: bytes, at: int, _depth: int) -> tuple[bool, int]:
    found = data[at]
    if found > 1:
        raise BadRecord(f"a boolean in the record is {found}")
    return found == 1, at + 1


def _long(data: bytes, at: int, _depth: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    found, shift = byte & 127, 7
    while byte > 127:
        at += 1
        byte = data[at]
        found |= (byte & 127) << shift
        shift += 7
        if shift > 70 or found >> 64:
            raise BadRecord("a whole number in the record has more than 64 bits")
    return (found >> 1) ^ -(found & 1), at + 1


def numbers_reader(codes: str) -> Read:
    """Return the function of neighbours, each "f" for a float or "d" for a double, to a tuple."""
    form = struct.Struct(f"<{codes}")
    unpack, size = form.unpack_from, form.size

    def read(data: bytes, at: int, _depth: int) -> tuple[tuple[float, ...], int]:
        return unpack(data, at), at + size

    return read


def _number_reader(code: str) -> Read:
    form = struct.Struct(f"<{code}")
    unpack, size = form.unpack_from, form.size

    def read(data: bytes, at: int, _depth: int) -> tuple[float, int]:
        return unpack(data, at)[0], at + size

    return read


_FLOAT, _DOUBLE = _number_reader("f"), _number_reader("d")
CODES = {_FLOAT: "f", _DOUBLE: "d"}
"""Of functions whose neighbours may be read at once, by `numbers_reader`."""


def _bytes(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    size, at = _long(data, at, 0)
    end = at + size
    if size < 0 or end > len(data):
        raise BadRecord(f"a value of {size} bytes in the record, which has {len(data)} in all")
    return data[at:end], end


def _string(data: bytes, at: int, _depth: int) -> tuple[str, int]:
    size, at = _long(data, at, 0)
    end = at + size
    if size < 0 or end > len(data):
        raise BadRecord(f"a text of {size} bytes in the record, which has {len(data)} in all")
    return data[at:end].decode(), end


PLAIN: dict[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _FLOAT,
    "double": _DOUBLE,
    "bytes": _bytes,
    "string": _string,
}
"""The functions of primitive types."""


def fixed_reader(size: int) -> Read:
    """Return the function of so many bytes."""

    def read(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return data[at:end], end

    return read


def enum_reader(symbols: tuple[str, ...]) -> Read:
    """Return the function of an enum."""

    def read(data: bytes, at: int, _depth: int) -> tuple[str, int]:
        index, at = _long(data, at, 0)
        if not 0 <= index < len(symbols):
            raise BadRecord(f"symbol {index} of an enum that has {len(symbols)}")
        return symbols[index], at

    return read


# --- types of types -------------------------------------------------------------------------------


def union_reader(branches: list[Read], kind: Union) -> Read:
    """Return the function of a union, made of those of its branches."""

    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        index, at = _long(data, at, 0)
        if not 0 <= index < len(branches):
            raise BadRecord(f"branch {index} of a union that has {len(branches)}")
        return branches[index](data, at, depth)

    if len(branches) != 2 or Plain("null") not in kind.branches:
        return read
    null = kind.branches.index(Plain("null"))
    of_null, of_value, value = 2 * null, 2 * (1 - null), branches[1 - null]

    def read_optional(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        byte = data[at]
        if byte == of_value:
            return value(data, at + 1, depth)
        if byte == of_null:
            return None, at + 1
        return read(data, at, depth)

    return read_optional


def _block(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of items in the next block of an array or a map, 0 behind the last."""
    count, at = _long(data, at, 0)
    if count < 0:
        count = -count
        _, at = _long(data, at, 0)
    if count > len(data) - at:
        raise BadRecord(f"{count} items in the record, for which it has {len(data) - at} bytes")
    return count, at


def array_reader(item: Read, *, takes_bytes: bool) -> Read:
    """Return the function of an array, made of that of its items, which take bytes or none."""

    def read(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
        found = []
        count, at = _block(data, at)
        while count:
            if not takes_bytes:
                # No byte would have to be there for however many are claimed.
                raise BadRecord("an array of items that take no bytes")
            for _ in range(count):
                one, at = item(data, at, depth + 1)
                found.append(one)
            count, at = _block(data, at)
        return found, at

    return read


def map_reader(value: Read) -> Read:
    """Return the function of a map, made of that of its values."""

    def read(data: bytes, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found = {}
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                key, at = _string(data, at, 0)
                found[key], at = value(data, at, depth + 1)
            count, at = _block(data, at)
        return found, at

    return read


# --- logical types --------------------------------------------------------------------------------


def with_logical_type(read: Read, kind: Plain | Fixed) -> Read:
    """Return the function of a type with its logical type; one that is not known is left out."""
    convert = _conversion(kind)
    if convert is None:
        return read

    def read_converted(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        found, at = read(data, at, depth)
        return convert(found), at

    return read_converted


def _conversion(kind: Plain | Fixed) -> Callable[[Any], Any] | None:
    logical, plain = kind.logical or "", kind.name if isinstance(kind, Plain) else "fixed"
    if logical == "decimal" and plain in ("bytes", "fixed"):
        return partial(decimal_number, scale=kind.scale)
    if logical == "date" and plain == "int":
        return day_after_1970
    head, _, unit = logical.rpartition("-")
    if head in ("timestamp", "local-timestamp") and unit in _UNITS and plain == "long":
        zone = UTC if head == "timestamp" else None
        return partial(time_after_1970, unit=_UNITS[unit], zone=zone)
    if head == "time" and unit in _PER_SECOND and plain in ("int", "long"):
        return lambda count: count / _PER_SECOND[unit]
    return None
