"""The columns of an event's array and its label: chosen, or met along the stream.

A number or a boolean in field `c` is column "c"; a text `s` is column "c=s" with value 1; a time is
the columns "c@elapsed" to "c@year_cos"; the words of a text are "c:word" each, where these hardly
repeat; an entity is the column "c@entity" (`streamk.encoding.columns` has the rules). Nested
objects flatten with dots.
"""

from __future__ import annotations

import copy
import difflib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from connectors.errors import BadRecord
from streamk.encoding.values import Moment, Name
from streamk.encoding.words import Tally, is_word
from streamk.memory import ENTITY
from streamk.state import FORMAT

Kind = Literal["number", "text", "time", "words", "entity", "clock"]
SAID: Mapping[Kind, str] = {
    "words": "field of texts",
    "entity": "entity",
    "clock": "time of the events",
}
"""Kinds that fields have because somebody says so, and what such a field is in a sentence."""
LabelType = Literal["bool", "int", "str", "float"]
Mode = Literal["open", "strict", "fixed"]
Absent = Literal["zero", "missing"]
MAX_COLUMNS = 16_384
"""Default cap on columns: 1,024 events are then at most 128 MiB."""
_CHOICES: dict[str, tuple[object, ...]] = {
    "label_type": (None, *get_args(LabelType)),
    "mode": get_args(Mode),
    "absent": get_args(Absent),
}
_MOST_NAMES = 1000
"""Names of other fields that are kept for hints."""
_DEPTH = 4
"""Of nested objects, down to where names are kept."""


