"""Telling of names that were given for a run and that no event has."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from streamk.encoding import Expected, Name, Schema
from streamk.engine.training.known_fields import KnownFields

__all__ = ["NameCheck"]

_EVENTS = 1000
"""Events of a run after which names that have not come are told."""
_MOST = 10
"""Unknown fields that are told."""

_log = logging.getLogger("streamk.engine")


class NameCheck:
    """Warns of names that are of no use: those of a run that no event has, and the other way round.

    These are ignored fields, a label and a slice, or, where nothing is learned, fields of the
    events that the model does not have.

    Parameters
    ----------
    schema : Schema
    slice_by : str or int, optional
        The field whose values have figures of their own.
    learns : bool, default True
    """

    def __init__(
        self, schema: Schema, slice_by: Name | None = None, *, learns: bool = True
    ) -> None:
        self._label = schema.label
        self._roles: dict[Name | None, str] = {slice_by: "slice"}
        # Columns that are fixed are those of a model, which was given the names for other events.
        if schema.mode != "fixed":
            self._roles |= dict.fromkeys(schema.ignore, "ignored field")
            self._roles[schema.label] = "label"
        names = [name for name in self._roles if name is not None]
        self.expected = Expected(names) if learns else _Fields(names)
        self._events = 0
        self.was_met = False
        """True if a run before this one has learned by the label: a few events may lack it then."""

    def use(self, schema: Schema) -> None:
        """Go by the fields of this model from here on, where nothing is learned."""
        if isinstance(self.expected, _Fields):
            self.expected.known = KnownFields(schema)

    @property
    def lacks_label(self) -> bool:
        """True if the label is among the names that have not come."""
        return self._events > 0 and self._label in self.expected.absent

    def after(self, events: int) -> None:
        """Take note that so many more events were read."""
        before, self._events = self._events, self._events + events
        if before < _EVENTS <= self._events:
            self.tell()

    def tell(self) -> None:
        """Warn of the names that have not come."""
        for sentence in self.sentences():
            _log.warning("%s", sentence)

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence for each of the names; none before the first event."""
        if not self._events:
            return ()
        absent = [
            f"none of {self._events:,} events has the {self._roles[name]} {name!r}"
            f"{self.expected.hint(name)}"
            for name in self.expected.absent
            if not (name == self._label and self.was_met and self._events < _EVENTS)
        ]
        unknown = self.expected.sentences() if isinstance(self.expected, _Fields) else []
        return (*absent, *unknown)


class _Fields(Expected):
    """Fields of events of which a model has no column, among those that a decoder looks at."""

    def __init__(self, names: Iterable[Name]) -> None:
        super().__init__(names)
        self.known = KnownFields(Schema())
        self._unknown: dict[Name, bool] = {}

    def note(self, event: Mapping[Any, Any]) -> None:
        """Look at the names of an event, or of a header."""
        super().note(event)
        found = self.known.of(event)
        for name in found.names[: _MOST + 1 - len(self._unknown)]:
            self._unknown.setdefault(name, found.is_all)

    def sentences(self) -> list[str]:
        """Return a sentence for each field."""
        found = [self.known.sentence(name, is_all=is_all) for name, is_all in self._unknown.items()]
        return found[:_MOST] + ["and no more of the fields that events have"] * (len(found) > _MOST)
