"""One raw event at a time into named values, with the reason where it cannot be read.

`streamk.encoding.named` takes this careful way for the events that its fast way refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from connectors.base import ENCODINGS
from connectors.cells import read_csv_cells
from connectors.errors import BadRecord
from connectors.records import FRAMED, ReadRecord, Tombstone, json_body
from streamk.encoding.meaning import bounded
from streamk.errors import shown

__all__ = [
    "BAD_KINDS",
    "TOMBSTONE",
    "Name",
    "Rejected",
    "flatten",
    "read_float32",
    "reader",
    "shortened",
    "show",
    "sort_key",
]

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
"""The kind of what is reported and is no event: a record that tells of a deletion."""

_MAX_DEPTH = 32
_PLAIN = (float, str, int, bool, type(None))


class Rejected(Exception):
    """An event cannot be used: `reason` is "kind: explanation", `column` where it lies."""

    def __init__(self, kind: str, detail: str, column: Name | None = None) -> None:
        super().__init__(kind, detail, column)
        self.column = column
        self.reason = f"{kind}: {detail}"


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


_LONGEST_TEXT = 1 << 12
"""Characters of a text in an output: events may have names that no topic takes."""


def shortened(text: str, most: int = _LONGEST_TEXT) -> str:
    """Return the first characters of a text out of an event, as UTF-8 can have them.

    >>> shortened("a long one", 6), len(shortened(chr(0xD800), 6))  # half of a pair
    ('a long', 6)
    """
    return text[:most].encode("utf-8", "backslashreplace").decode()


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
        if isinstance(value, dict) or (type(value) not in _PLAIN and isinstance(value, Mapping)):
            _flatten_into(flat, value, f"{name}.", ignore, depth + 1)
            continue
        if type(name) is str:
            name = bounded(name)
        if name in flat:
            raise Rejected("duplicate column", f"{name!r} stands twice in the event", name)
        flat[name] = value


def _name(key: Any) -> Name:
    """Return the name of a column for a key that is no plain text. Raises `Rejected`."""
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

    Empty CSV cells and a NaN in the place of a float32 label become None; `read_record` reads
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
    """A JSON object; NaN and Infinity, which are no JSON, are read, to be named as such."""
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


def read_csv(value: bytes, fields: tuple[str, ...], delimiter: str = ",") -> dict[str, str | None]:
    """One CSV record under its header; an empty cell is None."""
    _must_be_bytes(value)
    try:
        cells = read_csv_cells(value, delimiter)
    except BadRecord as error:
        raise Rejected("undecodable", str(error)) from None
    if len(cells) != len(fields):
        raise Rejected("undecodable", f"{len(cells)} cells, the header has {len(fields)}")
    if cells[0].lstrip("\ufeff") == fields[0] and cells[1:] == list(fields[1:]):
        raise Rejected("header again", "the names of the columns, which is no event")
    return {name: cell or None for name, cell in zip(fields, cells, strict=True)}


def read_float32(
    value: bytes, fields: tuple[str, ...] | None, label: Name | None
) -> dict[Name, float | None]:
    """Little-endian float32 numbers under their names, or numbered with the label last."""
    _must_be_bytes(value)
    try:
        cells = np.frombuffer(value, dtype="<f4").tolist()
    except ValueError:
        raise Rejected("undecodable", f"{len(value)} bytes are no whole float32 numbers") from None
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
