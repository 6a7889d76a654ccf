"""Events whose values have names (JSON, dict, CSV) into arrays.

Most events of a stream look like the one before. They take the fast way: JSON is parsed by
msgspec straight into a flat struct made for the fields, all numbers of an event are packed by one
call, and nothing is looked up by name. Whatever this way refuses (an absent field in a dict, a new
column, a number as text, an event that is wrong) is read again by the careful way,
`streamk.encoding.columns`, which has the rules; both give the same numbers.
"""

from __future__ import annotations

import csv
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence, Sized
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from connectors.cells import read_csv_cells
from connectors.errors import BadRecord
from connectors.records import ReadRecord
from streamk.backends.threads import sum_of_squares
from streamk.encoding.columns import ColumnTable, Event, TextColumns
from streamk.encoding.fast import (
    Fast,
    Read,
    ReadAll,
    Rowset,
    dict_reading,
    filling,
    framed_json_reading,
    json_reading,
    parsing,
    picker,
)
from streamk.encoding.labels import LabelReader
from streamk.encoding.schema import BadEvent, Decoded, Expected, Kind, Schema
from streamk.encoding.values import (
    MISSING,
    SAFE,
    Moment,
    Name,
    Rejected,
    clock_of,
    entity_of,
    flatten,
    parse_time,
    plain,
    reader,
)
from streamk.encoding.words import TRIAL

Floats = npt.NDArray[np.float64]

# What the fast way may meet in an event that it is not made for.
_REFUSALS = (
    BadRecord,
    Rejected,
    msgspec.MsgspecError,
    struct.error,
    csv.Error,
    RecursionError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
)

_NULL, _ABSENT, _TIME = -1, -2, -3
"""Instead of a text's column; times have `_TIME` and what is below."""


def _entity(value: Any, _times: list[Moment]) -> int:
    """Return the number of an entity, in place of a column's place."""
    if value is msgspec.UNSET:
        return _ABSENT
    value = plain(value)
    if value is None:
        return _NULL
    number = None if type(value) is float and abs(value) >= SAFE else entity_of(value)
    if number is None:
        raise LookupError
    return int(number)


def _clock(value: Any, times: list[Moment]) -> int:
    """Append the time of an event, as `NamedDecoder._lookup` says."""
    if value is msgspec.UNSET:
        return _ABSENT
    value = plain(value)
    if value is None:
        return _NULL
    moment = clock_of(value)
    if moment is None:
        raise LookupError
    times.append(moment)
    return _TIME + 1 - len(times)


_OF_KNOWN: dict[Kind | None, Callable[[Any, list[Moment]], int]] = {
    "entity": _entity,
    "clock": _clock,
}


class Decoder(ABC):
    """Decodes events of one encoding, one call after another in the order of the stream."""

    def __init__(self, schema: Schema, max_event_bytes: int) -> None:
        self.table, self._labels = ColumnTable(schema), LabelReader(schema)
        self._label, self._max = schema.label, max_event_bytes

    @property
    def schema(self) -> Schema:
        """The schema with every column met so far."""
        return self.table.schema

    @abstractmethod
    def decode(self, values: Sequence[Any]) -> Decoded:
        """Decode the events that can be decoded and report the others."""