@dataclass(frozen=True)
class Schema:
    """The columns of the array that events become, and the label.

    Parameters
    ----------
    columns : tuple of str or int, default ()
        Column j of the array. Only whole numbers (unnamed columns) and names.
    label : str, int or None
        The field that holds the label; None: events are only to be predicted.
    label_type : "bool", "int", "str" or "float", or None
        "float" is regression, the others are classes of that type alone. None with a label: any
        boolean, whole number or text is a class.
    kinds : mapping of field to "number", "text", "time", "words", "entity" or "clock"
        What it has held first, or "words" if its texts are bags of words, "entity" if it names one,
        "clock" if it is the time of the events; left out, every column is a number. A field `c`
        owns the columns "c", "c=...", "c:...", "c@entity" and "c@elapsed" to "c@year_cos".
    classes : tuple or None
        The only labels allowed; None allows any of the right type.
    mode : "open", "strict" or "fixed"
        Fate of a field or a text that is not known: a new trailing column, a rejected event, or
        none, as if it were not there. Without columns, a strict schema has those of the first event
        learned. With "fixed" the source may lack the label.
    absent : "zero" or "missing"
        Value of the columns of a field that an event lacks: 0, or NaN. A null is NaN in any case.
    ignore : tuple of str or int
        Fields (nested ones with dots) that are not read at all.
    max_columns : int
        An event that would lead past this many columns is rejected.
    words : mapping of field to Tally
        Words that wait for a column, see `streamk.encoding.words`.

    Raises
    ------
    BadRecord
        For a combination that makes no sense; the message says which.

    Examples
    --------
    >>> Schema(("a", "b"), label="y", label_type="int").is_classification
    True
    """

    columns: tuple[Name, ...] = ()
    label: Name | None = None
    label_type: LabelType | None = None
    kinds: Mapping[Name, Kind] = field(default_factory=dict)
    classes: tuple[Any, ...] | None = None
    mode: Mode = "open"
    absent: Absent = "zero"
    ignore: tuple[Name, ...] = ()
    max_columns: int = MAX_COLUMNS
    words: Mapping[Name, Tally] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.kinds:
            object.__setattr__(self, "kinds", dict.fromkeys(self.columns, "number"))
        if self.label is None and self.label_type is not None:
            raise BadRecord(f"a schema of label_type {self.label_type!r} needs a label")
        if len(set(self.columns)) != len(self.columns):
            twice = [name for name, n in Counter(self.columns).items() if n > 1]
            raise BadRecord(f"column {twice[0]!r} occurs twice in the schema")
        if len(self.columns) > self.max_columns:
            raise BadRecord(_too_many(self.columns, self.max_columns))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                known = ", ".join(repr(choice) for choice in allowed)
                raise BadRecord(f"{name} is {getattr(self, name)!r}; it must be one of {known}")
        for owner, kind in self.kinds.items():
            if kind not in get_args(Kind):
                known = ", ".join(map(repr, get_args(Kind)))
                raise BadRecord(f"field {owner!r} is of kind {kind!r}; it must be one of {known}")
        for column in self.columns:
            self.owner(column)

    @property
    def is_classification(self) -> bool:
        """True if the label is a class. False without a label."""
        return self.label is not None and self.label_type != "float"

    def owner(self, column: Name) -> Name:
        """The field that a column is made from.

        >>> Schema(("c=x", "n"), kinds={"c": "text", "n": "number"}).owner("c=x")
        'c'
        """
        return owner_of(column, self.kinds)

    def extended(self, columns: Sequence[Name], kinds: Mapping[Name, Kind]) -> Schema:
        """The same schema with new trailing columns and new fields."""
        return replace(self, columns=(*self.columns, *columns), kinds={**self.kinds, **kinds})

    def counting(self, words: Mapping[Name, Tally]) -> Schema:
        """The same schema with other words that wait, made without looking at all columns again."""
        made = copy.copy(self)
        object.__setattr__(made, "words", words)
        return made

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can hold and that `from_json` reads back as an equal schema."""
        words = [[name, *tally] for name, tally in self.words.items()]
        return {
            "format": FORMAT,
            "columns": list(self.columns),
            "label": self.label,
            "label_type": self.label_type,
            # Pairs, not an object: a JSON object would turn the column 3 into the column "3".
            "kinds": [[name, kind] for name, kind in self.kinds.items()],
            "classes": None if self.classes is None else list(self.classes),
            "mode": self.mode,
            "absent": self.absent,
            "ignore": list(self.ignore),
            "max_columns": self.max_columns,
            **({"words": words} if words else {}),
        }

    @classmethod
    def from_json(cls, data: Any) -> Schema:
        """The schema that `to_json` wrote. Raises `BadRecord` if it is not one."""
        found = data.get("format") if isinstance(data, Mapping) else data
        if not isinstance(data, Mapping) or found != FORMAT:
            raise BadRecord(f"not a schema of format {FORMAT}: its format is {found!r}")
        try:
            classes = data["classes"]
            return cls(
                columns=tuple(data["columns"]),
                label=data["label"],
                label_type=data["label_type"],
                kinds={name: kind for name, kind in data["kinds"]},  # noqa: C416 checks pairs
                classes=None if classes is None else tuple(classes),
                mode=data["mode"],
                absent=data["absent"],
                ignore=tuple(data["ignore"]),
                max_columns=data["max_columns"],
                words={name: Tally.from_json(tally) for name, *tally in data.get("words", ())},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadRecord(f"not a schema: {error!r}") from error


def owner_of(column: Name, fields: Container[Name]) -> Name:
    """Return the field, one of these, that a column is made from. Raises `BadRecord` if none is."""
    if column in fields:
        return column
    for owner in _owners(str(column)):
        if owner in fields:
            return owner
        if owner.isdecimal() and int(owner) in fields:
            return int(owner)
    raise BadRecord(f"column {column!r} belongs to no field of the schema's kinds")


def _owners(column: str) -> Iterator[str]:
    """The fields that a column may be made from, the longest name first.

    >>> list(_owners("a=b=c")), list(_owners("a=b@elapsed"))
    (['a=b', 'a'], ['a=b', 'a'])
    >>> list(_owners("=x")), list(_owners("a:b:c"))  # the first one of the field without a name
    ([''], ['a:b'])
    """
    field, mark, part = column.rpartition("@")
    if mark and (part in Moment._fields or mark + part == ENTITY):
        yield field
    field, mark, part = column.rpartition(":")
    if mark and is_word(part):
        yield field
    at = column.rfind("=")
    while at >= 0:
        yield column[:at]
        at = column.rfind("=", 0, at)


def vector_of(name: Name) -> str | None:
    """Return the field whose vectors a field with such a name is a number of; None where none is.

    >>> vector_of("c.7"), vector_of("c.d"), vector_of(7)
    ('c', None, None)
    """
    vector, _, place = str(name).rpartition(".")
    return vector if vector and place.isdecimal() else None


def _too_many(columns: Sequence[Name], most: int) -> str:
    owners = Counter(str(column).partition("=")[0] for column in columns)
    name, n = owners.most_common(1)[0]
    advice = f"field {name!r} alone has {n} values; ignore it or " if n > 1 else ""
    return f"{len(columns)} columns, {most} allowed: {advice}raise max_columns"


class BadEvent(NamedTuple):
    """An event that was not decoded: which of the values, the column, "kind: explanation"."""

    row: int
    column: Name | None
    reason: str

    @property
    def kind(self) -> str:
        """One of `streamk.encoding.values.BAD_KINDS`."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events in arrays, and those that could not be decoded.

    Attributes
    ----------
    X : float64 array (n_good, d)
        d counts the new columns too; may be a view of the source's own array: do not write to it.
    y : list (n_good,)
        Labels: str, int or bool for classes, float for quantities, None for "only predict".
    good : int64 array (n_good,)
        Index of each row in the values given.
    bad : list of BadEvent, by row
    growth : list of (row of X, columns with it)
        The events that brought columns, which none before them has.
    """

    X: npt.NDArray[np.float64]
    y: list[Any]
    good: npt.NDArray[np.int64]
    bad: list[BadEvent]
    growth: list[tuple[int, int]]


class Expected:
    """The fields that were named and have not come yet.

    Parameters
    ----------
    names : iterable of str or int
        Nested fields with dots.

    Attributes
    ----------
    absent : list of str or int
        Those of the names that no event has had.

    Examples
    --------
    >>> expected = Expected(["color", "user.id"])
    >>> expected.note({"colour": "red", "user": {"id": 7}})
    >>> expected.absent, expected.hint("color")
    (['color'], "; nearest of those that came: 'colour'")
    """

    def __init__(self, names: Iterable[Name]) -> None:
        self.absent = list(dict.fromkeys(names))
        self._others: dict[str, None] = {}

    def note(self, event: Mapping[Any, Any]) -> None:
        """Look at the names of an event, or of a header."""
        self.absent = [name for name in self.absent if not _holds(event, name)]
        if self.absent:
            for name in _names(event, "", _DEPTH):
                if len(self._others) == _MOST_NAMES:
                    break
                self._others[name] = None

    def note_seen(self, name: Name | None) -> None:
        """Take note that a field has come."""
        if name in self.absent:
            self.absent.remove(name)

    def hint(self, name: Name) -> str:
        """Return which fields have come that may have been meant."""
        near = difflib.get_close_matches(str(name), self._others, 3)
        words = "nearest of those that came" if near else "there are"
        shown = near or list(self._others)[:5]
        return f"; {words}: {', '.join(map(repr, shown))}" if shown else ""


def _holds(event: Mapping[Any, Any], name: Name) -> bool:
    if name in event:
        return True
    parts = str(name).split(".")
    for at in range(1, len(parts)):
        inner = event.get(".".join(parts[:at]))
        if isinstance(inner, Mapping) and _holds(inner, ".".join(parts[at:])):
            return True
    return False


def _names(event: Mapping[Any, Any], prefix: str, depth: int) -> Iterator[str]:
    for key, value in event.items():
        if isinstance(value, Mapping) and depth:
            yield from _names(value, f"{prefix}{key}.", depth - 1)
        yield f"{prefix}{key}"
