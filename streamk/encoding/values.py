"""The meaning of the values of raw events, the same for every way in.

Which numbers, texts and times they are, by which names, and the reason where an event cannot be
read. `streamk.encoding.named` reads events with the functions at the end where its fast way refuses
them.
"""

from __future__ import annotations

import decimal
import json
import math
import numbers
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from connectors.base import ENCODINGS
from connectors.cells import read_csv_cells
from connectors.errors import BadRecord
from connectors.records import FRAMED, ReadRecord, Tombstone, json_body
from streamk.errors import shown
from streamk.features import columns as texts
from streamk.features.columns import BOOLEANS
from streamk.memory import entity_number

Name = str | int
_T = TypeVar("_T")
BAD_KINDS = (
    "undecodable",
    "header again",
    "not an object",
    "wrong type",
    "inf",
    "label out of domain",
    "oversized",
    "unknown column",
    "duplicate column",
    "too many columns",
    "key missing",
    "label missing",
    "time missing",
)
"""Everything that can be wrong with an event; a reason starts with one of these and a colon."""
TOMBSTONE = "tombstone"
"""The kind of what is reported and is not an event: a record that tells of a deletion."""


class Rejected(Exception):
    """An event cannot be used: `reason` is "kind: explanation", `column` where it lies."""

    def __init__(self, kind: str, detail: str, column: Name | None = None) -> None:
        super().__init__(kind, detail, column)
        self.column = column
        self.reason = f"{kind}: {detail}"


MISSING = frozenset(texts.MISSING)
AS_NUMBERS = dict.fromkeys(MISSING, "nan") | {text: str(int(x)) for text, x in BOOLEANS.items()}
"""Texts that `float` reads instead of those that are missing or a boolean."""
SAFE = 2.0**53
"""From here on a float64 has no room for every whole number: these are texts."""
LONGEST_NAME = 256
"""Bytes of UTF-8, at most, of a name that comes out of an event; see `bounded`."""
_LATEST = 253_402_300_799_999
"""The end of the year 9999 in milliseconds: what is later is a time in another unit."""
_LONGEST_TEXT = 1 << 12
"""Characters of a text in an output: events may have names that no topic takes."""
_MAX_DEPTH = 32
_MARKS = 8
"""Odd texts, in all and for each other one, of a field that is one of numbers; see `prevail`."""
_MOST_DIGITS = 400
"""Of a decimal that becomes a whole number."""
_MOST_BITS = 1400
"""Of a whole number that has a text: Python writes no very long ones."""
_PLAIN = (int, bool, type(None))
_FLAT = (float, str, *_PLAIN)
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?\s*", re.ASCII)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
"""Digits and spaces of any script, as `float` reads them."""
_WHOLE_LABEL = re.compile(r"\s*([+-]?(?:0|[1-9]\d{0,399}))(?:\.0*)?\s*", re.ASCII)
_WITH_ZEROS = re.compile(r"(-?\d+)\.0+", re.ASCII)
_NO_WHOLE = re.compile(r"\s*[+-]?(?:\d*\.\d+|\d(?:\.\d+)?[eE][+-]\d\d+)\s*", re.ASCII)
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(\.\d{1,9})?", re.ASCII)
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1).toordinal()


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
    """Return a number as a float, None if it is missing, and the value if it is not a number."""
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


def entity_of(value: Any) -> float | None:
    """Return the number of the entity that a plain value names; None if it names none.

    >>> entity_of(7) == entity_of("7") == entity_of(7.0) == entity_of("7.00"), entity_of([7])
    (True, None)
    """
    text = text_of(value)
    return None if text is None else entity_number(without_zeros(text))


def without_zeros(text: str) -> str:
    """Return the text of a whole number without a fraction of zeros; any other as it is.

    >>> without_zeros("42.00"), without_zeros("-0.0"), without_zeros("007"), without_zeros("1.0.0")
    ('42', '0', '007', '1.0.0')
    """
    whole = _WITH_ZEROS.fullmatch(text) if ".0" in text else None
    return text if whole is None else "0" if whole[1] == "-0" else whole[1]


