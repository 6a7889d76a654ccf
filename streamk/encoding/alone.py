"""An event by itself: the columns that it has, whatever came before it.

The columns of a `ColumnTable` depend on the order of events: which texts of a field have columns of
their own, and what a field held first. What tests whether events could have come in any other order
reads them as if each were the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from connectors.base import Source, delimiter_of
from connectors.records import record_format_of
from streamk.backends import LARGEST
from streamk.encoding.columns import ColumnTable
from streamk.encoding.schema import Schema
from streamk.encoding.values import Name, Rejected, flatten, reader

__all__ = ["LoneReader", "alone"]

_TABLE = ColumnTable(Schema())
"""Has no columns, and gets none."""


def alone(fields: Mapping[Name, Any]) -> dict[Name, float]:
    """Return the columns that an event has and their numbers, NaN where a field has no number.

    Parameters
    ----------
    fields : mapping of field to value
        Flat, and without the label.

    Raises
    ------
    Rejected
        If a value is of no use.

    Examples
    --------
    >>> alone({"a": 2.5, "b": "3", "colour": "red", "size": None})
    {'a': 2.5, 'colour': nan, 'size': nan, 'b': 3.0, 'colour=red': 1.0}
    """
    cells: dict[Name, float] = {}
    others: dict[Name, Any] = {}
    for name, value in fields.items():  # most values are plain numbers, whose columns they are
        plain = type(value) is float and (abs(value) <= LARGEST or value != value)
        (cells if plain else others)[name] = value
    if others:
        event = _TABLE.read(others)
        for held in (event.texts, event.times, event.missing):
            cells |= dict.fromkeys(held, math.nan)
        cells |= event.cells
    return cells


class LoneReader:
    """Reads raw events of a source, each by itself.

    Parameters
    ----------
    source : Source
    schema : Schema
        Tells the label, and the fields that are left out.
    """

    def __init__(self, source: Source, schema: Schema) -> None:
        self._label, self._ignore = schema.label, schema.ignore
        encoding, fields = source.encoding, source.fields
        if fields is None and any(isinstance(name, str) for name in schema.columns):
            labels = (schema.label,) if encoding == "float32" and schema.label is not None else ()
            fields = (*map(str, schema.columns), *map(str, labels))
        self._fields = fields
        self._read: Callable[[Any], Mapping[Any, Any]]
        if encoding == "rows":
            self._read = self._row
            return
        record_format = record_format_of(source)
        # A field that had another name before goes by its own: nothing is known before an event.
        read_record = None if record_format is None else record_format.reading(frozenset)
        self._read = reader(encoding, fields, schema.label, delimiter_of(source), read_record)

    def _row(self, value: Any) -> Mapping[Any, Any]:
        numbers = value[0].tolist()
        return dict(zip(self._fields or range(len(numbers)), numbers, strict=True))

    def one(self, value: Any) -> dict[Name, float]:
        """Return the columns of a raw event; a field whose value is of no use has none."""
        try:
            fields = flatten(self._read(value), self._ignore)
        except Rejected:
            return {}
        if self._label is not None:
            fields.pop(self._label, None)
        try:
            return alone(fields)
        except Rejected:
            return {column: x for one in fields.items() for column, x in _of_use(*one)}


def _of_use(name: Name, value: Any) -> list[tuple[Name, float]]:
    try:
        return list(alone({name: value}).items())
    except Rejected:
        return []
