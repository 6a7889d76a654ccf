"""Framed records: each names its schema, which is kept elsewhere, by a number.

A framed record is the byte 0, the id of its schema in 4 bytes, the most significant first, and the
body (the wire format of Confluent's serializers). Bodies hold decimals and times as whole numbers,
which become those of events here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Protocol

import numpy as np

from connectors.errors import BadRecord

FRAMED = ("avro", "json-schema", "protobuf")
"""Encodings of framed records."""

FRAME_BYTES = 5


class Tombstone(BadRecord):
    """A record of a deletion. It is not an event."""


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
        raise BadRecord(
            f"{len(value)} bytes, but a frame with the id of a schema has {FRAME_BYTES}"
        )
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


# --- numbers and times ----------------------------------------------------------------------------

_PER_SECOND = {"ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCHS: dict[tzinfo | None, datetime] = {
    zone: datetime(1970, 1, 1, tzinfo=zone) for zone in (None, UTC)
}
_LATEST = (1 << 63) - 1
"""Seconds that NumPy has room for."""
_FIRST_DAY = date(1970, 1, 1).toordinal()
_MOST_DIGITS = 1000
"""Of a decimal: numbers of very many take minutes to compute."""


def decimal_number(raw: bytes, scale: int) -> Decimal:
    r"""Return a decimal, to the last digit.

    It is a whole number in two's complement, the most significant byte first, and its digits behind
    the point. Raises `BadRecord` if it has more than 1000 bytes, or as many such digits.

    >>> decimal_number(b"\x04\xd2", 2)
    Decimal('12.34')
    """
    if len(raw) > _MOST_DIGITS or abs(scale) > _MOST_DIGITS:
        raise BadRecord(f"a decimal of {len(raw)} bytes and scale {scale}")
    return Decimal(f"{int.from_bytes(raw, 'big', signed=True)}e{-scale}")


def time_after_1970(count: int, unit: str, zone: tzinfo | None) -> Any:
    """Return a time after the beginning of 1970; one of NumPy's where Python has no such year.

    The unit of the count is "ms", "us" or "ns"; what is finer than a microsecond is cut off.

    >>> time_after_1970(1500, "ms", None)
    datetime.datetime(1970, 1, 1, 0, 0, 1, 500000)
    """
    per_second = _PER_SECOND[unit]
    try:
        return _EPOCHS[zone] + timedelta(microseconds=count * 1_000_000 // per_second)
    except OverflowError:
        return np.datetime64(max(-_LATEST, min(count // per_second, _LATEST)), "s")


def day_after_1970(days: int) -> Any:
    """Return a date; one of NumPy's where Python has no such year.

    >>> day_after_1970(59)
    datetime.date(1970, 3, 1)
    """
    try:
        return date.fromordinal(_FIRST_DAY + days)
    except (OverflowError, ValueError):
        return np.datetime64(days, "D")