class NamedDecoder(Decoder):
    """Decodes events whose values have names; see `streamk.encoding.decoders.decoder`."""

    def __init__(
        self,
        encoding: str,
        schema: Schema,
        fields: tuple[str, ...] | None,
        max_event_bytes: int,
        delimiter: str,
        expected: Expected,
        read_record: ReadRecord | None = None,
    ) -> None:
        super().__init__(schema, max_event_bytes)
        self._encoding, self._fields, self._ignore = encoding, fields, schema.ignore
        self._delimiter, self._expected = delimiter, expected
        self._missing, self._strict = schema.absent == "missing", schema.mode == "strict"
        self._read = reader(encoding, fields, schema.label, delimiter, read_record)
        self._fast: Fast | None = None
        self._made_of: tuple[int, ...] = ()
        self._unknown: list[int] = []
        self._nulls: set[Name] = set()
        """Fields without a column that were null in records of the fast way."""
        expected.note(dict.fromkeys(fields or ()))
        if encoding == "csv" and schema.label is not None and schema.label not in (fields or ()):
            if schema.mode != "fixed":
                raise BadRecord(
                    f"the label {schema.label!r} is not in the header"
                    f"{expected.hint(schema.label)} (the delimiter is {delimiter!r})"
                )
            self._label = None
        numbered = [name for name in schema.columns if isinstance(name, int)]
        if encoding != "dict" and numbered:
            raise BadRecord(
                f"column {numbered[0]} of the schema has a number as its name, but fields of "
                f"{encoding} are named by texts; name the columns by texts"
            )

    def decode(self, values: Sequence[Any]) -> Decoded:
        """Decode events; columns come with those to be learned."""
        slow: dict[int, tuple[Event, Any]] = {}
        bad: dict[int, BadEvent] = {}
        growth: list[tuple[int, int]] = []

        def careful(i: int) -> None:
            try:
                event, label, grown = self._careful(values[i])
            except Rejected as rejection:
                # Not the exception, whose frames would hold what holds it.
                bad[i] = BadEvent(i, rejection.column, rejection.reason)
                return
            slow[i] = event, label
            if grown:
                growth.append((i, len(self.table)))

        start = 0
        table = self.table  # nothing looks like anything yet, or texts may turn out to be words
        while start < len(values) and (not table.places or (table.trials and start < TRIAL)):
            careful(start)
            start += 1
        known = len(self.table.kinds)
        rows, refused = self._quick(values, start)
        numbers, kept, more = self._checked(rows)
        for i in sorted(refused + more):
            careful(i)
        if self._is_outdated(known):
            for row in kept:
                careful(rows.index[row])
            kept = []
        rejected = [bad[i] for i in sorted(bad)]
        X, y, good = self._assembled(rows, numbers, kept, slow)
        growth = [(int(np.searchsorted(good, i)), width) for i, width in growth]
        return Decoded(X, y, good, rejected, growth)

    def _is_outdated(self, known: int) -> bool:
        """Return whether what the careful way has brought changes events of the fast way.

        There were `known` fields with columns before.
        """
        fast, times = self._fast, self.table.times
        if self._nulls and len(self.table.kinds) > known:  # one of these may be a new one
            return True
        # Times have come to a field of numbers, see `_made_for`.
        return fast is not None and not times.keys().isdisjoint(fast.number_fields)

    # The fast way.

    def _way(self, values: Sequence[Any], start: int) -> Fast:
        """Return the fast way, made anew where fields have come or gained a number or a text."""
        table = self.table
        kinds: tuple[Sized, ...] = table.numbers, table.texts, table.times, table.words
        kinds = *kinds, table.entities
        made_of = *map(len, kinds), len(table.trials)
        if self._fast is None or made_of != self._made_of:
            self._fast, self._made_of = self._made_for(values, start), made_of
        return self._fast

    def _made_for(self, values: Sequence[Any], start: int) -> Fast:
        """A fast way for events with their fields in the order of the first readable one."""
        first: Mapping[Any, Any] = {}
        for value in values[start : start + 16]:
            try:
                first = self._read(value)
                break
            except Rejected:
                continue
        self._expected.note(first)
        label, ignored, table = self._label, self._ignore, self.table
        # A field of which there is no column yet goes the careful way, and one with numbers and
        # times: where it is absent, no number can stand for that. So do words, and texts while it
        # is not clear if they are words.
        having: dict[Kind, Container[Name]] = {
            "number": table.numbers,
            "text": table.texts.keys() - table.trials.keys(),
            "time": table.times,
            "words": (),
            "entity": table.entities,
            "clock": table.times,
        }
        kinds = {
            name: kind
            for name, kind in table.kinds.items()
            if name in having[kind] and not (name in table.numbers and name in table.times)
        }
        order = {name: i for i, name in enumerate(first)}
        names: list[Name] = [*kinds, *(name for name in ignored if name in order)]
        if label is not None:
            names.append(label)
        if self._encoding == "csv":
            names = list(self._fields or ())
            known = {*kinds, *ignored, label}
            self._unknown = [i for i, name in enumerate(names) if name not in known]
        else:
            # msgspec looks for a field from the place of the last one onwards.
            names.sort(key=lambda name: order.get(name, len(order)))
        used = [(i, name) for i, name in enumerate(names) if name not in ignored and name != label]
        # A field that has held a text first and a number later counts as text.
        numbers = [i for i, name in used if kinds.get(name) == "number"]
        pick = picker(numbers)
        read, read_all = self._reading(names)
        return Fast(
            read=read,
            read_all=read_all,
            numbers=parsing(pick, filled=False) if self._encoding == "csv" else pick,
            filled=parsing(pick, filled=True) if self._encoding == "csv" else filling(pick),
            number_fields=[names[i] for i in numbers],
            texts=[(i, name) for i, name in used if kinds.get(name) not in ("number", None)],
            label_at=None if label is None else names.index(label),
        )

    def _reading(self, names: list[Name]) -> tuple[Read, ReadAll]:
        if self._encoding == "csv":
            return self._csv_reading(), None
        if self._encoding == "dict":
            return dict_reading(names)
        kinds, absent = self._kinds_read()
        reading = json_reading(names, kinds, self._label, absent=absent, most=self._max)
        return framed_json_reading(*reading) if self._encoding == "json-schema" else reading

    def _kinds_read(self) -> tuple[dict[Name, Kind], float]:
        """Return the kinds of the fields that are read, and the number of one that is not there."""
        kinds = {name: kind for name, kind in self.table.kinds.items() if name not in self._ignore}
        return kinds, float("nan") if self._missing else 0.0

    def _csv_reading(self) -> Read:
        """Return the function from a record to its cells, one call for most of them."""
        width, unknown = len(self._fields or ()), self._unknown
        most, delimiter = self._max, self._delimiter

        def read(value: bytes) -> Sequence[Any]:
            if len(value) > most:
                raise ValueError
            text = value.decode()
            if '"' in text or "\r" in text or "\n" in text:
                cells = read_csv_cells(value, delimiter)
            else:
                cells = text.split(delimiter)
            if len(cells) != width or (unknown and any(cells[at] for at in unknown)):
                raise ValueError
            return cells

        return read

    def _quick(self, values: Sequence[Any], start: int) -> tuple[Rowset, list[int]]:
        """The events from `start` on that can go the fast way, and the index of the others."""
        rows = Rowset()
        refused: list[int] = []
        if start == len(values):
            return rows, refused
        fast = self._way(values, start)
        try:
            every = fast.read_all(values[start:] if start else values) if fast.read_all else None
        except _REFUSALS:
            every = None
        if every is not None and not fast.texts:
            at_once = self._packed(fast, every, start)
            if at_once is not None:
                return at_once, refused
        pack = struct.Struct(f"{len(fast.number_fields)}d").pack
        tables = [(i, self._lookup(name)) for i, name in fast.texts]
        read, numbers, label_at = fast.read, fast.numbers, fast.label_at
        for i in range(start, len(values)):
            try:
                cells = read(values[i]) if every is None else every[i - start]
                try:
                    packed = pack(*numbers(cells))
                except (struct.error, ValueError):
                    numbers = fast.filled  # where there is a null or a boolean, more will come
                    packed = pack(*numbers(cells))
                if tables:
                    rows.codes.append([find(cells[at], rows.times) for at, find in tables])
            except _REFUSALS:
                refused.append(i)
                continue
            rows.packed.append(packed)
            rows.index.append(i)
            if label_at is not None:
                rows.labels.append(cells[label_at])
        return rows, refused

    @staticmethod
    def _packed(fast: Fast, every: list[Sequence[Any]], start: int) -> Rowset | None:
        """Events from `start` on of which all values are there; None if some number is null."""
        try:
            numbers = np.fromiter(chain.from_iterable(map(fast.numbers, every)), np.float64)
        except TypeError:
            return None
        at = fast.label_at
        return Rowset(
            index=list(range(start, start + len(every))),
            packed=[numbers.tobytes()],
            labels=[] if at is None else list(map(itemgetter(at), every)),
        )

    def _lookup(self, name: Name) -> Callable[[Any, list[Moment]], int]:
        """Return the function from the text of a field to the place of its column.

        A time is appended to the list given, and the place is `_TIME` less its place there.
        """
        if (kind := self.table.kinds.get(name)) in _OF_KNOWN:
            return _OF_KNOWN[kind]
        places = self.table.texts.get(name, TextColumns())
        has_times, odd = name in self.table.times, places.odd

        def find(text: Any, times: list[Moment]) -> int:
            if text is None or text in MISSING:
                return _NULL
            if text is msgspec.UNSET:
                return _ABSENT
            if text in odd:
                raise LookupError
            moment = parse_time(text) if has_times and text not in places else None
            if moment is None:
                return places[text]
            times.append(moment)
            return _TIME + 1 - len(times)

        return find

    def _checked(self, rows: Rowset) -> tuple[Floats, list[int], list[int]]:
        """The numbers of the fast rows, which rows are good, and the index of the others."""
        n = len(rows.index)
        fast = self._fast
        width = 0 if fast is None or not n else len(fast.number_fields)
        numbers = np.frombuffer(b"".join(rows.packed), dtype=np.float64).reshape(n, width)
        doubtful: set[int] = set()
        # A sum of squares is the fast way to see that all is well. What is larger may be infinite,
        # or a whole number that has lost digits.
        if numbers.size and not sum_of_squares(numbers) < SAFE * SAFE:
            doubtful = set(np.flatnonzero((np.abs(numbers) >= SAFE).any(axis=1)).tolist())
        if fast is not None and fast.label_at is not None:
            if self._encoding == "csv":
                rows.labels = [cell or None for cell in rows.labels]
            else:
                lacking = rows.labels.count(msgspec.UNSET)
                if lacking < n:
                    self._expected.note_seen(self._label)
                if lacking:
                    rows.labels = [None if x is msgspec.UNSET else x for x in rows.labels]
            rows.labels, refused = self._labels.many(rows.labels)
            doubtful.update(one.row for one in refused)
        else:
            rows.labels = [None] * n
        if not doubtful:
            return numbers, list(range(n)), []
        kept = [row for row in range(n) if row not in doubtful]
        return numbers, kept, [rows.index[row] for row in sorted(doubtful)]

    # The careful way.

    def _careful(self, value: Any) -> tuple[Event, Any, bool]:
        """Read one event: its values, its label, and whether it brought columns.

        Raises `Rejected`.
        """
        if isinstance(value, bytes) and len(value) > self._max:
            raise Rejected("oversized", f"{len(value)} bytes, {self._max} allowed")
        found = self._read(value)
        if self._expected.absent:
            self._expected.note(found)
        fields = flatten(found, self._ignore)
        label = None
        if self._label is not None:
            if isinstance(found.get(self._label), Mapping):  # whose fields are not features
                self._labels.one(found[self._label])
            label = self._labels.one(fields.pop(self._label, None))
        event = self.table.read(fields)
        # An event that is not learned brings no columns, unless none is ever learned.
        strict = self._strict and len(self.table) > 0
        learned = label is not None or self._label is None
        return event, label, (learned or strict) and self.table.admit(event, learned=learned)

    # Both together.

    def _assembled(
        self,
        rows: Rowset,
        numbers: Floats,
        kept: list[int],
        slow: dict[int, tuple[Event, Any]],
    ) -> tuple[Floats, list[Any], npt.NDArray[np.int64]]:
        """X, labels and index of all good events, in their order."""
        table, fast = self.table, self._fast
        fields = [] if fast is None or not rows.index else fast.number_fields
        if len(kept) < len(numbers):
            numbers = numbers[kept]
        index = np.array([rows.index[row] for row in kept], dtype=np.int64)
        labels = [rows.labels[row] for row in kept]
        places = [table.numbers[name] for name in fields]
        if not slow and len(places) == len(table.places):
            in_order = places == list(range(len(places)))
            return (numbers if in_order else numbers[:, np.argsort(places)]), labels, index
        good = np.array(sorted({*index.tolist(), *slow}), dtype=np.int64)
        at = np.searchsorted(good, index)
        X = np.zeros((len(good), len(table)))
        y: list[Any] = [None] * len(good)
        for label, place in zip(labels, at.tolist(), strict=True):
            y[place] = label
        if len(at):
            quick = X if not slow else np.zeros((len(at), len(table)))
            codes = [rows.codes[row] for row in kept if rows.codes]
            self._fill(quick, numbers, places, codes, rows.times)
            X[at] = quick
        for i, (event, label) in slow.items():
            place = int(np.searchsorted(good, i))
            X[place], y[place] = table.row(event), label
        return X, y, good

    def _fill(
        self,
        X: Floats,
        numbers: Floats,
        places: list[int],
        codes: list[list[int]],
        times: list[Moment],
    ) -> None:
        """Write the rows that went the fast way; what `ColumnTable.row` makes of such events."""
        table, fast = self.table, self._fast
        assert fast is not None
        X[:, table.never_zero] = np.nan
        if self._missing:  # fields that the fast way does not read are absent
            X[...] = np.nan
        for at in self._unknown:  # cells that are empty, of fields that have columns only by now
            X[:, table.places_of(self._fields[at])] = np.nan  # type: ignore[index]
        X[:, places] = numbers
        for j, name in enumerate(fast.number_fields):
            if name in table.texts:
                null = np.isnan(numbers[:, j])[:, None]
                X[:, table.texts[name].places] = np.where(null, np.nan, 0.0)
        found = np.array(codes, dtype=np.int64).reshape(len(X), len(fast.texts))
        for j, (_, name) in enumerate(fast.texts):
            code = found[:, j]
            lacking = (code == _NULL) | (self._missing & (code == _ABSENT))
            if name in table.entities:
                X[:, table.entities[name]] = np.where(code >= 0, code, np.nan)
                continue
            holds = (code != _ABSENT) | self._missing | (table.kinds[name] == "clock")
            if name in table.texts:
                X[:, table.texts[name].places] = np.where(lacking[:, None], np.nan, 0.0)
            if name in table.numbers:
                X[:, table.numbers[name]] = np.where(holds, np.nan, 0.0)
            has = np.flatnonzero(code >= 0)
            X[has, code[has]] = 1.0
            if name in table.times:
                own = table.times[name]
                X[:, list(own.values())] = np.where(holds[:, None], np.nan, 0.0)
                has = np.flatnonzero(code <= _TIME)
                found_times = np.array(times).reshape(-1, len(Moment._fields))[_TIME - code[has]]
                for part, place in own.items():
                    X[has, place] = found_times[:, Moment._fields.index(part)]
