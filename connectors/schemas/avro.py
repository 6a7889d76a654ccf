"""Avro: records read by their schemas, and outputs written by the schema of their fields.

The bytes are read and written by fastavro. A field may have another name than in its schema, so
fastavro reads by a copy of the schema that is made here, with the names that fields are to have.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro

from connectors.errors import BadRecord
from connectors.records import FRAME_BYTES, day_after_1970, decimal_number, time_after_1970

_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_DEEPEST = 128
"""Types inside each other: fastavro takes the stack of C for each, and has no bound of its own."""
_MOST_TYPES = 100_000
"""Of one schema: types that are named again and again would multiply without end."""
_MOST_DIGITS = 1000
"""Behind the point of a decimal."""

# --- logical types --------------------------------------------------------------------------------


def _decimal(raw: bytes, kind: Mapping[str, Any], _: Any) -> Decimal:
    return decimal_number(raw, kind["scale"])


def _time(unit: str, zone: tzinfo | None) -> Callable[[int, Any, Any], Any]:
    return lambda count, *_: time_after_1970(count, unit, zone)


def _too_deep(*_: Any) -> Any:
    raise BadRecord(f"its types are nested deeper than {_DEEPEST}")


_TOO_DEEP = {"type": "fixed", "name": "TooDeep", "size": 0, "logicalType": "streamk-too-deep"}
"""The type instead of one that is nested too deeply: to read it is an error."""
_LOGICAL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "bytes-decimal": _decimal,
    "fixed-decimal": _decimal,
    "int-date": lambda days, *_: day_after_1970(days),
    "int-time-millis": lambda count, *_: count / 1e3,
    "long-time-micros": lambda count, *_: count / 1e6,
}
for _name, _unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns")):
    _LOGICAL[f"long-timestamp-{_name}"] = _time(_unit, UTC)
    _LOGICAL[f"long-local-timestamp-{_name}"] = _time(_unit, None)
for _name, _of in _LOGICAL.items():
    # Under names of their own: fastavro's functions fail where Python has no such year, round
    # decimals, and give times of day as such.
    _own = _name.replace("-", "-streamk-", 1)
    fastavro.read.LOGICAL_READERS[_own] = _of
fastavro.read.LOGICAL_READERS["fixed-streamk-too-deep"] = _too_deep

# --- reading --------------------------------------------------------------------------------------

Read = Callable[[bytes], dict[str, Any]]


class Renamed(NamedTuple):
    """A function that reads framed records; where it `is_settled`, more names do not change it."""

    read: Read
    is_settled: bool


class AvroSchema:
    r"""A schema by which records are read.

    Raises `BadRecord` if that is not a schema of a record, or cannot be read safely.

    Parameters
    ----------
    text : str
        JSON, as in an .avsc file.
    references : mapping of str to str, optional
        Schemas whose named types it uses, each after those that it uses itself.
    reader : AvroSchema, optional
        The schema whose names fields get, where their own are among its aliases. Of Avro's reader's
        schema that is all: nothing is left out, and no defaults are filled in.

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
        self._named: dict[str, Any] = {}
        try:
            for one in (*(references or {}).values(), text):
                self._record = fastavro.parse_schema(_loaded(one), self._named)
        except RecursionError:
            raise BadRecord(f"its types are nested deeper than {_DEEPEST}") from None
        except fastavro.schema.UnknownType as error:
            raise BadRecord(
                f"there is no type {error.name!r}; a reference may be missing"
            ) from None
        except fastavro.schema.SchemaParseException as error:
            raise BadRecord(f"it is not an Avro schema: {error}") from None
        except json.JSONDecodeError as error:
            raise BadRecord(f"it is not JSON: {error}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadRecord(f"it is not an Avro schema: {type(error).__name__} {error}") from None
        if not isinstance(self._record, dict) or self._record.get("type") != "record":
            raise BadRecord("it is not the schema of a record, whose fields become columns")
        self._newer = {} if reader is None else dict(_newer_names(reader, reader._record, "", ()))
        copy = _Copy(self._named, None, self._newer)
        self.read = copy.reader(self._record)
        """Read a framed record."""
        self.has_aliases = copy.has_aliases
        """True if fields have aliases."""

    def renamed(self, names: frozenset[str]) -> Renamed:
        """Return a function that reads a framed record, with former names of its fields.

        A field whose name `names` lacks takes the first of its aliases that is there.
        """
        copy = _Copy(self._named, _with_parents(names), self._newer)
        return Renamed(copy.reader(self._record), copy.is_settled)


def _loaded(text: str) -> Any:
    """Return a schema, without what fastavro would refuse and reading does not need.

    Those are defaults that do not fit, logical types that make no sense, and types in an object
    with nothing but "type".
    """

    def simpler(one: dict[str, Any]) -> Any:
        one.pop("default", None)
        if "logicalType" in one:
            one["logical"] = one.pop("logicalType")
        is_shell = "name" not in one and isinstance(one.get("type"), dict | list)
        return one["type"] if is_shell else one

    return json.loads(text, object_hook=simpler)


def _newer_names(
    schema: AvroSchema, kind: Any, path: str, around: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the aliases in a schema, each by its place, with the name that the field has now."""
    if isinstance(kind, list):
        for branch in kind:
            yield from _newer_names(schema, branch, path, around)
        return
    kind = schema._named.get(kind) if isinstance(kind, str) else kind
    if kind and kind["type"] == "record" and kind["name"] not in around:
        for one in kind["fields"]:
            yield from ((path + alias, one["name"]) for alias in one.get("aliases", ()))
            inner = f"{path}{one['name']}."
            yield from _newer_names(schema, one["type"], inner, (*around, kind["name"]))


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


class _Copy:
    """Copies a schema, with the names that its fields are to have.

    A type that leads back to itself is copied for each level, down to the deepest.

    `named` are the types of the schema; `names` those that fields may have had before, None where
    fields keep their own; `newer` those that they got later, by their places. Such names are found
    on the way down from the outermost record; inside arrays, maps and types that lead back to
    themselves there are none.
    """

    def __init__(
        self, named: Mapping[str, Any], names: frozenset[str] | None, newer: Mapping[str, str]
    ) -> None:
        self.has_aliases, self.is_settled = False, True
        self._named, self._names, self._newer = named, names, newer
        self._made: dict[tuple[str, int], str] = {}
        """Names of copied records, by their own names and depths."""
        self._open: set[str] = set()
        self._empty = {"null"}
        """Names of copied types whose values take no bytes."""
        self._count = 0

    def reader(self, record: Any) -> Read:
        """Return the function that reads framed records."""
        made = fastavro.parse_schema(self._of(record, "", 0))
        read_by = fastavro.schemaless_reader

        def read(value: bytes) -> dict[str, Any]:
            body = io.BytesIO(value)
            body.seek(FRAME_BYTES)
            try:
                found: Any = read_by(body, made, None)
            except UnicodeDecodeError as error:
                raise BadRecord(f"a text in the record is not UTF-8: {error.reason}") from None
            except (EOFError, IndexError, OverflowError):
                raise BadRecord(
                    f"its {len(value)} bytes do not fit its schema: they end too soon, or name a "
                    "missing branch or symbol"
                ) from None
            if (left := len(value) - body.tell()) > 0:
                raise BadRecord(f"{left} bytes follow the record that its schema describes")
            return found  # type: ignore[no-any-return]

        return read

    def _of(self, kind: Any, path: str | None, depth: int) -> Any:
        """Return the copy of a type; `path` is the beginning of the names of fields in it."""
        self._count += 1
        if self._count > _MOST_TYPES:
            raise BadRecord(f"it has more than {_MOST_TYPES} types")
        if isinstance(kind, str):
            if kind in _PRIMITIVE:
                return kind
            kind = self._named[kind]
        if depth > _DEEPEST:
            return {**_TOO_DEEP, "name": self._name()}
        if isinstance(kind, list):
            if any(isinstance(branch, list) for branch in kind):
                raise BadRecord("a union is a branch of another union")
            return [self._of(branch, path, depth + 1) for branch in kind]
        return self._of_dict(kind, path, depth)

    def _of_dict(self, kind: Any, path: str | None, depth: int) -> Any:
        match kind["type"]:
            case "record" | "error":
                return self._record(kind, path, depth)
            case "array":
                items = self._of(kind["items"], None, depth + 1)
                if self._takes_none(items):
                    # No byte would have to be there for however many a record claims.
                    raise BadRecord("it has an array of items that take no bytes")
                return {"type": "array", "items": items}
            case "map":
                return {"type": "map", "values": self._of(kind["values"], None, depth + 1)}
            case "enum":
                return {"type": "enum", "name": self._name(), "symbols": kind["symbols"]}
            case "fixed":
                if kind["size"] < 0:
                    raise BadRecord(f"the fixed {kind['name']!r} has no size")
                fixed = {"type": "fixed", "name": self._name(), "size": kind["size"]}
                if not kind["size"]:
                    self._empty.add(fixed["name"])
                return _with_logical(fixed, kind)
            case "null":
                return "null"
            case plain:
                return _with_logical({"type": plain}, kind)

    def _record(self, record: Any, path: str | None, depth: int) -> Any:
        own = record["name"]
        if own in self._open or (self._names is None and not self._newer):
            path = None
        if path is None and (own, depth) in self._made:
            return self._made[own, depth]
        name, was_open = self._name(), own in self._open
        if path is None:
            self._made[own, depth] = name
        self._open.add(own)
        fields = []
        for one, called in zip(record["fields"], self._names_in(record, path), strict=True):
            inner = None if path is None else f"{path}{called}."
            fields.append({"name": called, "type": self._of(one["type"], inner, depth + 1)})
        if not was_open:
            self._open.discard(own)
        if all(self._takes_none(field["type"]) for field in fields):
            self._empty.add(name)
        return {"type": "record", "name": name, "fields": fields}

    def _takes_none(self, copied: Any) -> bool:
        """Return whether values of a copied type take no bytes."""
        name = copied.get("name") if isinstance(copied, dict) else copied
        return isinstance(name, str) and name in self._empty

    def _name(self) -> str:
        return f"T{self._count}"

    def _names_in(self, record: Any, path: str | None) -> list[str]:
        """Return the names of a record's fields: newer ones, their own, or former ones."""
        names, taken = self._names, {one["name"] for one in record["fields"]}
        found = []
        for one in record["fields"]:
            own, aliases = one["name"], one.get("aliases", ())
            self.has_aliases = self.has_aliases or bool(aliases)
            name = own if path is None else self._newer.get(path + own, own)
            if name != own:
                name = own if name in taken else name
                taken.add(name)
            if names is not None and path is not None and path + name not in names:
                self.is_settled = self.is_settled and not aliases
                known = (a for a in aliases if path + a in names and a not in taken)
                name = next(known, name)
                taken.add(name)
            found.append(name)
        return found


def _with_logical(made: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Return a type with the logical type of its original, if that is valid and known."""
    logical, scale = kind.get("logical"), kind.get("scale", 0)
    odd = logical == "decimal" and not (type(scale) is int and 0 <= scale <= _MOST_DIGITS)
    if f"{made['type']}-{logical}" in _LOGICAL and not odd:
        made |= {"logicalType": f"streamk-{logical}", "scale": scale}
    return made


# --- writing --------------------------------------------------------------------------------------


def avro_writer(text: str) -> Callable[[Mapping[str, Any]], bytes]:
    """Return the function from outputs to the bytes that a schema describes.

    It raises a `ValueError` or `TypeError` for what is not of its type.
    """
    schema = fastavro.parse_schema(json.loads(text))

    def write(value: Mapping[str, Any]) -> bytes:
        body = io.BytesIO()
        try:
            fastavro.schemaless_writer(body, schema, value)
        except (AttributeError, OverflowError, struct.error) as error:
            raise BadRecord(str(error)) from None
        return body.getvalue()

    return write
