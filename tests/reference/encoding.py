"""The rules by which events become columns (`streamk.encoding.columns`), as plainly as possible.

Events are flat dicts of numbers, texts and None that are all learned, one after the other.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

OWN, SHARED = 256, 64


def encode(
    events: Iterable[Mapping[str, Any]], *, absent: float = 0.0
) -> Iterator[tuple[list[str], list[float]]]:
    """Yield the columns after each event, and the event's numbers in them."""
    columns: list[tuple[str, str]] = []  # the field, and the column's name
    own: dict[str, set[str]] = {}
    begun: dict[str, str] = {}  # what a field has held first
    mixed: set[str] = set()  # fields that have held numbers or times
    for event in events:
        values: dict[str, float] = {}
        texts: set[str] = set()
        times: set[str] = set()
        missing: set[str] = set()
        for name, value in event.items():
            known = own.setdefault(name, set())
            of_texts = begun.get(name) == "text" and name not in mixed and not marks_alone(known)
            kind = kind_of(value, of_texts)
            if kind == "missing":
                missing.add(name)
                continue
            if kind == "text":
                some = value if isinstance(value, list) else [value]
                values |= Counter(f"{name}={label(as_text(text), known)}" for text in some)
                texts.add(name)
            elif kind == "number":
                values[name] = as_number(value)
                mixed.add(name)
            else:
                values |= {f"{name}@{part}": x for part, x in as_time(value).items()}
                times.add(name)
                mixed.add(name)
            if value != []:
                begun.setdefault(name, kind)
        fields = {name: name for name in event}
        fields |= {c: re.split("[=@]", c)[0] for c in values if c not in event}
        known_columns = {column for _, column in columns}
        new = sorted(column for column in values if column not in known_columns)
        columns += [(fields[column], column) for column in new]
        row = []
        for field, column in columns:
            if column in values:
                row.append(values[column])
            elif field in missing:
                row.append(math.nan)
            elif field not in event:
                row.append(absent)
            elif column == field:  # its number, where it holds a text or a time
                row.append(math.nan)
            else:  # another text, or a time where it holds something else
                row.append(math.nan if "@" in column else 0.0)
        yield [column for _, column in columns], row


def kind_of(value: Any, of_texts: bool) -> str:
    """Return what a value is in a field that is one of texts or not."""
    number = as_number(value)
    if value is None or value == "" or (number is not None and math.isnan(number)):
        return "missing"
    if isinstance(value, list) or of_texts:
        return "text"
    if number is not None:
        return "number"
    return "text" if as_time(value) is None else "time"


def marks_alone(texts: set[str]) -> bool:
    """Return whether few of a field's texts are marks among numbers."""
    odd = sum(as_number(text) is not None or as_time(text) is not None for text in texts)
    return odd >= 8 and odd >= 8 * (len(texts) - odd)


def label(text: str, known: set[str]) -> str:
    """Return a text as its column is called, or that of the column which it shares."""
    if text in known or len(known) < OWN:
        known.add(text)
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return f"#{int.from_bytes(digest, 'little') % SHARED}"


def as_text(value: Any) -> str:
    """Return a value as the text that JSON would have for it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_number(value: Any) -> float | None:
    """Return a number, or one that a text reads as; NaN is a missing one."""
    if isinstance(value, str):
        if value in ("", "NA", "N/A", "null", "#N/A"):
            return math.nan
        if value.lower() in ("true", "false"):
            return float(value.lower() == "true")
        head, *groups = value.partition(".")[0].lstrip("+-").split(",")
        if groups and 1 <= len(head) <= 3 and all(len(group) == 3 for group in groups):
            value = value.replace(",", "")
        try:
            return float(value) if "_" not in value else None
        except ValueError:
            return None
    if value is None or isinstance(value, datetime | list):
        return None
    return None if float(value) != value and value == value else float(value)


def as_time(value: Any) -> dict[str, float] | None:
    """Return the numbers of a time or of a text that reads as one."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value) if value[4:5] == "-" else None
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    local = value.replace(tzinfo=None)
    offset = value.utcoffset() or timedelta()
    day = timedelta(days=1)
    midnight = datetime(local.year, local.month, local.day)
    new_year, next_year = datetime(local.year, 1, 1), datetime(local.year + 1, 1, 1)
    turns = {
        "day": (local - midnight) / day,
        "week": (local - midnight + local.weekday() * day) / (7 * day),
        "year": (local - new_year) / (next_year - new_year),
    }
    found = {"elapsed": (local - offset - datetime(1970, 1, 1)).total_seconds()}
    for name, turn in turns.items():
        found[f"{name}_sin"] = math.sin(2 * math.pi * turn)
        found[f"{name}_cos"] = math.cos(2 * math.pi * turn)
    return found
