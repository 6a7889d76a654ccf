"""Dates and times as numbers: how long after 1970, and where in the day, the week and the year."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Moment", "as_datetime", "is_no_time", "parse_time"]

_ISO = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1).toordinal()


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


def as_datetime(value: Any) -> datetime | None:
    """Return the time that a value is, or a text reads as, as `parse_time` has it; else None.

    >>> as_datetime("2024-02-29"), as_datetime(np.datetime64("2024-02-29T18:30"))
    (datetime.datetime(2024, 2, 29, 0, 0), datetime.datetime(2024, 2, 29, 18, 30))
    """
    try:
        if isinstance(value, str):
            if len(value) < 10 or value[4] != "-" or not _ISO.fullmatch(value):
                return None
            return datetime.fromisoformat(_plain(value))
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


def _plain(text: str) -> str:
    """Return a time as `datetime.fromisoformat` of all versions reads it."""
    head, fraction, rest = text.replace("UTC", "Z").replace(" Z", "Z").partition(",")
    text = f"{head}.{rest}" if fraction else head
    if " " in text[11:]:
        text = text[:11] + text[11:].replace(" ", "")
    return text


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
