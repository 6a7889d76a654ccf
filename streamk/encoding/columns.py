"""Columns that the fields of an event fill, and their numbers.

One set of rules for every way in: JSON, CSV and Parquet through the engine, dicts and frames
through the adapters. `streamk.encoding.values` says what a value is.

- A number or a boolean in field `c` is the value of column "c". So is a text that reads as one.
- A date or a time, or a text that reads as one, is a number in each of the seven columns
  "c@elapsed" to "c@year_cos", see `streamk.encoding.values`.
- Another text `s` is column "c=s" with value 1, and so is a whole number from 2**53 on, of which a
  float64 would lose digits. The first 256 texts of a field have a column each; any further one, and
  one of more than 256 bytes, goes to one of the 64 columns "c=#0" to "c=#63" by its hash. So a
  field takes 328 columns at most.
- Texts that hardly repeat and hold several words are bags of words: a word of field `c` is column
  "c:word" with value 1, if it is not rare. `streamk.encoding.words` says which fields and words.
- A field of the kind "entity" names one: the only column "c@entity" has its number, by its text, so
  that 7, "7" and "7.0" are one. The field of the kind "clock" has the time of the events: a time as
  above, or a number of milliseconds since 1970. Both are missing where an event lacks the field.
- A field that has begun with a text is a field of texts: what reads as a number or a time there,
  or is one, is a text too. Unless it was a mark such as "?": where eight texts read so, and eight
  times as many as do not, numbers are numbers from then on.
- A list is a bag: each text or number in it is column "c=s", whose value is how often it is there.
  But one of numbers, some of them with a decimal point, is a vector: columns "c.0", "c.1" and on.
- Where a field holds one of these, its texts are 0 but for the one it holds, and its numbers of
  other kinds are missing: NaN.
- A null, a NaN, an empty text and one such as "NA" (`streamk.encoding.values.MISSING`) are
  missing: NaN in all columns of the field.
- A field that the event lacks is 0 in all of its columns, or missing, as the schema says.
- A new column comes with the first event learned that has a value for it, and was 0 before. The
  new columns of one event are appended in order: numbered ones, then names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.encoding.schema import SAID, Kind, Schema, owner_of
from streamk.encoding.values import (
    SAFE,
    Moment,
    Name,
    Rejected,
    clock_of,
    entity_of,
    is_long,
    is_odd,
    parse_number,
    parse_time,
    plain,
    prevail,
    show,
    sort_key,
    text_of,
)
from streamk.encoding.words import Words, words_of
from streamk.features.columns import OWN, SHARED, column_key, is_shared
from streamk.memory import ENTITY

Numbers = NDArray[np.float64]
_MARKS = frozenset("=@:")
"""Characters behind a field's name in that of a column."""


class TextColumns(dict[Any, int]):
    """The place of the column of each text of a field.

    A text that shares a column is found by its hash. One that would need a new column, or reads
    as a number or a time, raises KeyError.
    """

    def __init__(self) -> None:
        super().__init__()
        self.own = 0
        self.odd: set[str] = set()
        """Those that read as a number or a time."""
        self._shared: dict[str, int] = {}

    def add(self, text: str, place: int) -> None:
        """Give a text, or "#k" for those that share, a column."""
        if is_shared(text):
            self._shared[text] = place
        else:
            self[text] = place
            self.own += 1
            if is_odd(text):
                self.odd.add(text)

    def label(self, text: str, coming: int = 0) -> str:
        """Return how the text's column is called behind the field's name.

        So many others of the same event are about to get a column of their own.
        """
        if text in self or (self.own + coming < OWN and not is_long(text)):
            return text
        return f"#{column_key(text) % SHARED}"

    @property
    def places(self) -> list[int]:
        """Return the places of all columns of the field's texts."""
        return [*self.values(), *self._shared.values()]

    def __missing__(self, text: Any) -> int:
        shares = isinstance(text, str) and text and (self.own >= OWN or is_long(text))
        if not shares or is_odd(text):
            raise KeyError(text)
        return self._shared[self.label(text)]


