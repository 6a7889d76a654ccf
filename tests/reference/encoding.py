"""The rules by which events become columns (`streamk.encoding.columns`), as plainly as possible.

Events are flat dicts of numbers, texts and None that are all learned, one after the other.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

OWN, SHARED = 256, 64
TRIAL, REPEATED, SINGLE = 64, 8, 2
WORDS, EVENTS, PART, WAITING = 1024, 3, 8, 4096


class FreeText:
    """The texts of a field that is one of words, or may become one."""

    def __init__(self, *, is_words: bool = False) -> None:
        self.is_words, self.is_over = is_words, is_words
        self.texts: list[str] = []
        self.own: set[str] = set()  # words that have columns
        self.seen: dict[str, int] = {}  # events of the others

    def take(self, text: str) -> set[str]:
        """Return the words that get a column with a text."""
        words, new = set(split(text)), set()
        seen = self.seen | {w: min(self.seen.get(w, 0) + 1, EVENTS) for w in words - self.own}
        if self.is_words and len(self.own) < WORDS:
            ready = sorted(word for word, n in seen.items() if n == EVENTS)
            if len(ready) >= max(1, min(len(self.own) // PART, WORDS - len(self.own))):
                new = set(ready[: WORDS - len(self.own)])
        self.own |= new
        self.seen = {word: n for word, n in seen.items() if word not in self.own}
        if len(self.seen) > WAITING:
            self.seen = {word: n - 1 for word, n in self.seen.items() if n > 1}
        if len(self.own) == WORDS:
            self.seen = {}
        return new

    def judge(self, text: str) -> None:
        """See if the field is one of words, now that it has had another text."""
        if self.is_over:
            return
        self.take(text)
        self.texts.append(text)
        several = [text for text in self.texts if len(text.split()) > 1]
        repeated = len(several) - len(set(several))
        if repeated > REPEATED or len(self.texts) - 2 * len(several) > SINGLE:
            self.is_over = True
        elif len(several) == TRIAL:
            self.is_over = self.is_words = True


def split(text: str) -> list[str]:
    """Return the words of a text: what stands between characters that are in none."""
    text = unicodedata.normalize("NFC", text.lower())
    parts = "".join(c if c.isalnum() or c == "_" else " " for c in text).split(" ")
    return [word for word in parts if word and len(word.encode()) <= 256]


def encode(
    events: Iterable[Mapping[str, Any]],
    *,
    absent: float = 0.0,
    words: Iterable[str] = (),
    entities: Iterable[str] = (),
    clock: str | None = None,
) -> Iterator[tuple[list[str], list[float]]]:
    """Yield the columns after each event, and the event's numbers in them."""
    columns: list[tuple[str, str]] = []  # the field, and the column's name
    own: dict[str, set[str]] = {}
    begun: dict[str, str] = {}  # what a field has held first
    mixed: set[str] = set()  # fields that have held numbers or times
    free = {name: FreeText(is_words=True) for name in words}
    for event in events:
        values: dict[str, float] = {}
        texts: set[str] = set()
        times: set[str] = set()
        missing: set[str] = set()
        gained: dict[str, str] = {}  # words that get a column
        for name, value in event.items():
            if name == clock or name in entities:
                if kind_of(value, True) != "missing":
                    values |= moment_of(name, value) if name == clock else entity_of(name, value)
                continue
            text = free.get(name)
            if text is not None and text.is_words and kind_of(value, True) != "missing":
                joined = " ".join(map(as_text, value if isinstance(value, list) else [value]))
                gained |= {f"{name}:{word}": name for word in text.take(joined)}
                values |= {f"{name}:{word}": 1.0 for word in split(joined) if word in text.own}
                texts.add(name)
                continue
            known = own.setdefault(name, set())
            of_texts = begun.get(name) == "text" and name not in mixed and not marks_alone(known)
            kind = kind_of(value, of_texts)
            if kind == "missing":
                missing.add(name)
                continue
            if kind == "text":
                if not isinstance(value, list) and name not in begun:
                    text = free.setdefault(name, FreeText())
                if text is not None and name not in mixed and not isinstance(value, list):
                    text.judge(as_text(value))
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
        fields |= {c: re.split("[=@:]", c)[0] for c in values if c not in event} | gained
        known_columns = {column for _, column in columns}
        new = sorted(column for column in {*values, *gained} if column not in known_columns)
        columns += [(fields[column], column) for column in new]
        row = [
            values.get(column, math.nan)
            if field == clock or field in entities
            else number_of(values, column, field, absent, event, missing)
            for field, column in columns
        ]
        yield [column for _, column in columns], row


def entity_of(name: str, value: Any) -> dict[str, float]:
    """Return the column of an entity, by 52 bits of a hash of its text."""
    text = re.sub(r"^(-?[0-9]+)\.0+$", r"\1", as_text(value))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return {f"{name}@entity": float(int.from_bytes(digest, "little") >> 12)}


def moment_of(name: str, value: Any) -> dict[str, float]:
    """Return the columns of the time of an event, which may be in milliseconds."""
    number = as_number(value)
    if number is not None:
        value = (datetime(1970, 1, 1) + timedelta(milliseconds=number)).isoformat()
    return {f"{name}@{part}": x for part, x in as_time(value).items()}


def number_of(
    values: Mapping[str, float],
    column: str,
    field: str,
    absent: float,
    event: Mapping[str, Any],
    missing: set[str],
) -> float:
    """Return the number of an event in a column of a field."""
    if column in values:
        return values[column]
    if field not in event:
        return absent
    # Its number, where it holds a text or a time, or a time where it holds something else.
    others = column == field or "@" in column
    return math.nan if field in missing or others else 0.0


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
    if text in known or (len(known) < OWN and len(text.encode()) <= 256):
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
