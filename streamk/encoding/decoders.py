"""Raw events into arrays.

`decoder(encoding, schema).decode(values)` never raises for what is in an event: an event that
cannot be used is reported with its index, its column and the reason, and the others are decoded.
Columns and numbers depend on the sequence of events alone, not on its division into calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from connectors.base import ENCODINGS, MAX_EVENT_BYTES, Rows
from connectors.errors import BadRecord
from connectors.records import RecordFormat
from streamk.encoding.arrays import Float32Decoder, RowsDecoder
from streamk.encoding.decoded import BadEvent, Decoded
from streamk.encoding.expected import Expected
from streamk.encoding.framed import RecordDecoder
from streamk.encoding.named import NamedDecoder
from streamk.encoding.schema import Schema
from streamk.encoding.values import Name

__all__ = ["Decoder", "decoder"]


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
        return _Sized(encoding, schema, fields, max_event_bytes)
    if encoding in ENCODINGS:
        if record_format is not None:
            return RecordDecoder(encoding, schema, max_event_bytes, expected, record_format)
        return NamedDecoder(encoding, schema, fields, max_event_bytes, delimiter, expected)
    raise BadRecord(f"no encoding {encoding!r}; there are {', '.join(ENCODINGS)}")


class _Sized:
    """Events that are numbers; without names these are numbered, the label last."""

    def __init__(
        self, encoding: str, schema: Schema, fields: tuple[str, ...] | None, max_event_bytes: int
    ) -> None:
        self._encoding, self._schema, self._max = encoding, schema, max_event_bytes
        self._inner: RowsDecoder | Float32Decoder | None = None
        if fields is not None:
            self._inner = self._made(fields)
        elif any(isinstance(name, str) for name in schema.columns):
            self._inner = self._made(self._with_label(schema.columns))

    @property
    def schema(self) -> Schema:
        return self._schema if self._inner is None else self._inner.schema

    def decode(self, values: Sequence[Any]) -> Decoded:
        if self._inner is None:
            width = _width(values)
            if width is None:
                bad = [BadEvent(i, None, _UNSIZED) for i in range(len(values))]
                nothing = np.zeros((0, len(self._schema.columns)))
                return Decoded(nothing, [], np.zeros(0, dtype=np.int64), bad, [])
            if self._encoding == "float32" and self._schema.label is not None:
                width -= 1
            width = max([width, *(int(name) + 1 for name in self._schema.columns)])
            self._inner = self._made(self._with_label(tuple(range(width))))
        return self._inner.decode(values)

    def _with_label(self, names: tuple[Name, ...]) -> tuple[Name, ...]:
        label = self._schema.label if self._encoding == "float32" else None
        return names if label is None else (*names, label)

    def _made(self, names: Sequence[Name]) -> RowsDecoder | Float32Decoder:
        if self._encoding == "rows":
            return RowsDecoder(self._schema, names)
        return Float32Decoder(self._schema, names, self._max)


_UNSIZED = "undecodable: not a whole number of float32 numbers"


def _width(values: Sequence[Any]) -> int | None:
    """The numbers in an event: the columns of rows, the size of the first whole record if any."""
    if isinstance(values, Rows):
        return int(values.X.shape[1])
    sizes = (len(v) // 4 for v in values if isinstance(v, bytes) and v and len(v) % 4 == 0)
    return next(sizes, None)
