"""The fields of outputs, from which sinks make the schema of their records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from connectors.base import Sink

Scalar = Literal["boolean", "integer", "number", "text", "label", "value"]
"""Types of values: "integer" has 64 bits with a sign, and "number" is a float; a "label" and a
"value" are one of `UNIONS`."""

UNIONS: Mapping[Scalar, Mapping[type, Scalar]] = {
    "label": {bool: "boolean", int: "integer", str: "text"},
    "value": {bool: "boolean", int: "number", float: "number", str: "text"},
}
"""The types of a class ("label") and of a field of an event ("value"), by those of Python."""


def branches(kind: Scalar) -> tuple[Scalar, ...]:
    """Return the types that a value of a type may have, in order.

    >>> branches("text"), branches("value")
    (('text',), ('boolean', 'number', 'text'))
    """
    return tuple(dict.fromkeys(UNIONS[kind].values())) if kind in UNIONS else (kind,)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of items of one type."""

    items: Scalar | RecordType


@dataclass(frozen=True, slots=True)
class MapOf:
    """Texts, each with a value of one type."""

    values: Literal["number"]


@dataclass(frozen=True, slots=True)
class Field:
    """An entry of an output."""

    name: str
    number: int
    """Its number in Protobuf, at least 1: no other field of the record may ever have it."""
    type: Scalar | ListOf | MapOf
    nullable: bool = False
    """True if it may be None."""
    optional: bool = False
    """True if an output may lack it, which is written as None: it must be nullable."""

    def __post_init__(self) -> None:
        """Raise `ValueError` where it is optional and not nullable."""
        if self.optional and not self.nullable:
            raise ValueError(f"field {self.name!r} may be missing, so it must be nullable")


@dataclass(frozen=True, slots=True)
class RecordType:
    """The name of a kind of outputs, "Prediction" say, and its fields."""

    name: str
    fields: tuple[Field, ...]


@runtime_checkable
class Declaring(Protocol):
    """A sink that has to know the fields of outputs before the first one."""

    def declare(self, record: RecordType) -> None:
        """All outputs are of this type from here on. Called once, before `rewind` and `write`.

        Raises `ConnectorError` where no records of it can be written.
        """


def declare(sink: Sink | None, record: RecordType) -> None:
    """Tell a sink the type of its outputs, if there is a sink and it needs the type."""
    if isinstance(sink, Declaring):
        sink.declare(record)
