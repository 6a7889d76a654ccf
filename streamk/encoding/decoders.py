"""Raw events into arrays.

`decoder(encoding, schema).decode(values)` never raises for what is in an event: an event that
cannot be used is reported with its index, its column and the reason, and the others are decoded.
Columns and numbers depend on the sequence of events alone, not on its division into calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from connectors.base import ENCODINGS, MAX_EVENT_BYTES, Rows
from connectors.errors import BadRecord
from streamk.encoding.arrays import Float32Decoder, RowsDecoder
from streamk.encoding.decoded import Decoded
from streamk.encoding.named import NamedDecoder
from streamk.encoding.schema import Schema

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

    Raises
    ------
    BadRecord
        If fields and schema do not fit together.

    Examples
    --------
    >>> decoding = decoder("json", Schema(label="y"))
    >>> out = decoding.decode([b'{"a": 1, "b": 2.5, "y": 0}', b'{"a": "one"}'])
    >>> decoding.schema.columns, out.X, out.y
    (('a', 'b'), array([[1. , 2.5]]), [0])
    >>> out.bad[0]
    BadEvent(row=1, column='y', reason="label missing: the event has no field 'y'")
    """
    if encoding in ("rows", "float32"):
        return _Sized(encoding, schema, fields, max_event_bytes)
    if encoding in ENCODINGS:
        return NamedDecoder(encoding, schema, fields, max_event_bytes)
    raise BadRecord(f"no encoding {encoding!r}; there are {', '.join(ENCODINGS)}")


class _Sized:
    """Events that are numbers, whose columns are as many as the first event has."""

    def __init__(
        self, encoding: str, schema: Schema, fields: tuple[str, ...] | None, max_event_bytes: int
    ) -> None:
        self._options = encoding, schema, fields, max_event_bytes
        self._inner: RowsDecoder | Float32Decoder | None = None
        if fields is not None or schema.columns:
            label = int(encoding == "float32" and schema.label is not None)
            self._make(len(schema.columns) + label if fields is None else len(fields))

    @property
    def schema(self) -> Schema:
        return self._options[1] if self._inner is None else self._inner.schema

    def _make(self, width: int) -> RowsDecoder | Float32Decoder:
        encoding, schema, fields, most = self._options
        if encoding == "rows":
            self._inner = RowsDecoder(schema, fields, width)
        else:
            self._inner = Float32Decoder(schema, fields, width, most)
        return self._inner

    def decode(self, values: Sequence[Any]) -> Decoded:
        inner = self._inner
        if inner is None:
            inner = self._make(_width(values))
        return inner.decode(values)


def _width(values: Sequence[Any]) -> int:
    """The numbers in an event: the columns of rows, the size of the first whole record."""
    if isinstance(values, Rows):
        return int(values.X.shape[1])
    sizes = (len(v) // 4 for v in values if isinstance(v, bytes) and v and len(v) % 4 == 0)
    return next(sizes, 1)
