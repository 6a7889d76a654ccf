"""Meanings of values, whatever way they come in.

CSV, JSON, Parquet, Avro, Protobuf, dicts, data frames and requests over HTTP hand over values of
many types. `plain` makes one of a few types of each; `parse_number` and `parse_text` say what a
text reads as, and `text_of` is the text of a value in a field of texts, or of a key. Features
(`streamk.encoding.columns`), labels and keys go by these, so a value means the same in every
format. The table in docs/streams.md has them all.
"""

from __future__ import annotations

import decimal
import math
import numbers
import re
import uuid
from collections.abc import Callable
from datetime import date, time, timedelta
from hashlib import blake2b
from typing import Any

import numpy as np

from streamk.encoding.times import as_datetime, is_no_time
from streamk.features import texts
from streamk.features.texts import BOOLEANS

__all__ = [
    "AS_NUMBERS",
    "BOOLEANS",
    "LONGEST_NAME",
    "MISSING",
    "SAFE",
    "bounded",
    "is_long",
    "is_odd",
    "number_of",
    "parse_number",
    "parse_text",
    "plain",
    "prevail",
    "text_of",
]

MISSING = frozenset(texts.MISSING)

AS_NUMBERS = dict.fromkeys(MISSING, "nan") | {text: str(int(x)) for text, x in BOOLEANS.items()}
"""Texts that `float` reads in the place of those that are missing or a boolean."""

SAFE = 2.0**53
"""From here on a float64 has no room for every whole number: these are texts."""

_MARKS = 8
"""Odd texts, in all and for each other one, of a field that is one of numbers; see `prevail`."""

LONGEST_NAME = 256
"""Bytes of UTF-8, at most, of a name that comes out of an event; see `bounded`."""

_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?\s*", re.ASCII)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
"""Digits and spaces of any script, as `float` reads them."""
_WHOLE_LABEL = re.compile(r"\s*([+-]?(?:0|[1-9]\d{0,399}))(?:\.0*)?\s*", re.ASCII)
_NO_WHOLE = re.compile(r"\s*[+-]?(?:\d*\.\d+|\d(?:\.\d+)?[eE][+-]\d\d+)\s*", re.ASCII)
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(\.\d{1,9})?", re.ASCII)
_MOST_DIGITS = 400
"""Of a decimal that becomes a whole number."""
_MOST_BITS = 1400
"""Of a whole number that has a text: Python writes no very long ones."""

_PLAIN = (int, bool, type(None))


def plain(value: Any) -> Any:
    """Return a value as one of the types that all ways in have; what is none of them as it is.

    These are None (missing), bool, int, float, str, the times of Python and NumPy, lists and
    mappings. A time of day or a duration is a float, in seconds.

    >>> plain(decimal.Decimal("42.00")), plain(np.float32(0.5)), plain(float("nan")), plain("NA")
    (42, 0.5, None, None)
    >>> plain(time(12, 30)), plain(timedelta(minutes=1)), plain(np.array([1, 2]))
    (45000.0, 60.0, [1, 2])
    """
    kind = type(value)
    if kind is float:
        return value if value == value else None
    if kind is str:
        return None if value in MISSING else value
    if kind in _PLAIN:
        return value
    for base, convert in _CONVERSIONS:
        if isinstance(value, base):
            return convert(value)
    if kind.__name__ == "NAType":  # of pandas
        return None
    return _as_float(value) if hasattr(value, "__float__") else value


def _as_float(value: Any) -> Any:
    """Return a number as a float, None if it is missing, and the value if it is no number."""
    try:
        number = float(value)
    except OverflowError:  # past the range of double
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return value
    return number if number == number else None


def _of_numpy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.ndim == 1:  # of what follows `tolist` would make whole numbers
            is_fine = value.dtype in ("datetime64[ns]", "timedelta64[ns]")
            return list(value) if is_fine else value.tolist()
        return value if value.ndim else plain(value[()])
    if isinstance(value, np.datetime64):
        return None if is_no_time(value) else as_datetime(value) or value
    if isinstance(value, np.timedelta64):
        try:
            return plain(float(value / np.timedelta64(1, "s")))
        except TypeError:  # months and years have no length
            return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    return plain(float(value)) if isinstance(value, np.floating) else value


def _of_decimal(value: decimal.Decimal) -> Any:
    if value.is_nan():
        return None
    whole = value.is_finite() and value.adjusted() < _MOST_DIGITS
    return int(value) if whole and value == value.to_integral_value() else _as_float(value)


def _of_day(value: time) -> float:
    length = timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
    return length.total_seconds()


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, lambda value: plain(str.__str__(value))),  # of an enumeration, of NumPy
    (np.generic | np.ndarray, _of_numpy),
    (decimal.Decimal, _of_decimal),
    (date, lambda value: None if is_no_time(value) else value),
    (time, _of_day),
    (timedelta, timedelta.total_seconds),
    (uuid.UUID, str),
    (numbers.Integral, int),
    (numbers.Real, _as_float),
)


