"""Avro's binary encoding, read by a schema.

A type becomes a function from bytes and a place in them to a value and the place behind it. What a
record says of itself is not believed: an array or a text is as long as there are bytes for it, and
a type inside itself goes no deeper than so many levels.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from connectors.errors import BadRecord
from connectors.records import FRAME_BYTES
from connectors.schemas.avro_types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Plain,
    Record,
    Union,
    parse,
)
from connectors.schemas.avro_values import (
    CODES,
    PLAIN,
    Read,
    array_reader,
    enum_reader,
    fixed_reader,
    map_reader,
    numbers_reader,
    union_reader,
    with_logical_type,
)

__all__ = ["AvroSchema", "Renamed"]


_DEEPEST = 64
"""Records inside each other, in a value."""
_MOST_READERS = 20_000
"""Of one schema: types that are named again and again would multiply without end."""


class Renamed(NamedTuple):
    """A function that reads framed records; where it `is_settled`, more names do not change it."""

    read: Callable[[bytes], dict[str, Any]]
    is_settled: bool


class AvroSchema:
    r"""A schema by which records are read.

    Parameters
    ----------
    text : str
        JSON, as in an .avsc file.
    references : mapping of str to str, optional
        Schemas whose named types it uses, each after those that it uses itself.
    reader : AvroSchema, optional
        The schema whose names fields get, where their own are among its aliases. Of Avro's reader's
        schema that is all: nothing is left out, and no defaults are filled in.

    Raises
    ------
    BadRecord
        If that is no schema, or not that of a record.

    Examples
    --------
    >>> schema = AvroSchema('''{"type": "record", "name": "Click", "fields": [
    ...     {"name": "age", "type": "int"}, {"name": "device", "type": ["null", "string"]}]}''')
    >>> schema.read(b"\x00\x00\x00\x00\x07" + b"\x3e\x02\x0aphone")
    {'age': 31, 'device': 'phone'}
    """

    def __init__(
        self,
        text: str,
        references: Mapping[str, str] | None = None,
        *,
        reader: AvroSchema | None = None,
    ) -> None:
        found = parse(text, references)
        if not isinstance(found, Record):
            raise BadRecord("it is not the schema of a record, whose fields become columns")
        self._record = found
        self._newer = {} if reader is None else dict(_newer_names(reader._record, "", ()))
        compiler = _Compiler(None, self._newer)
        self.read = _whole(compiler.record(found, ""))
        """Read a framed record."""
        self.has_aliases = compiler.has_aliases
        """True if fields have aliases."""

    def renamed(self, names: frozenset[str]) -> Renamed:
        """Return a function that reads a framed record, with former names of its fields.

        A field whose name `names` lacks takes the first of its aliases that is there.
        """
        compiler = _Compiler(_with_parents(names), self._newer)
        return Renamed(_whole(compiler.record(self._record, "")), compiler.is_settled)


def _newer_names(
    kind: AvroType, path: str, around: tuple[Record, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the aliases in a schema, each by its place, with the name that the field has now."""
    if isinstance(kind, Union):
        for branch in kind.branches:
            yield from _newer_names(branch, path, around)
    if isinstance(kind, Record) and kind not in around:
        for one in kind.fields:
            yield from ((path + alias, one.name) for alias in one.aliases)
            yield from _newer_names(one.type, f"{path}{one.name}.", (*around, kind))


def _with_parents(names: frozenset[str]) -> frozenset[str]:
    """Return dotted names with those of the records around them.

    >>> sorted(_with_parents(frozenset({"user.age", "y"})))
    ['user', 'user.age', 'y']
    """
    found = set(names)
    for name in names:
        while "." in name and (name := name.rpartition(".")[0]) not in found:
            found.add(name)
    return frozenset(found)


def _whole(read: Read) -> Callable[[bytes], dict[str, Any]]:
    def read_record(value: bytes) -> dict[str, Any]:
        try:
            found, at = read(value, FRAME_BYTES, 0)
        except (IndexError, struct.error):
            raise BadRecord(
                f"the record ends after {len(value)} bytes, before its schema"
            ) from None
        except UnicodeDecodeError as error:
            raise BadRecord(f"a text in the record is not UTF-8: {error.reason}") from None
        if at != len(value):
            raise BadRecord(f"{len(value) - at} bytes stand behind what its schema describes")
        return found  # type: ignore[no-any-return]

    return read_record


