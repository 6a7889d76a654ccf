"""Raw events into arrays.

`decoder(encoding, schema).decode(values)` never raises for what is in an event: an event that
cannot be used is reported with its index, its column and the reason, and the others are decoded.
Columns and numbers depend on the sequence of events alone, not on its division into calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from connectors.base import ENCODINGS, MAX_EVENT_BYTES, Rows
from connectors.errors import BadRecord
from connectors.records import RecordFormat
from streamk.backends import LARGEST
from streamk.backends.threads import sum_of_squares
from streamk.encoding.columns import Event
from streamk.encoding.fast import Read, ReadAll, Rowset
from streamk.encoding.named import Decoder, NamedDecoder
from streamk.encoding.schema import BadEvent, Decoded, Expected, Schema
from streamk.encoding.values import Name, flatten, show

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


def decoder(
    encoding: str,
    schema: Schema,
    *,
    fields: tuple[str, ...] | None = None,
    max_event_bytes: int = MAX_EVENT_BYTES,
    delimiter: str = ",",
    expected: Expected | None = None,
    record_format: RecordFormat | None = None,
) -> Decoder:
    """The decoder of an encoding.

    Parameters
    ----------
    encoding : str
        One of `connectors.base.ENCODINGS`.
    schema : Schema
        The columns known so far; none are needed.
    fields : tuple of str, optional
        The source's `fields`; needed for "csv".
    max_event_bytes : int
        A longer event is not decoded (encodings of bytes).
    delimiter : str
        The character between the cells of "csv".
    expected : Expected, optional
        Takes note of the names that come.
    record_format : RecordFormat, optional
        That of the source; needed for "avro" and "protobuf".

    Raises
    ------
    BadRecord
        If fields and schema do not fit together.

    Examples
    --------
    >>> decoding = decoder("json", Schema(label="y"))
    >>> out = decoding.decode([b'{"a": 1, "b": 2.5, "y": 0}', b'{"a": 3}', b'{"a": '])
    >>> decoding.schema.columns, out.X, out.y
    (('a', 'b'), array([[1. , 2.5],
           [3. , 0. ]]), [0, None])
    >>> out.bad[0].row, out.bad[0].kind
    (2, 'undecodable')
    """
    if expected is None:
        expected = Expected(() if schema.label is None else (schema.label,))
    if encoding in ("rows", "float32"):
        expected.note(dict.fromkeys((*(fields or schema.columns), schema.label)))
        return _NumbersDecoder(encoding, schema, fields, max_event_bytes)
    if encoding in ENCODINGS:
        if record_format is not None:
            return RecordDecoder(encoding, schema, max_event_bytes, expected, record_format)
        return NamedDecoder(encoding, schema, fields, max_event_bytes, delimiter, expected)
    raise BadRecord(f"no encoding {encoding!r}; there are {', '.join(ENCODINGS)}")


class RecordDecoder(NamedDecoder):
    """Decodes framed records; see `streamk.encoding.decoders.decoder`.

    A field may have had another name before, in Avro; it keeps its column where its own name has
    none. So names depend on the columns that there are, and a record is read by those before it.
    """

    def __init__(
        self,
        encoding: str,
        schema: Schema,
        max_event_bytes: int,
        expected: Expected,
        record_format: RecordFormat,
    ) -> None:
        self._read_any = record_format.reading(self._names)
        self._read_settled = record_format.reading(self._names, settled=True)
        super().__init__(encoding, schema, None, max_event_bytes, ",", expected, self._read_any)
        self._known = -1, frozenset[str]()
        """The number of fields with columns, and all names that a field may have had before."""
        self._asked = self._in_order = False
        """True if a record asked for those, and True if such records are read in their order."""

    def _names(self) -> frozenset[str]:
        self._asked = True
        kinds = self.table.kinds
        if self._known[0] != len(kinds):
            names = (*kinds, *self._ignore, self._label)
            self._known = len(kinds), frozenset(name for name in names if isinstance(name, str))
        return self._known[1]

    def _reading(self, names: list[Name]) -> tuple[Read, ReadAll]:
        kinds, absent = self._kinds_read()
        known, used = frozenset(names), {*kinds, *self._ignore}
        lacking = [absent if kinds.get(name) == "number" else msgspec.UNSET for name in names]

        def read(value: bytes) -> Sequence[Any]:
            if len(value) > self._max:
                raise ValueError
            read_record = self._read_settled if self._in_order else self._read_any
            event: Mapping[Any, Any] = read_record(value)
            if dict in map(type, event.values()):
                event = flatten(event, self._ignore)
            if not event.keys() <= known:
                others = event.keys() - known
                # A null may be there as long as its field has no column.
                if any(event[name] is not None or name in used for name in others):
                    raise ValueError  # a field has no place here
                self._nulls.update(others)
            return list(map(event.get, names, lacking))

        return read, None

    def _quick(self, values: Sequence[Any], start: int) -> tuple[Rowset, list[int]]:
        self._asked = self._in_order = False
        self._nulls.clear()
        rows, refused = super()._quick(values, start)
        if refused and self._asked:
            # Each of these may bring columns, and so change the names of records after it.
            self._in_order = True
            self._nulls.clear()
            rows, refused = super()._quick(values, start)
        return rows, refused


_UNSIZED = "undecodable: not a whole number of float32 numbers"


def _width(values: Sequence[Any]) -> int | None:
    """The numbers in an event: the columns of rows, the size of the first whole record if any."""
    if isinstance(values, Rows):
        return int(values.X.shape[1])
    sizes = (len(v) // 4 for v in values if isinstance(v, bytes) and v and len(v) % 4 == 0)
    return next(sizes, None)


class _NumbersDecoder(Decoder):
    """Decodes `Rows`, and records of float32 numbers.

    Without names the numbers of an event are numbered, the label of float32 last; how many there
    are the first event tells.
    """

    def __init__(
        self, encoding: str, schema: Schema, fields: tuple[str, ...] | None, max_event_bytes: int
    ) -> None:
        super().__init__(schema, max_event_bytes)
        for name, kind in schema.kinds.items():
            if kind in ("entity", "clock"):
                raise BadRecord(
                    f"{name!r} is an entity or the time of the events, but {encoding} holds only "
                    "numbers; use a format that names them, such as JSON, CSV or Parquet"
                )
        self._are_rows = encoding == "rows"
        self._names: list[Name] = []
        """Those of an event's numbers in their order, but the label's."""
        self._width: int | None = None
        self._take: npt.NDArray[np.intp] | None = None
        if fields is not None:
            self._name(fields)
        elif any(isinstance(name, str) for name in schema.columns):
            self._name(self._with_label(schema.columns))

    def _with_label(self, names: tuple[Name, ...]) -> tuple[Name, ...]:
        return names if self._are_rows or self._label is None else (*names, self._label)

    def _name(self, names: tuple[Name, ...]) -> None:
        schema = self.table.schema
        label = None if self._are_rows else schema.label
        if label not in names and schema.mode == "fixed":
            label = None
        if label is not None and label not in names:
            raise BadRecord(
                f"the label {label!r} is not among the fields {', '.join(map(str, names))}"
            )
        self._width = len(names)
        self._label_at = None if label is None else names.index(label)
        self._names = [name for name in names if name != label]
        lacking = [c for c in schema.columns if c not in self._names]
        if lacking:
            raise BadRecord(f"the events lack the number {lacking[0]!r}, which the schema has")
        used = [name for name in self._names if name not in schema.ignore]
        extra = [name for name in used if name not in self.table.numbers]
        most = schema.max_columns
        if len(self.table) + len(extra) > most and schema.mode == "open":
            raise BadRecord(
                f"the events have {len(used)} numbers, but {most} columns are allowed; ignore "
                "some or raise max_columns"
            )
        self._unknown = {name: self._names.index(name) for name in extra}

    def decode(self, values: Sequence[Any]) -> Decoded:
        """Decode a slice of rows, or the records of the right size in one go."""
        if self._width is None:
            width, label, columns = _width(values), self._label, self.table.places
            if width is None:
                bad = [BadEvent(i, None, _UNSIZED) for i in range(len(values))]
                nothing = np.zeros((0, len(columns)))
                return Decoded(nothing, [], np.zeros(0, dtype=np.int64), bad, [])
            width -= not self._are_rows and label is not None
            width = max([width, *(int(name) + 1 for name in columns)])
            self._name(self._with_label(tuple(range(width))))
        return self._of_rows(values) if self._are_rows else self._of_records(values)

    def _of_rows(self, values: Sequence[Any]) -> Decoded:
        if not isinstance(values, Rows):
            raise BadRecord(f"expected Rows, not a {type(values).__name__}")
        X = values.X
        if X.shape[1] != self._width:
            raise BadRecord(f"rows of {X.shape[1]} columns, but {self._width} are expected")
        labels = None if self._label is None else values.y
        if labels is None and self._label is not None and self.table.schema.mode != "fixed":
            raise BadRecord(f"the rows have no labels, though the label is {self._label!r}")
        return self._finish(X, np.arange(len(X), dtype=np.int64), labels, {})

    def _of_records(self, values: Sequence[Any]) -> Decoded:
        assert self._width is not None
        size = 4 * self._width
        bad: dict[int, BadEvent] = {}
        good = [i for i, v in enumerate(values) if isinstance(v, bytes) and len(v) == size]
        if size > self._max or len(good) < len(values):
            good = [i for i in good if size <= self._max]
            for i in sorted(set(range(len(values))).difference(good)):
                bad[i] = BadEvent(i, None, self._wrong_size(values[i], size))
            values = [values[i] for i in good]
        cells = np.frombuffer(b"".join(values), dtype="<f4").reshape(len(good), self._width)
        labels = None
        if self._label_at is not None:
            labels = cells[:, self._label_at].astype(np.float32)
            cells = np.delete(cells, self._label_at, axis=1)
        return self._finish(cells.astype(np.float64), np.array(good, dtype=np.int64), labels, bad)

    def _wrong_size(self, value: Any, size: int) -> str:
        if not isinstance(value, bytes):
            return f"undecodable: bytes expected, not {show(value)}"
        if len(value) > self._max:
            return f"oversized: {len(value)} bytes, {self._max} allowed"
        return f"undecodable: {len(value)} bytes, {size} expected"

    def _finish(
        self,
        cells: Floats,
        index: Int64s,
        labels: Sequence[Any] | npt.NDArray[Any] | None,
        bad: dict[int, BadEvent],
    ) -> Decoded:
        """Leave out the rows whose numbers are too large or whose label is refused.

        `cells` and `labels` hold the events `index`; `bad` those that were left out before.
        """
        y, refused = ([None] * len(cells), []) if labels is None else self._labels.many(labels)
        keep = np.ones(len(cells), dtype=bool)
        if cells.size and not sum_of_squares(cells) <= LARGEST:
            for row, j in np.argwhere(np.abs(cells) > LARGEST).tolist():
                if keep[row] and self._names[j] not in self.table.schema.ignore:
                    i, name = int(index[row]), self._names[j]
                    told = f"inf: column {name!r} is {cells[row, j]:g}, past {LARGEST:g}"
                    bad[i], keep[row] = BadEvent(i, name, told), False
        for row, column, reason in refused:
            if keep[row]:
                bad[int(index[row])] = BadEvent(int(index[row]), column, reason)
            keep[row] = False
        if self._unknown and self.table.schema.mode == "strict":
            for row, name in self._unknown_numbers(cells, y, keep):
                i = int(index[row])
                bad[i] = BadEvent(i, name, f"unknown column: {name!r} is not in the schema")
                keep[row] = False
        if not keep.all():
            y = [label for label, kept in zip(y, keep, strict=True) if kept]
            cells, index = cells[keep], index[keep]
        growth = self._grow(cells, y) if self._unknown and len(cells) else []
        rejected = [bad[i] for i in sorted(bad)]
        return Decoded(self._columns_of(cells), y, index, rejected, growth)

    def _unknown_numbers(
        self, cells: Floats, y: list[Any], keep: npt.NDArray[np.bool_]
    ) -> list[tuple[int, Name]]:
        """Return the rows that have a number which a strict schema does not, and its name.

        Without columns the schema has those of the first event learned.
        """
        names, first = list(self._unknown), 0
        filled = ~np.isnan(cells[:, list(self._unknown.values())])
        if not len(self.table):
            learned = np.array([self._label is None or label is not None for label in y], bool)
            found = np.flatnonzero(keep & learned & filled.any(axis=1))
            if not len(found):
                return []
            first = int(found[0]) + 1
            filled &= ~filled[first - 1]
        some = np.flatnonzero(keep & filled.any(axis=1))
        return [(row, names[filled[row].argmax()]) for row in some.tolist() if row >= first]

    def _grow(self, cells: Floats, y: list[Any]) -> list[tuple[int, int]]:
        """Append the columns that have their first value in these events."""
        if self.table.schema.mode == "fixed":
            return []
        learned = np.array([self._label is None or label is not None for label in y])
        firsts: dict[int, list[Name]] = {}
        for name, j in self._unknown.items():
            known = np.flatnonzero(learned & ~np.isnan(cells[:, j]))
            if len(known):
                firsts.setdefault(int(known[0]), []).append(name)
        growth = []
        for row in sorted(firsts):
            self.table.admit(Event(new={name: name for name in firsts[row]}))
            for name in firsts[row]:
                del self._unknown[name]
            growth.append((row, len(self.table)))
        self._take = None
        return growth

    def _columns_of(self, cells: Floats) -> Floats:
        if self._take is None:
            places = {name: j for j, name in enumerate(self._names)}
            self._take = np.array([places[name] for name in self.table.places], dtype=np.intp)
        if np.array_equal(self._take, np.arange(cells.shape[1])):
            return cells
        return np.ascontiguousarray(cells[:, self._take])
