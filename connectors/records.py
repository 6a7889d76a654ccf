"""Framed records: each names its schema, which is kept elsewhere, by a number.

A framed record is the byte 0, the id of its schema in 4 bytes, the most significant first, and the
body (the wire format of Confluent's serializers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from connectors.errors import BadRecord

__all__ = [
    "FRAMED",
    "FRAME_BYTES",
    "Formatted",
    "ReadRecord",
    "RecordFormat",
    "Tombstone",
    "framed",
    "json_body",
    "record_format_of",
    "schema_id_of",
]

FRAMED = ("avro", "json-schema", "protobuf")
"""Encodings of framed records."""

FRAME_BYTES = 5


class Tombstone(BadRecord):
    """A record that says that something was deleted, which is no event."""


ReadRecord = Callable[[Any], dict[str, Any]]
"""A function from a record to its fields; it raises `BadRecord`."""


class RecordFormat(Protocol):
    """The way from records to their fields, by schemas that were fetched before."""

    def reading(self, names: Callable[[], frozenset[str]], *, settled: bool = False) -> ReadRecord:
        """Return a function that reads a record.

        A field whose name `names()` lacks takes that of its former names (in Avro: aliases) which
        is among them. Fields of nested records have dotted names there. With `settled` a record is
        refused whose fields could have other names where more names are known.
        """


@runtime_checkable
class Formatted(Protocol):
    """A source that may give records which are read in a way of their own."""

    @property
    def record_format(self) -> RecordFormat | None:
        """Their format; None where the records need no schema to be read."""


def record_format_of(source: object) -> RecordFormat | None:
    """Return the format of a source's records, None if they are read as their encoding says."""
    return source.record_format if isinstance(source, Formatted) else None


def framed(number: int, body: bytes) -> bytes:
    r"""Return a framed record.

    >>> framed(7, b"{}")
    b'\x00\x00\x00\x00\x07{}'
    """
    return b"\0" + number.to_bytes(4, "big") + body


def schema_id_of(value: object) -> int:
    r"""Return the id of a framed record's schema. Raises `BadRecord` if that is none.

    >>> schema_id_of(b"\0\0\0\1\2...")
    258
    """
    if not isinstance(value, bytes):
        found = "no value at all" if value is None else f"a {type(value).__name__}"
        raise BadRecord(f"bytes expected, not {found}")
    if len(value) < FRAME_BYTES:
        raise BadRecord(f"{len(value)} bytes, a frame with the id of a schema has {FRAME_BYTES}")
    if value[0]:
        raise BadRecord(
            f"the first byte is {value[0]}, not 0: the record has no frame with the id of a schema"
        )
    return int.from_bytes(value[1:FRAME_BYTES], "big")


def json_body(value: object) -> bytes:
    r"""Return the JSON of a framed record. Raises `BadRecord` if that is none.

    >>> json_body(framed(7, b'{"a": 1}'))
    b'{"a": 1}'
    """
    schema_id_of(value)
    assert isinstance(value, bytes)
    return value[FRAME_BYTES:]