class _Compiler:
    """Makes functions of types.

    `names` are those that fields may have had before, None where fields keep their own; `newer`
    those that they got later, by their places. Such names are found on the way down from the
    outermost record; inside arrays, maps and types that lead back to themselves there are none.
    """

    def __init__(self, names: frozenset[str] | None, newer: Mapping[str, str]) -> None:
        self.has_aliases, self.is_settled = False, True
        self._names, self._newer = names, newer
        self._made: dict[int, Read] = {}
        """Of records, wherever they stand."""
        self._open: set[int] = set()
        self._count = 0

    def record(self, record: Record, path: str | None) -> Read:
        """Return the function of a record; `path` is the beginning of its fields' names."""
        key = id(record)
        if key in self._open or (self._names is None and not self._newer):
            path = None
        if path is None and key in self._made:
            return self._made[key]
        fields: list[_Cells] = []

        def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            if depth > _DEEPEST:
                raise BadRecord(f"records are nested deeper than {_DEEPEST}")
            found: dict[str, Any] = {}
            for names, of_field, several in fields:
                if several:
                    values, at = of_field(data, at, depth + 1)
                    found.update(zip(names, values, strict=True))
                else:
                    found[names[0]], at = of_field(data, at, depth + 1)
            return found, at

        if path is None:
            self._made[key] = read
        self._open.add(key)
        named: list[tuple[str, Read]] = []
        for one, name in zip(record.fields, self._names_in(record, path), strict=True):
            inner = None if path is None else f"{path}{name}."
            named.append((name, self.of(one.type, inner)))
        self._open.discard(key)
        fields += _joined(named)
        return read

    def _names_in(self, record: Record, path: str | None) -> list[str]:
        """Return the names of a record's fields: newer ones, their own, or former ones."""
        self.has_aliases = self.has_aliases or any(one.aliases for one in record.fields)
        names, taken = self._names, {one.name for one in record.fields}
        found = []
        for one in record.fields:
            name = one.name if path is None else self._newer.get(path + one.name, one.name)
            if name != one.name:
                name = one.name if name in taken else name
                taken.add(name)
            if names is not None and path is not None and path + name not in names:
                self.is_settled = self.is_settled and not one.aliases
                known = (a for a in one.aliases if path + a in names and a not in taken)
                name = next(known, name)
                taken.add(name)
            found.append(name)
        return found

    def of(self, kind: AvroType, path: str | None) -> Read:
        """Return the function of a type."""
        self._count += 1
        if self._count > _MOST_READERS:
            raise BadRecord(f"it has more than {_MOST_READERS} types")
        match kind:
            case Record():
                return self.record(kind, path)
            case Union():
                return union_reader([self.of(one, path) for one in kind.branches], kind)
            case Array():
                return array_reader(self.of(kind.items, None), takes_bytes=_takes_bytes(kind.items))
            case Map():
                return map_reader(self.of(kind.values, None))
            case Enum():
                return enum_reader(kind.symbols)
            case Fixed():
                return with_logical_type(fixed_reader(kind.size), kind)
            case Plain():
                return with_logical_type(PLAIN[kind.name], kind)


class _Cells(NamedTuple):
    """One field, or `several` neighbours that are floats and doubles and are read at once."""

    names: tuple[str, ...]
    read: Read
    several: bool


def _joined(fields: list[tuple[str, Read]]) -> list[_Cells]:
    """Return the fields of a record with such neighbours together."""
    found = []
    for code, group in groupby(fields, lambda one: CODES.get(one[1])):
        run = list(group)
        if code is None or len(run) == 1:
            found += [_Cells((name,), read, several=False) for name, read in run]
        else:
            names = tuple(name for name, _ in run)
            found.append(_Cells(names, numbers_reader(code * len(run)), several=True))
    return found


def _takes_bytes(kind: AvroType, around: tuple[Record, ...] = ()) -> bool:
    """Return whether each value of a type takes a byte at least."""
    match kind:
        case Plain():
            return kind.name != "null"
        case Fixed():
            return kind.size > 0
        case Record():
            inside = (*around, kind)
            return kind not in around and any(_takes_bytes(f.type, inside) for f in kind.fields)
        case _:
            return True
