"""Events whose values have names (JSON, dict, CSV) into arrays.

Most events of a stream look like the one before. They take the fast way: JSON is parsed by
msgspec straight into a flat struct made for the schema (about 2.5 microseconds an event of 54
numbers), all numbers of an event are packed as float32 by one call, and nothing is looked up by
name. Whatever this way refuses (an absent field in a dict, a null, a new column, an event that
is wrong) is read again by the careful way, which knows what to do or what to say.
"""

from __future__ import annotations

import csv
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from connectors.errors import BadRecord
from connectors.labels import LabelReader
from connectors.records import (
    Name,
    Rejected,
    flatten,
    parse_number,
    read_csv_cells,
    reader,
    show,
    sort_key,
)
from connectors.schema import Kind, Schema

__all__ = ["NamedDecoder"]

Float32s = npt.NDArray[np.float32]
Int64s = npt.NDArray[np.int64]

# Halfway from the largest float32 to the next power of two: from here on rounding gives inf.
_FLOAT32_OVERFLOW = 3.4028235677973366e38

# What the fast way may meet in an event that it is not made for.
_REFUSALS = (
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


@dataclass(slots=True)
class _Fast:
    """How to read the events that look like the usual one.

    `read` gives the values of an event in a fixed order, `numbers` picks those to pack, `filled`
    does so with the absent ones filled in.
    """

    read: Callable[[Any], Sequence[Any]]
    numbers: Callable[[Sequence[Any]], Sequence[Any]]
    filled: Callable[[Sequence[Any]], Sequence[Any]]
    number_fields: list[Name]
    texts: list[tuple[int, Name]]
    label_at: int | None


@dataclass(slots=True)
class _Rowset:
    """The events that went the fast way, by columns."""

    index: list[int] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    codes: list[list[int]] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Event:
    """One event that went the careful way."""

    cells: dict[Name, float]
    texts: set[Name]
    label: Any
    new: dict[Name, Name]
    new_kinds: dict[Name, Kind]


class NamedDecoder:
    """Decodes json, dict and csv events; see `connectors.formats.decoder`."""

    def __init__(
        self, encoding: str, schema: Schema, fields: tuple[str, ...] | None, max_event_bytes: int
    ) -> None:
        self._encoding = encoding
        self._fields = fields
        self._max = max_event_bytes
        self._schema = schema
        self._read = reader(encoding, fields, schema.label)
        self._labels = LabelReader(schema, as_text=encoding == "csv")
        self._kinds: dict[Name, Kind] = dict(schema.kinds)
        self._columns: dict[Name, int] = {}
        # By text field: the column of each value. An absent field has the column -1.
        self._codes: dict[Name, dict[str | None, int]] = {}
        self._fast: _Fast | None = None
        self._unknown: list[int] = []
        if encoding == "csv" and schema.label is not None and schema.label not in (fields or ()):
            raise BadRecord(f"the label {schema.label!r} is not in the header")
        for name, kind in self._kinds.items():
            if kind == "text":
                self._codes[name] = {self._absent_text: -1}
        for column in schema.columns:
            self._add(column, schema.owner(column))

    @property
    def _absent_text(self) -> str | None:
        return "" if self._encoding == "csv" else None

    @property
    def _absent_number(self) -> float:
        return np.nan if self._schema.absent == "missing" else 0.0

    @property
    def schema(self) -> Schema:
        """The schema with every column met so far."""
        n = len(self._schema.columns)
        if n < len(self._columns):
            self._schema = self._schema.extended(list(self._columns)[n:], self._kinds)
        return self._schema

    def _add(self, column: Name, owner: Name) -> None:
        place = self._columns[column] = len(self._columns)
        if self._kinds[owner] == "text":
            self._codes[owner][str(column).partition("=")[2]] = place

    def decode(
        self, values: Sequence[Any]
    ) -> tuple[Float32s, list[Any], Int64s, dict[int, Rejected], tuple[Name, ...]]:
        """X, labels, index of the good events, rejections by index, new columns."""
        n_before = len(self._columns)
        if self._fast is None:
            self._fast = self._made_for(values)
        fast = self._fast
        rows, refused = self._quick(fast, values)
        numbers, kept, more = self._checked(fast, rows)
        slow: dict[int, _Event] = {}
        rejected: dict[int, Rejected] = {}
        for i in sorted(refused + more):
            try:
                slow[i] = self._careful(values[i])
            except Rejected as rejection:
                rejected[i] = rejection
        X, y, good = self._assembled(fast, rows, numbers, kept, slow)
        return X, y, good, rejected, tuple(self._columns)[n_before:]

    # The fast way.

    def _made_for(self, values: Sequence[Any]) -> _Fast:
        """A fast way for events with their fields in the order of the first readable one."""
        first: Mapping[Any, Any] = {}
        for value in values[:16]:
            try:
                first = self._read(value)
                break
            except Rejected:
                continue
        label, ignored = self._schema.label, self._schema.ignore
        order = {name: i for i, name in enumerate(first)}
        names: list[Name] = [*self._kinds, *(name for name in ignored if name in order)]
        if label is not None:
            names.append(label)
        if self._encoding == "csv":
            names = list(self._fields or ())
            known = {*self._kinds, *ignored, label}
            self._unknown = [i for i, name in enumerate(names) if name not in known]
        else:
            # msgspec looks for a field from the place of the last one onwards.
            names.sort(key=lambda name: order.get(name, len(order)))
        used = [(i, name) for i, name in enumerate(names) if name not in ignored and name != label]
        numbers = [i for i, name in used if self._kinds.get(name) == "number"]
        pick = _picker(numbers)
        absent = self._absent_number
        return _Fast(
            read=self._reading(names),
            numbers=_parsing(pick) if self._encoding == "csv" else pick,
            filled=_parsing(pick, absent) if self._encoding == "csv" else _filling(pick, absent),
            number_fields=[names[i] for i in numbers],
            texts=[(i, name) for i, name in used if self._kinds.get(name) == "text"],
            label_at=None if label is None else names.index(label),
        )

    def _reading(self, names: list[Name]) -> Callable[[Any], Sequence[Any]]:
        if self._encoding == "json":
            return self._json_reading(names)
        if self._encoding == "csv":
            return self._csv_reading
        n = len(names)

        def read(event: Any) -> Sequence[Any]:
            if len(event) != n:
                raise ValueError
            return [event[name] for name in names]

        if n < 2:
            return read
        pick = itemgetter(*names)

        def read_at_once(event: Any) -> Sequence[Any]:
            if len(event) != n:
                raise ValueError
            return pick(event)  # type: ignore[no-any-return]

        return read_at_once

    def _json_reading(self, names: list[Name]) -> Callable[[Any], Sequence[Any]]:
        fields: list[tuple[str, Any, Any]] = []
        for i, name in enumerate(names):
            if name == self._schema.label:
                kind: Any = bool | int | float | str | msgspec.UnsetType | None
                fields.append((f"f{i}", kind, msgspec.UNSET))
            elif name in self._schema.ignore:
                fields.append((f"f{i}", msgspec.Raw, msgspec.Raw()))
            elif self._kinds[name] == "text":
                fields.append((f"f{i}", str | None, None))
            else:
                fields.append((f"f{i}", float | bool | None, self._absent_number))
        try:
            shape = msgspec.defstruct(
                "Event",
                fields,
                rename={f"f{i}": str(name) for i, name in enumerate(names)},
                forbid_unknown_fields=True,
                gc=False,
            )
        except ValueError:
            # A name that msgspec cannot give to a field (a quote, a control character).
            return self._refuse
        decode, unpack, most = (
            msgspec.json.Decoder(shape).decode,
            msgspec.structs.astuple,
            self._max,
        )

        def read(value: bytes) -> Sequence[Any]:
            if len(value) > most:
                raise ValueError
            return unpack(decode(value))

        return read

    def _refuse(self, _value: Any) -> Sequence[Any]:
        raise ValueError

    def _csv_reading(self, value: bytes) -> Sequence[Any]:
        if len(value) > self._max:
            raise ValueError
        cells = read_csv_cells(value)
        if len(cells) != len(self._fields or ()) or any(cells[at] for at in self._unknown):
            raise ValueError
        return cells

    def _quick(self, fast: _Fast, values: Sequence[Any]) -> tuple[_Rowset, list[int]]:
        """The events that can go the fast way, and the index of the others."""
        rows = _Rowset()
        refused: list[int] = []
        pack = struct.Struct(f"{len(fast.number_fields)}f").pack
        tables = [(i, self._codes[name]) for i, name in fast.texts]
        read, numbers, label_at = fast.read, fast.numbers, fast.label_at
        for i, value in enumerate(values):
            try:
                cells = read(value)
                try:
                    packed = pack(*numbers(cells))
                except (struct.error, ValueError):  # most often a null or an empty cell
                    packed = pack(*fast.filled(cells))
                if tables:
                    rows.codes.append([table[cells[at]] for at, table in tables])
            except _REFUSALS:
                refused.append(i)
                continue
            rows.packed.append(packed)
            rows.index.append(i)
            if label_at is not None:
                rows.labels.append(cells[label_at])
        return rows, refused

    def _checked(self, fast: _Fast, rows: _Rowset) -> tuple[Float32s, list[int], list[int]]:
        """The numbers of the fast rows, which rows are good, and the index of the others."""
        n = len(rows.index)
        shape = (n, len(fast.number_fields))
        numbers = np.frombuffer(b"".join(rows.packed), dtype=np.float32).reshape(shape)
        wrong = np.isinf(numbers) if self._schema.absent == "missing" else ~np.isfinite(numbers)
        doubtful = set(np.flatnonzero(wrong.any(axis=1)).tolist()) if wrong.any() else set()
        if fast.label_at is not None:
            if self._encoding == "csv":
                rows.labels = [cell or None for cell in rows.labels]
            rows.labels, refused = self._labels.many(rows.labels)
            doubtful.update(refused)
        else:
            rows.labels = [None] * n
        if not doubtful:
            return numbers, list(range(n)), []
        kept = [row for row in range(n) if row not in doubtful]
        return numbers, kept, [rows.index[row] for row in sorted(doubtful)]

    # The careful way.

    def _careful(self, value: Any) -> _Event:
        """Read one event, adding its new columns if it is good. Raises `Rejected`."""
        if isinstance(value, bytes) and len(value) > self._max:
            raise Rejected("oversized", f"{len(value)} bytes, {self._max} allowed")
        fields = flatten(self._read(value), self._schema.ignore)
        event = _Event({}, set(), None, {}, {})
        label = self._schema.label
        if label is not None:
            if label not in fields:
                raise Rejected("label missing", f"the event has no field {label!r}", label)
            event.label = self._labels.one(fields.pop(label))
        for name, cell in fields.items():
            if cell is not None:
                self._take(event, name, cell)
        self._admit(event)
        return event

    def _take(self, event: _Event, name: Name, cell: Any) -> None:
        """Put one named value into the event's cells. Raises `Rejected`."""
        kind = self._kinds.get(name)
        if self._encoding == "csv" and kind != "text":
            number = parse_number(cell)
            cell = cell if number is None else number
        if isinstance(cell, str):
            column: Name = f"{name}={cell}"
            if kind == "number":
                raise Rejected("wrong type", f"{show(cell)} where a number belongs", name)
            if cell not in self._codes.get(name, ()):
                self._meet(event, column, name, "text")
            event.texts.add(name)
            self._put(event, column, 1.0)
        else:
            if kind == "text":
                raise Rejected("wrong type", f"{show(cell)} where text belongs", name)
            found = self._number(name, cell)
            if found is not None:
                if kind is None:
                    self._meet(event, name, name, "number")
                self._put(event, name, found)

    def _put(self, event: _Event, column: Name, number: float) -> None:
        if column in event.cells:
            raise Rejected("duplicate column", f"{column!r} stands twice in the event", column)
        event.cells[column] = number

    def _number(self, name: Name, cell: Any) -> float | None:
        """A number that float32 can hold; None for a NaN that means "missing"."""
        number = parse_number(cell)
        if number is None:
            raise Rejected("wrong type", f"{show(cell)} where a number belongs", name)
        if number != number:
            if self._schema.absent == "missing":
                return None
            raise Rejected("NaN", f"column {name!r} is not a number", name)
        if abs(number) >= _FLOAT32_OVERFLOW:
            raise Rejected("inf", f"column {name!r} is not finite in float32: {show(cell)}", name)
        return number

    def _meet(self, event: _Event, column: Name, owner: Name, kind: Kind) -> None:
        """Note a column that is not in the schema. Raises `Rejected` if it cannot be."""
        if self._schema.mode == "strict":
            raise Rejected("unknown column", f"{column!r} is not in the schema", column)
        if kind == "text" and "=" in str(owner):
            raise Rejected("wrong type", f"text field {owner!r} has '=' in its name", owner)
        if column in self._columns:
            raise Rejected("duplicate column", f"{column!r} already means another field", column)
        try:
            str(column).encode()
        except UnicodeEncodeError:
            raise Rejected("undecodable", f"{column!r} is no valid text", column) from None
        event.new[column] = owner
        if owner not in self._kinds:
            event.new_kinds[owner] = kind

    def _admit(self, event: _Event) -> None:
        """Append the new columns of a good event, sorted. Raises `Rejected` past the cap."""
        if not event.new:
            return
        most = self._schema.max_columns
        if len(self._columns) + len(event.new) > most:
            column = min(event.new, key=sort_key)
            raise Rejected(
                "too many columns", f"{column!r} would go past max_columns={most}", column
            )
        for owner, kind in event.new_kinds.items():
            self._kinds[owner] = kind
            if kind == "text":
                self._codes[owner] = {self._absent_text: -1}
            self._fast = None
        for column in sorted(event.new, key=sort_key):
            self._add(column, event.new[column])

    # Both together.

    def _assembled(
        self,
        fast: _Fast,
        rows: _Rowset,
        numbers: Float32s,
        kept: list[int],
        slow: dict[int, _Event],
    ) -> tuple[Float32s, list[Any], Int64s]:
        """X, labels and index of all good events, in their order."""
        if len(kept) < len(numbers):
            numbers = numbers[kept]
        index = np.array([rows.index[row] for row in kept], dtype=np.int64)
        places = np.array([self._columns[name] for name in fast.number_fields], dtype=np.int64)
        if not slow and len(places) == len(self._columns):
            in_order = np.array_equal(places, np.arange(len(places)))
            X = numbers if in_order else numbers[:, np.argsort(places)]
            return X, [rows.labels[row] for row in kept], index
        good = np.union1d(index, np.array(list(slow), dtype=np.int64))
        at = np.searchsorted(good, index)
        X = np.zeros((len(good), len(self._columns)), dtype=np.float32)
        y: list[Any] = [None] * len(good)
        for row, place in zip(kept, at.tolist(), strict=True):
            y[place] = rows.labels[row]
        if self._schema.absent == "missing":
            X[:, [self._columns[n] for n, kind in self._kinds.items() if kind == "number"]] = np.nan
        X[np.ix_(at, places)] = numbers
        codes = np.array([rows.codes[row] for row in kept] if rows.codes else [], dtype=np.int64)
        present: dict[Name, npt.NDArray[np.bool_]] = {}
        for j, (_, name) in enumerate(fast.texts):
            present[name] = np.zeros(len(good), dtype=bool)
            if len(codes):
                has = codes[:, j] >= 0
                X[at[has], codes[has, j]] = 1.0
                present[name][at[has]] = True
        for i, event in slow.items():
            place = int(np.searchsorted(good, i))
            y[place] = event.label
            X[place, [self._columns[column] for column in event.cells]] = list(event.cells.values())
            for name in event.texts:
                present.setdefault(name, np.zeros(len(good), dtype=bool))[place] = True
        if self._schema.absent == "missing":
            self._blank(X, present)
        return X, y, good

    def _blank(self, X: Float32s, present: Mapping[Name, npt.NDArray[np.bool_]]) -> None:
        """NaN in all columns of a text field for the events that lack it."""
        nobody = np.zeros(len(X), dtype=bool)
        for name, table in self._codes.items():
            lacking = np.flatnonzero(~present.get(name, nobody))
            owned = np.array([place for place in table.values() if place >= 0], dtype=np.int64)
            X[np.ix_(lacking, owned)] = np.nan


_Pick = Callable[[Sequence[Any]], Sequence[Any]]


def _picker(places: list[int]) -> _Pick:
    """The function that picks these places, which ascend, out of a sequence."""
    if not places:
        return lambda _cells: ()
    if places[-1] - places[0] == len(places) - 1:
        return itemgetter(slice(places[0], places[-1] + 1))
    return itemgetter(*places)


def _filling(pick: _Pick, absent: float) -> _Pick:
    """`pick` with `absent` in the place of None."""
    return lambda cells: [absent if cell is None else cell for cell in pick(cells)]


def _parsing(pick: _Pick, absent: float | None = None) -> _Pick:
    """`pick` with CSV cells parsed; with `absent`, that in the place of empty ones."""
    filler = str(absent)

    def parse(cells: Sequence[Any]) -> list[float]:
        chosen = pick(cells)
        if "_" in "".join(chosen):
            # Python reads 1_000 as a number, which no other reader of CSV does.
            raise ValueError
        if absent is not None:
            chosen = [cell or filler for cell in chosen]
        return list(map(float, chosen))

    return parse
