"""A few named fields of raw events: what tells which event a record is about, and when it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import msgspec

from connectors.base import MAX_EVENT_BYTES, Source, delimiter_of
from connectors.records import RecordFormat, record_format_of
from streamk.encoding.times import parse_time
from streamk.encoding.values import Name, Rejected, flatten, reader, show

__all__ = ["FieldReader", "key_of", "milliseconds_of"]

_LATEST = 253_402_300_799_999
"""The end of the year 9999 in milliseconds: what is later is a time in another unit."""


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
            delimiter=delimiter_of(source),
            record_format=record_format_of(source),
        )

    def one(self, value: Any) -> tuple[Any, ...]:
        """Return the fields of one event, None for those it lacks. Raises `Rejected`."""
        if isinstance(value, bytes) and len(value) > MAX_EVENT_BYTES:
            raise Rejected("oversized", f"{len(value)} bytes, {MAX_EVENT_BYTES} allowed")
        found = self._read(value)
        if any(name not in found for name in self._names):
            found = flatten(found)
        return tuple(found.get(name) for name in self._names)

    def many(self, values: Sequence[Any]) -> list[tuple[Any, ...] | Rejected]:
        """Return the fields of many events, in the place of a bad one what is wrong with it."""
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
    """Return the key of an event, as text: 42 and "42" are one.

    Parameters
    ----------
    value : object
        That of the field.
    name : str
        The field's name, for messages.

    Raises
    ------
    Rejected
        If it is neither text nor a whole number.

    Examples
    --------
    >>> key_of(42, "id"), key_of("a-7", "id")
    ('42', 'a-7')
    """
    if type(value) is str and value:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Rejected("key missing", f"{show(value)} is no valid text", name) from None
        return value
    if type(value) is int:
        return str(value)
    if type(value) is float and value.is_integer():
        return str(int(value))
    if value is None or value == "":
        raise Rejected("key missing", f"the event has no {name!r}, which tells its label", name)
    raise Rejected("key missing", f"{name!r} is {show(value)}, not text or a whole number", name)


def milliseconds_of(value: Any) -> int | None:
    """Return a time in milliseconds since 1970; None if the value is no time.

    A number is that already; a text is a time as of ISO 8601.

    Examples
    --------
    >>> milliseconds_of(1500), milliseconds_of("1970-01-01T00:00:02Z"), milliseconds_of("soon")
    (1500, 2000, None)
    """
    found: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and "_" not in value:
        with suppress(ValueError):
            found = float(value)
    if found is None:
        moment = parse_time(value)
        found = None if moment is None else 1000.0 * moment.elapsed
    return None if found is None or not abs(found) <= _LATEST else round(found)
