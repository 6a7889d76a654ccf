"""Raw events into arrays.

`decoder(encoding, schema).decode(values)` never raises for what is in an event: an event that
cannot be used is reported with its index, its column and the reason, and the others are decoded.

Numbers become float32 rounded to nearest; one past the range of float32 counts as inf. A decoder
under `mode="open"` appends new columns as it meets them, those of one event sorted, so the
columns depend on the sequence of events alone, not on how it was cut into calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from connectors.base import ENCODINGS, MAX_EVENT_BYTES, Rows
from connectors.errors import BadRecord
from connectors.labels import LabelReader
from connectors.named import NamedDecoder
from connectors.records import BAD_KINDS, Name, Rejected, show
from connectors.schema import Schema

__all__ = ["BAD_KINDS", "BadEvent", "Decoded", "Decoder", "decoder"]

Float32s = npt.NDArray[np.float32]


class BadEvent(NamedTuple):
    """An event that was not decoded: which of the values, the column, "kind: explanation"."""

    row: int
    column: Name | None
    reason: str

    @property
    def kind(self) -> str:
        """One of `BAD_KINDS`."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came out of one call.

    Attributes
    ----------
    X : float32 array (n_good, d)
        d counts the new columns too; may be a view of the source's own array: do not write to it.
    y : list (n_good,)
        Labels: str, int or bool for classes, float for quantities, None for "only predict".
    good : int64 array (n_good,)
        Index of each row in the values given.
    bad : list of BadEvent, by row
    new_columns : tuple
        Columns appended to the schema by these events.
    """

    X: Float32s
    y: list[Any]
    good: npt.NDArray[np.int64]
    bad: list[BadEvent]
    new_columns: tuple[Name, ...]


class Decoder(Protocol):
    """Decodes events of one encoding, one call after another in the order of the stream."""

    @property
    def schema(self) -> Schema:
        """The schema with every column met so far."""

    def decode(self, values: Sequence[Any]) -> Decoded:
        """Decode the events that can be decoded and report the others."""


def decoder(
    encoding: str,
    schema: Schema,
    *,
    fields: tuple[str, ...] | None = None,
    max_event_bytes: int = MAX_EVENT_BYTES,
) -> Decoder:
    """The decoder of an encoding.

    Parameters
    ----------
    encoding : str
        One of `connectors.base.ENCODINGS`.
    schema : Schema
    fields : tuple of str, optional
        The source's `fields`; needed for "csv".
    max_event_bytes : int
        A longer event is not decoded (encodings of bytes).

    Raises
    ------
    BadRecord
        If fields and schema do not fit together.

    Examples
    --------
    >>> schema = Schema(("a", "b"), label="y", label_type="int")
    >>> out = decoder("json", schema).decode([b'{"a": 1, "b": 2.5, "y": 0}', b'{"a": "one"}'])
    >>> out.X, out.y
    (array([[1. , 2.5]], dtype=float32), [0])
    >>> out.bad[0]
    BadEvent(row=1, column='y', reason="label missing: the event has no field 'y'")
    """
    if encoding == "rows":
        return _RowsDecoder(schema, fields)
    if encoding == "float32":
        return _Float32Decoder(schema, fields, max_event_bytes)
    if encoding in ENCODINGS:
        return _Named(NamedDecoder(encoding, schema, fields, max_event_bytes))
    raise BadRecord(f"no encoding {encoding!r}; there are {', '.join(ENCODINGS)}")


class _Named:
    """json, csv and dict events."""

    def __init__(self, inner: NamedDecoder) -> None:
        self._inner = inner

    @property
    def schema(self) -> Schema:
        return self._inner.schema

    def decode(self, values: Sequence[Any]) -> Decoded:
        X, y, good, rejected, new = self._inner.decode(values)
        bad = [BadEvent(i, rejected[i].column, rejected[i].reason) for i in sorted(rejected)]
        return Decoded(X, y, good, bad, new)


class _ArrayDecoder:
    """What events that are already numbers have in common: a fixed set of columns.

    `names` are the numbers of one event in their order; those that are columns are taken.
    """

    def __init__(self, schema: Schema, names: Sequence[Name]) -> None:
        self.schema = schema
        self._labels = LabelReader(schema)
        extra = [n for n in names if n not in schema.kinds and n not in schema.ignore]
        lacking = [c for c in schema.columns if c not in names]
        if extra:
            raise BadRecord(f"{extra[0]!r} is no column of the schema; add it or ignore it")
        if lacking:
            raise BadRecord(f"the events have no number {lacking[0]!r}, which the schema has")
        places = {name: i for i, name in enumerate(names)}
        take = [places[column] for column in schema.columns]
        self._take = None if take == list(range(len(names))) else np.array(take, dtype=np.int64)

    def _finish(
        self,
        X: Float32s,
        index: npt.NDArray[np.int64],
        labels: Sequence[Any] | npt.NDArray[Any] | None,
        bad: dict[int, BadEvent],
    ) -> Decoded:
        """Leave out the rows that are not finite or whose label is refused.

        `X` and `labels` hold the events `index`; `bad` those that were left out before.
        """
        y, refused = ([None] * len(X), []) if labels is None else self._labels.many(labels)
        wrong = np.isinf(X) if self.schema.absent == "missing" else ~np.isfinite(X)
        if not bad and not refused and not wrong.any():
            return Decoded(X, y, index, [], ())
        keep = np.ones(len(X), dtype=bool)
        for row in np.flatnonzero(wrong.any(axis=1)).tolist():
            j = int(np.argmax(wrong[row]))
            kind = "NaN" if np.isnan(X[row, j]) else "inf"
            column = self.schema.columns[j]
            i = int(index[row])
            bad[i] = BadEvent(i, column, f"{kind}: column {column!r} is not finite")
            keep[row] = False
        for row in refused:
            i = int(index[row])
            if keep[row] and labels is not None:
                bad[i] = self._refusal(i, labels[row])
            keep[row] = False
        y = [label for label, kept in zip(y, keep, strict=True) if kept]
        return Decoded(X[keep], y, index[keep], [bad[i] for i in sorted(bad)], ())

    def _refusal(self, i: int, label: Any) -> BadEvent:
        value = label.item() if isinstance(label, np.generic) else label
        try:
            self._labels.one(value)
        except Rejected as rejected:
            return BadEvent(i, rejected.column, rejected.reason)
        raise AssertionError(f"label {show(label)} was refused among others and taken alone")


class _RowsDecoder(_ArrayDecoder):
    def __init__(self, schema: Schema, fields: tuple[str, ...] | None) -> None:
        super().__init__(schema, schema.columns if fields is None else fields)
        self._width = len(schema.columns) if fields is None else len(fields)

    def decode(self, values: Sequence[Any]) -> Decoded:
        if not isinstance(values, Rows):
            raise BadRecord(f"Rows expected, not a {type(values).__name__}")
        if values.X.shape[1] != self._width:
            raise BadRecord(f"rows of {values.X.shape[1]} columns, {self._width} expected")
        X = values.X if self._take is None else values.X[:, self._take]
        labels: Sequence[Any] | npt.NDArray[Any] | None = None
        if self.schema.label is not None:
            labels = [None] * len(X) if values.y is None else values.y
            if not isinstance(labels, np.ndarray) and any(v != v for v in labels):
                labels = [None if value != value else value for value in labels]
        return self._finish(X, np.arange(len(X), dtype=np.int64), labels, {})


class _Float32Decoder(_ArrayDecoder):
    def __init__(
        self, schema: Schema, fields: tuple[str, ...] | None, max_event_bytes: int
    ) -> None:
        label = schema.label
        names: list[Name] = list(schema.columns) if fields is None else list(fields)
        if fields is None and label is not None:
            names.append(label)
        if label is not None and label not in names:
            raise BadRecord(
                f"the label {label!r} is not among the fields {', '.join(fields or ())}"
            )
        self._width = len(names)
        self._label_at = None if label is None else names.index(label)
        self._max = max_event_bytes
        super().__init__(schema, [name for name in names if name != label])

    def decode(self, values: Sequence[Any]) -> Decoded:
        """Read the records of the right size in one go."""
        size = 4 * self._width
        bad: dict[int, BadEvent] = {}
        good = [i for i, v in enumerate(values) if isinstance(v, bytes) and len(v) == size]
        if size > self._max or len(good) < len(values):
            good = [i for i in good if size <= self._max]
            for i in sorted(set(range(len(values))).difference(good)):
                bad[i] = self._wrong_size(i, values[i])
            values = [values[i] for i in good]
        cells = np.frombuffer(b"".join(values), dtype="<f4").reshape(len(good), self._width)
        cells = cells.astype(np.float32, copy=False)
        labels = None
        if self._label_at is not None:
            labels = cells[:, self._label_at]
            cells = np.delete(cells, self._label_at, axis=1)
        X = cells if self._take is None else cells[:, self._take]
        return self._finish(X, np.array(good, dtype=np.int64), labels, bad)

    def _wrong_size(self, i: int, value: Any) -> BadEvent:
        if isinstance(value, bytes) and len(value) > self._max:
            reason = f"oversized: {len(value)} bytes, {self._max} allowed"
        elif isinstance(value, bytes):
            reason = f"undecodable: {len(value)} bytes, {4 * self._width} expected"
        else:
            reason = f"undecodable: bytes expected, not {show(value)}"
        return BadEvent(i, None, reason)
