"""Avro schemas as trees of types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.errors import BadRecord

__all__ = [
    "Array",
    "AvroType",
    "Enum",
    "Field",
    "Fixed",
    "Map",
    "Plain",
    "Record",
    "Union",
    "parse",
]

PLAIN = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

_DEEPEST = 64
"""Types inside each other in the text of a schema."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A primitive type, with its logical type if it has one; `scale` is that of a decimal."""

    name: str
    logical: str | None = None
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many bytes."""

    size: int
    logical: str | None = None
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some texts."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A list of items of one type."""

    items: AvroType


@dataclass(frozen=True, slots=True)
class Map:
    """Texts with values of one type."""

    values: AvroType


@dataclass(frozen=True, slots=True)
class Union:
    """A value of one of some types."""

    branches: tuple[AvroType, ...]


@dataclass(slots=True, eq=False)
class Record:
    """A record; its fields may lead back to it."""

    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    aliases: tuple[str, ...]
    type: AvroType


AvroType = Plain | Fixed | Enum | Array | Map | Union | Record


def parse(text: str, references: Mapping[str, str] | None = None) -> AvroType:
    """Return the type that a schema describes.

    Parameters
    ----------
    text : str
        JSON, as in an .avsc file.
    references : mapping of str to str, optional
        Schemas whose named types it uses, each after those that it uses itself.

    Raises
    ------
    BadRecord
        If that is no schema.

    Examples
    --------
    >>> parse('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}').fields
    [Field(name='a', aliases=(), type=Plain(name='int', logical=None, scale=0))]
    """
    parser = _Parser()
    for referenced in (references or {}).values():
        parser.type_of(_loaded(referenced), "", 0)
    return parser.type_of(_loaded(text), "", 0)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"it is not JSON: {error}") from None


class _Parser:
    """Reads schemas that share names."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def type_of(self, schema: Any, namespace: str, depth: int) -> AvroType:
        """Return the type of a schema that stands in a namespace."""
        if depth > _DEEPEST:
            raise BadRecord(f"types are nested deeper than {_DEEPEST}")
        if isinstance(schema, str):
            return self._of_name(schema, namespace)
        if isinstance(schema, list):
            if any(isinstance(one, list) for one in schema):
                raise BadRecord("a union is a branch of another union")
            return Union(tuple(self.type_of(one, namespace, depth + 1) for one in schema))
        if not isinstance(schema, dict) or "type" not in schema:
            raise BadRecord(f"{_short(schema)} is no type")
        match schema["type"]:
            case "record" | "error":
                return self._record(schema, namespace, depth)
            case "enum":
                return self._enum(schema, namespace)
            case "fixed":
                return self._fixed(schema, namespace)
            case "array":
                return Array(self.type_of(schema.get("items"), namespace, depth + 1))
            case "map":
                return Map(self.type_of(schema.get("values"), namespace, depth + 1))
            case str(kind) if kind in PLAIN:
                return Plain(kind, *_logical(schema))
            case kind:
                return self.type_of(kind, namespace, depth + 1)

    def _of_name(self, name: str, namespace: str) -> AvroType:
        if name in PLAIN:
            return Plain(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for found in (full, name):
            if found in self._named:
                return self._named[found]
        raise BadRecord(f"there is no type {name!r}; it may be a reference that is lacking")

    def _enum(self, schema: Mapping[str, Any], namespace: str) -> Enum:
        full, symbols = _full_name(schema, namespace), schema.get("symbols")
        if not (isinstance(symbols, list) and all(isinstance(one, str) for one in symbols)):
            raise BadRecord(f"the enum {full!r} has no list of symbols")
        made = self._named[full] = Enum(tuple(symbols))
        return made

    def _fixed(self, schema: Mapping[str, Any], namespace: str) -> Fixed:
        full, size = _full_name(schema, namespace), schema.get("size")
        if type(size) is not int or size < 0:
            raise BadRecord(f"the fixed {full!r} has no size")
        made = self._named[full] = Fixed(size, *_logical(schema))
        return made

    def _record(self, schema: Mapping[str, Any], namespace: str, depth: int) -> Record:
        record = Record()
        full = _full_name(schema, namespace)
        self._named[full] = record
        inner = full.rpartition(".")[0]
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise BadRecord(f"the record {full!r} has no list of fields")
        for one in fields:
            if not (isinstance(one, dict) and isinstance(one.get("name"), str) and "type" in one):
                raise BadRecord(f"the record {full!r} has a field without a name or a type")
            aliases = one.get("aliases") or ()
            if isinstance(aliases, str) or not all(isinstance(other, str) for other in aliases):
                raise BadRecord(f"the aliases of {one['name']!r} are no list of names")
            made = self.type_of(one["type"], inner, depth + 1)
            record.fields.append(Field(one["name"], tuple(aliases), made))
        return record


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise BadRecord(f"{_short(schema)} has no name")
    own = schema.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


def _logical(schema: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return a logical type and its scale; one that makes no sense counts for nothing."""
    logical, scale = schema.get("logicalType"), schema.get("scale", 0)
    if not isinstance(logical, str) or (
        logical == "decimal" and not (type(scale) is int and 0 <= scale <= 1000)
    ):
        return None, 0
    return logical, scale if logical == "decimal" else 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
