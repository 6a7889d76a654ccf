"""Raw events read one by one: a few named fields of them, or all that they have.

The fields tell which event a record is about, and when it was. All that an event has is read
*alone*, as if it were the first: the columns of a `ColumnTable` depend on the order of events, by
which texts of a field have columns of their own and what it held first, and what tests whether
events could have come in any other order must not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import msgspec

from connectors.base import MAX_EVENT_BYTES, Source
from connectors.records import RecordFormat
from streamk.backends import LARGEST
from streamk.encoding.columns import ColumnTable
from streamk.encoding.schema import Schema
from streamk.encoding.values import (
    Name,
    Rejected,
    as_datetime,
    bounded,
    flatten,
    plain,
    reader,
    show,
    text_of,
    without_zeros,
)


class FieldReader:
    """Reads a few fields of events, nested ones by names with dots.

    Parameters
    ----------
    encoding : str
        One whose values have names.
    names : sequence of str
        The fields.
    fields : tuple of str, optional
        The source's `fields`; needed for "csv".
    delimiter : str
        The character between the cells of "csv".
    record_format : RecordFormat, optional
        That of the source; needed for "avro" and "protobuf".

    Examples
    --------
    >>> read = FieldReader("json", ("id", "user.age"))
    >>> read.many([b'{"id": 7, "user": {"age": 30}}', b'{"id": 8}'])
    [(7, 30), (8, None)]
    """

    def __init__(
        self,
        encoding: str,
        names: Sequence[Name],
        *,
        fields: tuple[str, ...] | None = None,
        delimiter: str = ",",
        record_format: RecordFormat | None = None,
    ) -> None:
        self._names = tuple(names)
        known = frozenset(map(str, names))
        read_record = None if record_format is None else record_format.reading(lambda: known)
        self._read = reader(encoding, fields, None, delimiter, read_record)
        plain = encoding == "json" and read_record is None
        self._quick = _json_reading(self._names) if plain else None

    @classmethod
    def of_source(cls, source: Source, names: Sequence[Name]) -> Self:
        """Return the reader of fields of a source's events."""
        return cls(
            source.encoding,
            names,
            fields=source.fields,
            delimiter=source.delimiter,
            record_format=source.record_format,
        )

    def all(self, value: Any, ignore: tuple[Name, ...] = ()) -> dict[Name, Any]:
        """Return all fields of one event but those to ignore, by their names. Raises `Rejected`."""
        return flatten(self._read(value), ignore)

    def one(self, value: Any) -> tuple[Any, ...]:
        """Return the fields of one event, None for those it lacks. Raises `Rejected`."""
        if isinstance(value, bytes) and len(value) > MAX_EVENT_BYTES:
            raise Rejected("oversized", f"{len(value)} bytes, {MAX_EVENT_BYTES} allowed")
        found = self._read(value)
        if any(name not in found for name in self._names):
            found = flatten(found)
        return tuple(found.get(name) for name in self._names)

    def many(self, values: Sequence[Any]) -> list[tuple[Any, ...] | Rejected]:
        """Return the fields of many events, and for a bad one the reason."""
        quick, found = self._quick, list[tuple[Any, ...] | Rejected]()
        for value in values:
            if quick is not None:
                try:
                    cells = quick(value)
                    if None not in cells and len(value) <= MAX_EVENT_BYTES:
                        found.append(cells)
                        continue
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
                    pass  # the careful way says what is wrong
            try:
                found.append(self.one(value))
            except Rejected as rejection:
                rejection.__context__ = None
                found.append(rejection.with_traceback(None))  # whose frames hold this list
        return found


def _json_reading(names: Sequence[Name]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return a function that reads fields of a JSON object, None where there is no short way."""
    try:
        shape = msgspec.defstruct(
            "Fields",
            [(f"f{i}", Any, None) for i in range(len(names))],
            rename={f"f{i}": str(name) for i, name in enumerate(names)},
            gc=False,
        )
    except ValueError:  # a name that msgspec cannot give to a field
        return None
    decode, unpack = msgspec.json.Decoder(shape).decode, msgspec.structs.astuple
    return lambda value: unpack(decode(value))


def key_of(value: Any, name: Name) -> str:
    """Return the key of an event, as text: 42, 42.0, "42" and "42.0" are one.

    Parameters
    ----------
    value : object
        That of the field.
    name : str
        The field's name, for messages.

    Raises
    ------
    Rejected
        If it is missing, infinite, or a list or an object.

    Examples
    --------
    >>> key_of(42, "id"), key_of("a-7", "id"), key_of("007", "id"), key_of(2**63 + 1, "id")
    ('42', 'a-7', '007', '9223372036854775809')
    """
    value = plain(value)
    if value is None:
        raise Rejected(
            "key missing",
            f"the event has no {name!r}, the key by which other records refer to it",
            name,
        )
    text = text_of(as_datetime(value) or value)  # a time is written in several ways
    if text is None:
        wanted = "text, a number, a boolean or a time"
        raise Rejected("key missing", f"{name!r} is {show(value)}, not {wanted}", name)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Rejected("key missing", f"{show(value)} is not valid text", name) from None
    return bounded(without_zeros(text).removesuffix("T00:00:00"))


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
        If a value is not usable.

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
        Tells the label, and the fields that are left out, with entities and clocks.
    """

    def __init__(self, source: Source, schema: Schema) -> None:
        known = (name for name, kind in schema.kinds.items() if kind in ("entity", "clock"))
        self._label, self._ignore = schema.label, (*schema.ignore, *known)
        encoding, fields = source.encoding, source.fields
        if fields is None and any(isinstance(name, str) for name in schema.columns):
            labels = (schema.label,) if encoding == "float32" and schema.label is not None else ()
            fields = (*map(str, schema.columns), *map(str, labels))
        self._fields = fields
        self._read: Callable[[Any], Mapping[Any, Any]]
        if encoding == "rows":
            self._read = self._row
            return
        record_format = source.record_format
        # A field that had another name before goes by its own: nothing is known before an event.
        read_record = None if record_format is None else record_format.reading(frozenset)
        self._read = reader(encoding, fields, schema.label, source.delimiter, read_record)

    def _row(self, value: Any) -> Mapping[Any, Any]:
        numbers = value[0].tolist()
        return dict(zip(self._fields or range(len(numbers)), numbers, strict=True))

    def one(self, value: Any) -> dict[Name, float]:
        """Return the columns of a raw event; a field whose value is not usable has none."""
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