class Moment(NamedTuple):
    """A time in numbers.

    Attributes
    ----------
    elapsed : float
        Seconds since 1970-01-01 00:00 UTC; a time without an offset counts as UTC.
    day_sin, day_cos : float
        The time of day as an angle: 0 at midnight, a full turn a day. Like those of week and year
        it is that of the clock where the time was written, whatever its offset.
    week_sin, week_cos : float
        Time since Monday 00:00, a full turn a week.
    year_sin, year_cos : float
        Time since January 1 00:00, a full turn a year of 365 or 366 days.
    """

    elapsed: float
    day_sin: float
    day_cos: float
    week_sin: float
    week_cos: float
    year_sin: float
    year_cos: float


def parse_time(value: Any) -> Moment | None:
    """Return a date, a time, or a text that reads as one, in numbers; None for anything else.

    Texts are of ISO 8601: a date, and with it a time of day to the minute at least, behind a T or
    a space, and with that an offset or Z. Of objects it takes `datetime`, `date`, their subclasses
    (those of pandas) and NumPy's `datetime64`. What is finer than a microsecond is cut off.

    >>> parse_time("1970-01-05T06:00").elapsed / 3600.0
    102.0
    >>> [round(number, 3) for number in parse_time("1970-01-05T06:00+02:00")[:4]]
    [360000.0, 1.0, 0.0, 0.223]
    >>> parse_time("yesterday"), parse_time("2024-02-30"), parse_time("2024-03")
    (None, None, None)
    """
    time = as_datetime(value)
    try:
        return None if time is None else _moment(time)
    except Exception:  # of a time zone that is not ours
        return None


