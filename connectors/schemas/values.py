"""Numbers and times of binary encodings, as events have them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import numpy as np

from connectors.errors import BadRecord

__all__ = ["day_after_1970", "decimal_number", "time_after_1970"]

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

    Parameters
    ----------
    raw : bytes
        A whole number, the most significant byte first, in two's complement.
    scale : int
        Digits of it behind the point.

    Raises
    ------
    BadRecord
        If it has more than 1000 bytes, or as many digits behind the point.

    Examples
    --------
    >>> decimal_number(b"\x04\xd2", 2)
    Decimal('12.34')
    """
    if len(raw) > _MOST_DIGITS or abs(scale) > _MOST_DIGITS:
        raise BadRecord(f"a decimal of {len(raw)} bytes and scale {scale}")
    return Decimal(f"{int.from_bytes(raw, 'big', signed=True)}e{-scale}")


def time_after_1970(count: int, unit: str, zone: tzinfo | None) -> Any:
    """Return a time; one of NumPy's where Python has no such year.

    Parameters
    ----------
    count : int
        After the beginning of 1970.
    unit : "ms", "us" or "ns"
        That of the count. What is finer than a microsecond is cut off.
    zone : UTC or None
        Of the result.

    Examples
    --------
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