def parse_number(text: str) -> float | None:
    """Return the number that a text reads as; None if it reads as none, NaN if it is missing.

    A boolean is 1 or 0, and a time of day its seconds. A whole number from 2**53 on is an id, of
    which a float64 would lose digits: it stays a text.

    >>> parse_number("1e3"), parse_number("1,234.5"), parse_number("NA"), parse_number("True")
    (1000.0, 1234.5, nan, 1.0)
    >>> parse_number("1_000"), parse_number("1,2"), parse_number("9007199254740993")
    (None, None, None)
    >>> parse_number("00:01:30"), parse_number("2e400")
    (90.0, inf)
    """
    if "_" in text:  # Python reads 1_000 as a number, which nothing else does
        return None
    try:
        number = float(AS_NUMBERS.get(text, text))
    except ValueError:
        return _parse_odd_number(text)
    return None if abs(number) >= SAFE and _WHOLE.fullmatch(text) else number


def _parse_odd_number(text: str) -> float | None:
    """Return the number of a text with commas between thousands, or of a time of day."""
    if "," in text and _THOUSANDS.fullmatch(text):
        return parse_number(text.replace(",", ""))
    clock = _CLOCK.fullmatch(text) if ":" in text else None
    if clock is None:
        return None
    hours, minutes, seconds = map(int, clock.groups()[:3])
    return float(f"{3600 * hours + 60 * minutes + seconds}{clock[4] or ''}")


def number_of(value: float) -> float | None:
    """Return the number of a plain bool, int or float; None for a whole number that is an id.

    >>> number_of(True), number_of(2**53 - 1), number_of(2**53), number_of(2.0**53)
    (1.0, 9007199254740991.0, None, 9007199254740992.0)
    """
    return float(value) if isinstance(value, float) or -SAFE < value < SAFE else None


def is_odd(text: str) -> bool:
    """Return whether a text reads as a number, a boolean or a time.

    >>> is_odd("7"), is_odd("2024-02-29"), is_odd("red")
    (True, True, False)
    """
    return parse_number(text) is not None or as_datetime(text) is not None


def prevail(texts: int, odd: int) -> bool:
    """Return whether a field of so many different texts, so many of them odd ones, is one of texts.

    Else it is a field of numbers with a mark or two among them, such as "?", and began with one.

    >>> prevail(300, 30), prevail(9, 8)
    (True, False)
    """
    return odd < _MARKS * max(1, texts - odd)


def parse_text(text: str) -> Any:
    """Return what a text reads as where it is a label: a boolean, a number, or the text.

    A whole number keeps its digits, however many. One that begins with a 0 is a text, an id, and so
    is one with an exponent, but for those of the form that programs write, 1e+05.

    >>> parse_text("18446744073709551615"), parse_text("7.0"), parse_text("2.5")
    (18446744073709551615, 7, 2.5)
    >>> parse_text("007"), parse_text("12e4567"), parse_text("TRUE")
    ('007', '12e4567', True)
    """
    if text in BOOLEANS:
        return BOOLEANS[text]
    digits = text.replace(",", "") if "," in text and _THOUSANDS.fullmatch(text) else text
    whole = _WHOLE_LABEL.fullmatch(digits)
    if whole is not None:
        return int(whole[1])
    return float(digits) if _NO_WHOLE.fullmatch(digits) else text


def text_of(value: Any) -> str | None:
    """Return the text of a plain value in a field of texts; None if it has none.

    >>> text_of(True), text_of(7), text_of(0.5), text_of(date(2024, 2, 29))
    ('true', '7', '0.5', '2024-02-29')
    >>> text_of("TRUE"), text_of("007"), text_of([1])
    ('true', '007', None)
    """
    if isinstance(value, str):
        return str(BOOLEANS[value]).lower() if value in BOOLEANS else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return repr(value) if value.bit_length() <= _MOST_BITS else None
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    return value.isoformat() if isinstance(value, date) else None


def is_long(text: str) -> bool:
    """Return whether a text has more than `LONGEST_NAME` bytes of UTF-8."""
    if 4 * len(text) <= LONGEST_NAME:
        return False
    return len(text) > LONGEST_NAME or len(text.encode("utf-8", "surrogatepass")) > LONGEST_NAME


def bounded(text: str) -> str:
    """Return a name out of an event; a long one as its beginning and a hash of all of it.

    So no event can make a state that is too large to be written.

    >>> bounded("colour"), len(bounded("x" * 1000)), bounded("x" * 1000) == bounded("x" * 1001)
    ('colour', 233, False)
    """
    if not is_long(text):
        return text
    raw = text.encode("utf-8", "surrogatepass")
    digest = blake2b(raw, digest_size=16).hexdigest()
    return f"{raw[:200].decode('utf-8', 'ignore')}…{digest}"
