"""Events that are numbers already: rows of an array, or records of float32 numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import Rows
from connectors.errors import BadRecord
from streamk.backends import LARGEST
from streamk.encoding.columns import ColumnTable, Event
from streamk.encoding.decoded import BadEvent, Decoded
from streamk.encoding.labels import LabelReader
from streamk.encoding.schema import Schema
from streamk.encoding.values import Name, Rejected, show

__all__ = ["Float32Decoder", "RowsDecoder"]

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


class _ArrayDecoder:
    """The common part of both.

    `names` are the numbers of one event in their order, without the label.
    """

    def __init__(self, schema: Schema, names: Sequence[Name]) -> None:
        self.table = ColumnTable(schema)
        self._labels = LabelReader(schema)
        self._names = list(names)
        lacking = [c for c in schema.columns if c not in names]
        if lacking:
            raise BadRecord(f"the events have no number {lacking[0]!r}, which the schema has")
        used = [name for name in names if name not in schema.ignore]
        extra = [name for name in used if name not in self.table.numbers]
        most = schema.max_columns
        if len(self.table) + len(extra) > most and schema.mode == "open":
            raise BadRecord(
                f"the events have {len(used)} numbers, {most} columns allowed; ignore some or raise"
                " max_columns"
            )
        self._unknown = {name: self._names.index(name) for name in extra}
        self._label = schema.label
        self._take: npt.NDArray[np.intp] | None = None

    @property
    def schema(self) -> Schema:
        """The schema with every column met so far."""
        return self.table.schema

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
        if cells.size and not np.vdot(cells, cells) <= LARGEST:
            for row, j in np.argwhere(np.abs(cells) > LARGEST).tolist():
                if keep[row] and self._names[j] not in self.table.schema.ignore:
                    bad[int(index[row])] = self._too_large(int(index[row]), j, cells[row, j])
                    keep[row] = False
        for row in refused:
            if keep[row] and labels is not None:
                bad[int(index[row])] = self._refusal(int(index[row]), labels[row])
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
        unknown, first = dict(self._unknown), 0
        filled = ~np.isnan(cells[:, list(unknown.values())])
        if not len(self.table):
            learned = np.array([self._label is None or label is not None for label in y], bool)
            found = np.flatnonzero(keep & learned & filled.any(axis=1))
            if not len(found):
                return []
            first = int(found[0]) + 1
            names = list(unknown)
            unknown = {
                n: unknown[n] for n, has in zip(names, filled[first - 1], strict=True) if not has
            }
        rows = []
        for row in range(first, len(cells)):
            name = next((n for n, j in unknown.items() if not np.isnan(cells[row, j])), None)
            if keep[row] and name is not None:
                rows.append((row, name))
        return rows

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
        """Return the cells in the order of the columns."""
        if self._take is None:
            places = {name: j for j, name in enumerate(self._names)}
            self._take = np.array([places[name] for name in self.table.places], dtype=np.intp)
        if np.array_equal(self._take, np.arange(cells.shape[1])):
            return cells
        return np.ascontiguousarray(cells[:, self._take])

    def _too_large(self, i: int, j: int, number: float) -> BadEvent:
        name = self._names[j]
        return BadEvent(i, name, f"inf: column {name!r} is {number:g}, past {LARGEST:g}")

    def _refusal(self, i: int, label: Any) -> BadEvent:
        value = label.item() if isinstance(label, np.generic) else label
        try:
            self._labels.one(value)
        except Rejected as rejected:
            return BadEvent(i, rejected.column, rejected.reason)
        raise AssertionError(f"label {show(label)} was refused among others and taken alone")


class RowsDecoder(_ArrayDecoder):
    """Decodes `Rows`; see `streamk.encoding.decoders.decoder`."""

    def __init__(self, schema: Schema, names: Sequence[Name]) -> None:
        super().__init__(schema, names)

    def decode(self, values: Sequence[Any]) -> Decoded:
        """Decode a slice of rows."""
        if not isinstance(values, Rows):
            raise BadRecord(f"Rows expected, not a {type(values).__name__}")
        X = values.X
        if X.shape[1] != len(self._names):
            raise BadRecord(f"rows of {X.shape[1]} columns, {len(self._names)} expected")
        labels: Sequence[Any] | npt.NDArray[Any] | None = None
        if self._label is not None:
            if values.y is None and self.table.schema.mode != "fixed":
                raise BadRecord(f"the rows have no labels, though the label is {self._label!r}")
            labels = values.y
            if isinstance(labels, Sequence) and any(v != v for v in labels):
                labels = [None if value != value else value for value in labels]
        return self._finish(X, np.arange(len(X), dtype=np.int64), labels, {})


class Float32Decoder(_ArrayDecoder):
    """Decodes records of float32 numbers; see `streamk.encoding.decoders.decoder`."""

    def __init__(self, schema: Schema, names: Sequence[Name], max_event_bytes: int) -> None:
        label = schema.label
        if label not in names and schema.mode == "fixed":
            label = None
        if label is not None and label not in names:
            raise BadRecord(
                f"the label {label!r} is not among the fields {', '.join(map(str, names))}"
            )
        self._width = len(names)
        self._label_at = None if label is None else names.index(label)
        self._max = max_event_bytes
        super().__init__(schema, [name for name in names if name != label])

    def decode(self, values: Sequence[Any]) -> Decoded:
        """Decode the records of the right size in one go."""
        size = 4 * self._width
        bad: dict[int, BadEvent] = {}
        good = [i for i, v in enumerate(values) if isinstance(v, bytes) and len(v) == size]
        if size > self._max or len(good) < len(values):
            good = [i for i in good if size <= self._max]
            for i in sorted(set(range(len(values))).difference(good)):
                bad[i] = self._wrong_size(i, values[i])
            values = [values[i] for i in good]
        cells = np.frombuffer(b"".join(values), dtype="<f4").reshape(len(good), self._width)
        labels = None
        if self._label_at is not None:
            labels = cells[:, self._label_at].astype(np.float32)
            cells = np.delete(cells, self._label_at, axis=1)
        return self._finish(cells.astype(np.float64), np.array(good, dtype=np.int64), labels, bad)

    def _wrong_size(self, i: int, value: Any) -> BadEvent:
        if isinstance(value, bytes) and len(value) > self._max:
            reason = f"oversized: {len(value)} bytes, {self._max} allowed"
        elif isinstance(value, bytes):
            reason = f"undecodable: {len(value)} bytes, {4 * self._width} expected"
        else:
            reason = f"undecodable: bytes expected, not {show(value)}"
        return BadEvent(i, None, reason)