@dataclass(slots=True)
class Event:
    """The values of an event in its columns.

    Attributes
    ----------
    cells : dict of column to float
        Columns that are not 0 or missing; also such as are not in the table.
    texts, numbers, times, missing : list of field
        Fields that hold a text, a number, a time, nothing.
    new : dict of column to field
        Those of `cells` that are not in the table, and words that get a column with this event.
    words : dict of field to list of str
        The words of fields of words.
    tried : dict of field to str
        Texts of fields that may become ones of words.
    """

    cells: dict[Name, float] = field(default_factory=dict)
    texts: list[Name] = field(default_factory=list)
    numbers: list[Name] = field(default_factory=list)
    times: list[Name] = field(default_factory=list)
    missing: list[Name] = field(default_factory=list)
    new: dict[Name, Name] = field(default_factory=dict)
    words: dict[Name, list[str]] = field(default_factory=dict)
    tried: dict[Name, str] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """True if this event changes a table."""
        return bool(self.new or self.words or self.tried)


class ColumnTable:
    """The columns of a stream so far.

    Parameters
    ----------
    schema : Schema
        The columns to begin with, and the fate of those that come later.

    Examples
    --------
    >>> table = ColumnTable(Schema())
    >>> event = table.read({"price": 3, "colour": "red", "size": None})
    >>> table.admit(event)
    True
    >>> table.schema.columns, table.row(event)
    (('colour=red', 'price'), array([1., 3.]))
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.places: dict[Name, int] = {}
        """The place of each column."""
        self.numbers: dict[Name, int] = {}
        """The place of the number of each field that has had one."""
        self.texts: dict[Name, TextColumns] = {}
        """The columns of the texts of each field that has had one."""
        self.times: dict[Name, dict[str, int]] = {}
        """The places of the parts of `Moment`, of each field that has had one."""
        self.words: dict[Name, Words] = {}
        """The words of each field of words."""
        self.entities: dict[Name, int] = {}
        """The place of the entity of each field that has had one."""
        self.never_zero: list[int] = []
        """Places of entities and of the clock, which are missing where an event lacks them."""
        self.trials: dict[Name, Words] = {}
        """Those of fields of texts that may become ones of words."""
        self.ignore = schema.ignore
        self.kinds: dict[Name, Kind] = dict(schema.kinds)
        self._owners: dict[Name, Name] = {}
        """The field of each column."""
        self._blank = np.nan if schema.absent == "missing" else 0.0
        for name, kind in self.kinds.items():
            tally = schema.words.get(name)
            if kind == "text":
                self.texts[name] = TextColumns()
                if tally is not None:
                    self.trials[name] = Words(tally)
            elif kind == "words":
                self.words[name] = Words(tally)
        self._counted = False
        """The words of some field are others than those in the schema."""
        for column in schema.columns:
            self._append(column, schema.owner(column))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def schema(self) -> Schema:
        """The schema with every column met so far."""
        known = len(self._schema.columns)
        if known < len(self.places) or self.kinds != self._schema.kinds:
            self._schema = self._schema.extended(list(self.places)[known:], self.kinds)
        if self._counted:
            counted = {**self.trials, **self.words}
            tallies = {name: words.tally for name, words in counted.items()}
            self._schema, self._counted = self._schema.counting(tallies), False
        return self._schema

    def read(self, fields: Mapping[Name, Any]) -> Event:
        """Find the columns of an event's fields, which are flat and do not include the label.

        Raises
        ------
        Rejected
            If a value is not usable, or two fields mean the same column.
        """
        event = Event()
        for name, cell in fields.items():
            self._take(event, name, cell)
        for name, words in event.words.items():  # when it is known for how many there is room
            self._take_words(event, name, words)
        return event

    def admit(self, event: Event, *, learned: bool = True) -> bool:
        """Append the columns of an event that are new; return whether there were any.

        One that is not `learned` is only checked, may be refused, and changes nothing.

        Raises
        ------
        Rejected
            If the schema is strict, or would become too large.
        """
        if not event.changes or self._schema.mode == "fixed":
            return False
        if event.new:
            self._check(event.new)
        if not learned:
            return False
        for column in sorted(event.new, key=sort_key):
            self._append(column, event.new[column])
        for name, words in event.words.items():
            self.words[name].note(words)
        for name, text in event.tried.items():
            self._try(name, text, is_new=f"{name}={text}" in event.new or is_long(text))
        self._counted = self._counted or bool(event.words or event.tried)
        return bool(event.new)

    def _check(self, new: Mapping[Name, Name]) -> None:
        """Raise `Rejected` where a strict schema, or one that is large, has no room for columns."""
        column = min(new, key=sort_key)
        schema = self._schema
        others = [one for one, owner in new.items() if self.kinds.get(owner) not in SAID]
        if schema.mode == "strict" and self.places and others:
            column = min(others, key=sort_key)
            raise Rejected("unknown column", f"{column!r} is not in the schema", column)
        most = schema.max_columns
        if len(self.places) + len(new) > most:
            raise Rejected(
                "too many columns", f"{column!r} would exceed max_columns={most}", column
            )
        self._check_owners(new)

    def _try(self, name: Name, text: str, *, is_new: bool) -> None:
        """Count a text of a field that may become one of words, and decide if it is time."""
        if name in self.numbers or name in self.times:
            self.trials.pop(name, None)
            return
        trial = self.trials.setdefault(name, Words())
        kind = trial.judge(text, is_new=is_new)
        if kind is None:
            return
        del self.trials[name]
        if kind == "words":
            self.words[name], self.kinds[name] = trial, kind

    def _check_owners(self, new: Mapping[Name, Name]) -> None:
        """Raise `Rejected` where the name of a column would be that of another field's, too.

        "a=b=c" is the text "c" of field "a=b" or the text "b=c" of "a".
        """
        coming = {owner for owner in new.values() if owner not in self.kinds}
        # A field without these marks in its name takes no column of another one.
        odd = any(isinstance(field, str) and not _MARKS.isdisjoint(field) for field in coming)
        fields = self.kinds.keys() | coming
        for column, owner in ({**self._owners, **new} if odd else new).items():
            other = owner_of(column, fields)
            if other != owner:
                raise Rejected(
                    "duplicate column", f"{column!r} is of {owner!r} and of {other!r}", column
                )

    def row(self, event: Event) -> Numbers:
        """Return an event as an array of shape (columns,), without columns not in the table."""
        row = np.full(len(self.places), self._blank)
        row[self.never_zero] = np.nan
        for held in (event.numbers, event.texts, event.times):
            for name in held:
                if self._blank:
                    row[self.text_places(name)] = 0.0
                if name in self.numbers and held is not event.numbers:
                    row[self.numbers[name]] = np.nan
                if name in self.times and held is not event.times:
                    row[list(self.times[name].values())] = np.nan
        for name in event.missing:
            row[self.places_of(name)] = np.nan
        for column, number in event.cells.items():
            place = self.places.get(column)
            if place is not None:
                row[place] = number
        return row

    def places_of(self, name: Name) -> list[int]:
        """Return the places of all columns of a field."""
        one = [places[name] for places in (self.numbers, self.entities) if name in places]
        return [*self.text_places(name), *one, *self.times.get(name, {}).values()]

    def text_places(self, name: Name) -> list[int]:
        """Return the places of the columns of a field's texts, and of their words."""
        texts = self.texts[name].places if name in self.texts else ()
        words = self.words[name].places.values() if name in self.words else ()
        return [*texts, *words]

    def _append(self, column: Name, owner: Name) -> None:
        place = self.places[column] = len(self.places)
        self._owners[column] = owner
        if column == owner:
            self.numbers[owner] = place
            self.kinds.setdefault(owner, "number")
            return
        mark, rest = str(column)[len(str(owner))], str(column)[len(str(owner)) + 1 :]
        if mark == "=":
            self.texts.setdefault(owner, TextColumns()).add(rest, place)
            self.kinds.setdefault(owner, "text")
            return
        if mark == ":":
            if owner not in self.words:  # of a model that was merged, or of kinds without it
                self.words[owner] = self.trials.pop(owner) if owner in self.trials else Words()
                self.kinds[owner] = "words"
            self.words[owner].add(rest, place)
            return
        if mark + rest == ENTITY:
            self.entities[owner] = place
            self.kinds.setdefault(owner, "entity")
        if self.kinds.get(owner) in ("entity", "clock"):
            self.never_zero.append(place)
        if owner in self.entities:
            return
        self.times.setdefault(owner, {})[rest] = place
        self.kinds.setdefault(owner, "time")

    def is_of_texts(self, name: Name) -> bool:
        """Return whether a field is one of texts, so that whatever it holds is a text."""
        texts = self.texts.get(name)
        others = name in self.numbers or name in self.times
        return texts is not None and not others and prevail(texts.own, len(texts.odd))

    def _take(self, event: Event, name: Name, cell: Any) -> None:
        value = plain(cell)
        if value is None:
            event.missing.append(name)
            return
        if self.kinds.get(name) in ("entity", "clock"):
            self._take_known(event, name, value)
            return
        if name in self.words and (text := _joined(value, name)) is not None:
            event.texts.append(name)
            event.words[name] = words_of(text)
            return
        if self.is_of_texts(name):
            text = text_of(value)
            if text is not None:
                self._take_text(event, name, text)
                return
        number = self._number(name, value)
        if number is None:
            self._take_other(event, name, value)
        elif number != number:
            event.missing.append(name)
        elif abs(number) > LARGEST:
            raise Rejected("inf", f"column {name!r} is {show(cell)}, past {LARGEST:g}", name)
        else:
            event.numbers.append(name)
            self._put(event, name, name, number)

    def _number(self, name: Name, value: Any) -> float | None:
        """Return the number that a value is, or reads as; None if it is none."""
        if not isinstance(value, str):
            # A whole number from 2**53 on is an id, of which a float64 would lose digits.
            is_number = isinstance(value, float) or (isinstance(value, int) and abs(value) < SAFE)
            return float(value) if is_number else None
        number = parse_number(value)
        if number is None or abs(number) <= LARGEST:
            return number
        # "Nan" and "Infinity" may be names, and 464e235 an id: these are numbers among numbers.
        if number != number:
            return number if self.kinds.get(name) == "number" else None
        return number if name in self.numbers and name not in self.texts else None

    def _take_other(self, event: Event, name: Name, value: Any) -> None:
        """Put the value of a field that is not a number into an event."""
        moment = parse_time(value)
        if moment is not None:
            self._take_moment(event, name, moment)
        elif isinstance(value, str):
            self._take_text(event, name, value)
        elif isinstance(value, list | tuple | set | frozenset):
            self._take_items(event, name, value)
        elif isinstance(value, int) and (text := text_of(value)) is not None:
            self._take_text(event, name, text)
        else:
            kinds = "a number, a boolean, a text, a time, a list or null"
            raise Rejected("wrong type", f"column {name!r} is {show(value)}, not {kinds}", name)

    def _take_known(self, event: Event, name: Name, value: Any) -> None:
        """Put the entity that a field names, or its time of the event, into an event."""
        if self.kinds[name] == "entity":
            number = entity_of(value)
            if number is not None:
                self._put(event, f"{name}{ENTITY}", name, number)
                return
            kinds = "a text, a whole number, a boolean or null, which name an entity"
        else:
            moment = clock_of(value)
            if moment is not None:
                self._take_moment(event, name, moment)
                return
            kinds = "a time, a number of milliseconds since 1970 or null"
        raise Rejected("wrong type", f"column {name!r} is {show(value)}, not {kinds}", name)

    def _take_moment(self, event: Event, name: Name, moment: Moment) -> None:
        event.times.append(name)
        for part, number in zip(Moment._fields, moment, strict=True):
            column = f"{name}@{part}"
            # The first time brings all parts whose names are free; a schema may have fewer.
            if part in self.times.get(name, ()) or not (
                name in self.times or column in self.places
            ):
                self._put(event, column, name, number)

    def _take_items(self, event: Event, name: Name, value: Any) -> None:
        items = [plain(item) for item in value]
        in_order = isinstance(value, list | tuple)
        if in_order and _is_vector(items, f"{name}.0" in self.places):
            for place, item in enumerate(items):
                self._take(event, f"{name}.{place}", item)
            return
        words = [_word(item, name) for item in items if item is not None]
        self._take_texts(event, name, words if in_order else sorted(words))

    def _take_text(self, event: Event, name: Name, text: str) -> None:
        """Put the text of a field, which is not a list, into an event."""
        if name in self.trials or (name not in self.kinds and self._schema.mode == "open"):
            event.tried[name] = text
        self._take_texts(event, name, [text])

    def _take_words(self, event: Event, name: Name, words: Sequence[str]) -> None:
        """Put the words of a field that have a column, or get one now, into an event."""
        known = self.words[name]
        room = self._schema.max_columns - len(self.places) - len(event.new)
        ready = known.coming(words) if room > 0 else []
        free = [word for word in ready if f"{name}:{word}" not in self.places]
        coming = dict.fromkeys(free[: max(0, room)])
        for word in words:
            if word in known.places or word in coming:
                self._put(event, f"{name}:{word}", name, 1.0)
        event.new.update(dict.fromkeys((f"{name}:{word}" for word in coming), name))

    def _take_texts(self, event: Event, name: Name, found: Iterable[str]) -> None:
        """Put the texts of a field, each as often as it is there, into an event."""
        event.texts.append(name)
        texts = self.texts.get(name) or TextColumns()
        counts: dict[str, float] = {}
        coming = 0
        for text in found:
            label = texts.label(text, coming)
            coming += label == text and text not in texts and text not in counts
            counts[label] = counts.get(label, 0.0) + 1.0
        for label, count in counts.items():
            self._put(event, f"{name}={label}", name, count)

    def _put(self, event: Event, column: Name, owner: Name, number: float) -> None:
        if column in event.cells:
            raise Rejected("duplicate column", f"{column!r} occurs twice in the event", column)
        event.cells[column] = number
        if column not in self.places:
            try:
                str(column).encode()
            except UnicodeEncodeError:
                raise Rejected("undecodable", f"{column!r} is not valid text", column) from None
            event.new[column] = owner


def _joined(value: Any, name: Name) -> str | None:
    """Return a value of a field of words as a text; None if it has none."""
    if isinstance(value, list | tuple | set | frozenset):
        words = [_word(item, name) for item in map(plain, value) if item is not None]
        return " ".join(words if isinstance(value, list | tuple) else sorted(words))
    return text_of(value)


def _is_vector(items: Sequence[Any], known: bool) -> bool:
    """Return whether items are numbers or None, some with fractions or of a `known` vector."""
    kinds = {type(item) for item in items if item is not None}
    return kinds <= {int, float} and (float in kinds or known)


def _word(item: Any, name: Name) -> str:
    text = text_of(item)
    if text is None:
        kinds = "a text, a number, a boolean, a time or null"
        raise Rejected(
            "wrong type", f"column {name!r} has {show(item)} in a list, not {kinds}", name
        )
    return text
