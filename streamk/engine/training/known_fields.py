"""Fields of events that a model knows nothing of, where nothing is learned of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

from streamk.encoding import Name, Rejected, Schema, flatten, vector_of

__all__ = ["KnownFields", "Unknown"]

_MOST, _LONGEST = 200, 40
"""Names that are compared for hints, and letters of each: they may be anybody's."""


class Unknown(NamedTuple):
    """Fields of an event that a model does not have.

    Attributes
    ----------
    names : tuple of str or int
        Nested ones with dots.
    is_all : bool
        It has no other fields.
    """

    names: tuple[Name, ...] = ()
    is_all: bool = False


class KnownFields:
    """The fields of which a model has columns, and those that are left out on purpose.

    Parameters
    ----------
    schema : Schema
        That of the model. One without columns knows of nothing that is missing.

    Examples
    --------
    >>> known = KnownFields(Schema(("price", "user.age"), label="sold"))
    >>> known.of({"price": 3, "user": {"age": 30}, "sold": True})
    Unknown(names=(), is_all=False)
    >>> known.of({"prise": 3, "user": {"age": 30}}), known.nearest("prise")
    (Unknown(names=('prise',), is_all=False), ['price'])
    """

    def __init__(self, schema: Schema) -> None:
        label = () if schema.label is None else (schema.label,)
        self._ignored = (*schema.ignore, *label)
        self._fields = frozenset(schema.kinds)
        self._all = self._fields | frozenset(self._ignored)
        self._vectors = frozenset(map(vector_of, self._fields))
        self._nearest: dict[str, list[str]] = {}

    def of(self, event: Mapping[Any, Any]) -> Unknown:
        """Return what is unknown of an event; nothing of one whose names cannot be read."""
        if self._all.issuperset(event) and dict not in map(type, event.values()):
            return Unknown()  # as mostly
        try:
            fields = flatten(event, self._ignored)
        except Rejected:
            return Unknown()
        unknown = tuple(name for name, cell in fields.items() if not self._has(name, cell))
        if not self._fields or not unknown:
            return Unknown()
        return Unknown(unknown, len(unknown) == len(fields))

    def _has(self, name: Name, cell: Any) -> bool:
        is_vector = cell is None or isinstance(cell, list | tuple)
        return name in self._fields or (is_vector and name in self._vectors)

    def nearest(self, name: Name) -> list[str]:
        """Return the fields of the model that may have been meant by another name."""
        text = str(name)[:_LONGEST]
        if text not in self._nearest:
            if len(self._nearest) == _MOST:
                self._nearest.clear()
            fields = [field for field in map(str, self._fields) if len(field) <= _LONGEST]
            fields.sort(key=lambda field: (abs(len(field) - len(text)), field))
            self._nearest[text] = difflib.get_close_matches(text, fields[:_MOST], 3)
        return self._nearest[text]

    def sentence(self, name: Name, *, is_all: bool) -> str:
        """Return what is told of an unknown field: that it is one, and the nearest that are none.

        `is_all` is that of its event.
        """
        others = ", nor any other field of the event" if is_all else ""
        near = ", ".join(map(repr, self.nearest(name)))
        hint = f"; nearest of those that it has: {near}" if near else ""
        return f"the model has no field {name!r}{others}{hint}"