def milliseconds_of(value: Any) -> int | None:
    """Return a time in milliseconds since 1970; None if the value is not a time.

    A number is that already; a text is a time as of ISO 8601.

    Examples
    --------
    >>> milliseconds_of(1500), milliseconds_of("1970-01-01T00:00:02Z"), milliseconds_of("soon")
    (1500, 2000, None)
    """
    found: float | None = None
    value = plain(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and "_" not in value:
        with suppress(ValueError):
            found = float(value)
    if found is None:
        moment = parse_time(value)
        found = None if moment is None else 1000.0 * moment.elapsed
    return None if found is None or not abs(found) <= _LATEST else round(found)


def clock_of(value: Any) -> Moment | None:
    """Return the time of an event in numbers: `parse_time`'s, or that of milliseconds since 1970.

    >>> clock_of("1970-01-01T00:00:02Z") == clock_of(2000) == clock_of("2000")
    True
    """
    moment = parse_time(value)
    if moment is None and (found := milliseconds_of(value)) is not None:
        with suppress(OverflowError):
            moment = _moment(datetime(1970, 1, 1) + timedelta(milliseconds=found))
    return moment


def as_datetime(value: Any) -> datetime | None:
    """Return the time that a value is, or a text reads as, as `parse_time` has it; else None.

    >>> as_datetime("2024-02-29"), as_datetime(np.datetime64("2024-02-29T18:30"))
    (datetime.datetime(2024, 2, 29, 0, 0), datetime.datetime(2024, 2, 29, 18, 30))
    """
    try:
        if isinstance(value, str):
            if len(value) < 10 or value[4] != "-" or not _ISO.fullmatch(value):
                return None
            return datetime.fromisoformat(_as_iso(value))
        if not isinstance(value, date | np.datetime64) or is_no_time(value):
            return None
        found: Any = value
        if isinstance(value, np.datetime64):
            if not 0 < int(value.astype("datetime64[Y]").astype(int)) + 1970 < 10_000:
                return None
            found = value.astype("datetime64[us]").item()
        if isinstance(found, datetime):
            return found
        return datetime(found.year, found.month, found.day)
    except Exception:  # February 30, a subclass that is not ours
        return None


def is_no_time(value: Any) -> bool:
    """Return whether a value is the missing time of NumPy or pandas (NaT).

    >>> is_no_time(np.datetime64("NaT")), is_no_time(np.datetime64("2024-01-01"))
    (True, False)
    """
    return isinstance(value, date | np.datetime64) and bool(value != value)


def _as_iso(text: str) -> str:
    """Return a time as `datetime.fromisoformat` reads it."""
    text = text.replace("UTC", "Z")
    return text[:11] + text[11:].replace(" ", "")


def _moment(time: datetime) -> Moment:
    seconds = 3600.0 * time.hour + 60.0 * time.minute + time.second + 1e-6 * time.microsecond
    day, first = time.toordinal(), date(time.year, 1, 1).toordinal()
    year = date(time.year, 12, 31).toordinal() + 1 - first
    days = seconds / 86400.0
    turns = (days, (time.weekday() + days) / 7.0, (day - first + days) / year)
    angles = [2.0 * math.pi * turn for turn in turns]
    offset = time.utcoffset()
    elapsed = 86400.0 * (day - _EPOCH) + seconds
    if offset:
        elapsed -= offset.total_seconds()
    return Moment(elapsed, *(of(angle) for angle in angles for of in (math.sin, math.cos)))


def sort_key(name: Name) -> tuple[bool, Any]:
    """Numbered columns first, then names; each among themselves in order."""
    return isinstance(name, str), name


def show(value: object) -> str:
    """A value for a message, cut to a readable length."""
    try:
        text = shown(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def shortened(text: str, most: int = _LONGEST_TEXT) -> str:
    """Return the first characters of a text out of an event, as UTF-8 can have them.

    >>> shortened("a long one", 6), len(shortened(chr(0xD800), 6))  # half of a pair
    ('a long', 6)
    """
    return text[:most].encode("utf-8", "backslashreplace").decode()


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


def flatten(event: Mapping[Any, Any], ignore: tuple[Name, ...] = ()) -> dict[Name, Any]:
    """Nested objects with dotted names, ignored fields left out. Raises `Rejected`.

    >>> flatten({"a": {"b": 1, "c": {"d": 2}}, "e": 3}, ignore=("e",))
    {'a.b': 1, 'a.c.d': 2}
    """
    flat: dict[Name, Any] = {}
    _flatten_into(flat, event, "", frozenset(ignore), 0)
    return flat


def _flatten_into(
    flat: dict[Name, Any],
    event: Mapping[Any, Any],
    prefix: str,
    ignore: frozenset[Name],
    depth: int,
) -> None:
    if depth > _MAX_DEPTH:
        raise Rejected("wrong type", f"objects nested deeper than {_MAX_DEPTH}")
    for key, value in event.items():
        name = key if type(key) is str else _name(key)
        if prefix:
            name = f"{prefix}{name}"
        if name in ignore:
            continue
        if isinstance(value, dict) or (type(value) not in _FLAT and isinstance(value, Mapping)):
            _flatten_into(flat, value, f"{name}.", ignore, depth + 1)
            continue
        if type(name) is str:
            name = bounded(name)
        if name in flat:
            raise Rejected("duplicate column", f"{name!r} occurs twice in the event", name)
        flat[name] = value


def _name(key: Any) -> Name:
    """Return the name of a column for a key that is not plain text. Raises `Rejected`."""
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < 1 << 64:
        return int(key)
    if isinstance(key, tuple):
        return repr(key)  # River's n-grams are tuples of words
    raise Rejected("wrong type", f"{show(key)} cannot name a column")


def reader(
    encoding: str,
    fields: tuple[str, ...] | None,
    label: Name | None,
    delimiter: str = ",",
    read_record: ReadRecord | None = None,
) -> Callable[[Any], Mapping[Any, Any]]:
    """The function that reads one raw event of an encoding into named values.

    Empty CSV cells and a NaN instead of a float32 label become None; `read_record` reads
    records of a format. Raises `Rejected` for an event it cannot read, `BadRecord` at once where
    names or that are needed and not given.
    """
    if read_record is not None:
        return lambda value: _checked(read_record, value)
    if encoding == "json":
        return read_json
    if encoding == "dict":
        return read_dict
    if encoding == "csv":
        if fields is None:
            raise BadRecord("CSV records need the names of their cells (the header)")
        return lambda value: read_csv(value, fields, delimiter)
    if encoding == "float32":
        return lambda value: read_float32(value, fields, label)
    if encoding == "json-schema":
        return lambda value: read_json(_checked(json_body, value))
    if encoding in FRAMED:
        raise BadRecord(f"records of {encoding} need the format of their source")
    raise BadRecord(f"no encoding {encoding!r}; there are {', '.join(ENCODINGS)}")


def _checked(read: Callable[[Any], _T], value: Any) -> _T:
    """Return what a function makes of a raw event. Raises `Rejected` for its `BadRecord`."""
    try:
        return read(value)
    except Tombstone as error:
        raise Rejected(TOMBSTONE, str(error)) from None
    except BadRecord as error:
        raise Rejected("undecodable", str(error)) from None


def read_dict(value: Any) -> Mapping[Any, Any]:
    """The event itself, if it is a mapping."""
    if not isinstance(value, Mapping):
        raise Rejected("not an object", f"a {type(value).__name__}")
    return value


def _must_be_bytes(value: object) -> None:
    if not isinstance(value, bytes):
        what = "no value at all" if value is None else f"a {type(value).__name__}"
        raise Rejected("undecodable", f"bytes expected, not {what}")


def read_json(value: bytes) -> Mapping[str, Any]:
    """A JSON object; NaN and Infinity, which are not JSON, are read, to be named as such."""
    _must_be_bytes(value)
    try:
        event = msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        trouble = str(error)
        if "trailing characters" in trouble:
            trouble += "; an event is one object, and one line of a file holds one"
        event = _lenient_json(value, trouble)
    if not isinstance(event, dict):
        raise Rejected("not an object", f"JSON {show(event)}")
    return event


def _lenient_json(value: bytes, trouble: str) -> Any:
    """Return the value by Python's own parser if a number in it is not finite."""
    found = False

    def constant(text: str) -> float:
        nonlocal found
        found = True
        return float(text)

    def number(text: str) -> float:
        nonlocal found
        result = float(text)
        found = found or result in (float("inf"), float("-inf"))
        return result

    try:
        event = json.loads(value.decode("utf-8"), parse_constant=constant, parse_float=number)
    except (ValueError, RecursionError):
        raise Rejected("undecodable", trouble) from None
    if not found:
        raise Rejected("undecodable", trouble)
    return event


def read_csv(value: bytes, fields: tuple[str, ...], delimiter: str) -> dict[str, str | None]:
    """One CSV record under its header; an empty cell is None."""
    _must_be_bytes(value)
    try:
        cells = read_csv_cells(value, delimiter)
    except BadRecord as error:
        raise Rejected("undecodable", str(error)) from None
    if len(cells) != len(fields):
        raise Rejected("undecodable", f"{len(cells)} cells, the header has {len(fields)}")
    if cells[0].lstrip("\ufeff") == fields[0] and cells[1:] == list(fields[1:]):
        raise Rejected("header again", "the names of the columns again, not an event")
    return {name: cell or None for name, cell in zip(fields, cells, strict=True)}


def read_float32(
    value: bytes, fields: tuple[str, ...] | None, label: Name | None
) -> dict[Name, float | None]:
    """Little-endian float32 numbers under their names, or numbered with the label last."""
    _must_be_bytes(value)
    try:
        cells = np.frombuffer(value, dtype="<f4").tolist()
    except ValueError:
        raise Rejected(
            "undecodable", f"{len(value)} bytes are not a whole number of float32 numbers"
        ) from None
    names: list[Name]
    if fields is not None:
        names = list(fields)
    elif label is None:
        names = list(range(len(cells)))
    else:
        names = [*range(len(cells) - 1), label]
    if len(cells) != len(names):
        raise Rejected("undecodable", f"{len(cells)} float32 numbers, {len(names)} expected")
    event: dict[Name, float | None] = dict(zip(names, cells, strict=True))
    if label is not None and event.get(label) != event.get(label):
        event[label] = None
    return event
