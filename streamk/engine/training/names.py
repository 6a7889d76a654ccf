"""Telling of names that were given for a run and that no event has."""

from __future__ import annotations

import logging

from streamk.encoding import Expected, Name, Schema

__all__ = ["NameCheck"]

_EVENTS = 1000
"""Events of a run after which names that have not come are told."""

_log = logging.getLogger("streamk.engine")


class NameCheck:
    """Warns of ignored fields, of a label and of a slice that no event of this run has.

    Parameters
    ----------
    schema : Schema
    slice_by : str or int, optional
        The field whose values have figures of their own.
    """

    def __init__(self, schema: Schema, slice_by: Name | None = None) -> None:
        self._label = schema.label
        self._roles: dict[Name | None, str] = {slice_by: "slice"}
        # Columns that are fixed are those of a model, which was given the names for other events.
        if schema.mode != "fixed":
            self._roles |= dict.fromkeys(schema.ignore, "ignored field")
            self._roles[schema.label] = "label"
        self.expected = Expected(name for name in self._roles if name is not None)
        self._events = 0
        self.was_met = False
        """True if a run before this one has learned by the label: a few events may lack it then."""

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
        """Return a sentence for each name that has not come; none before the first event."""
        if not self._events:
            return ()
        return tuple(
            f"none of {self._events:,} events has the {self._roles[name]} {name!r}"
            f"{self.expected.hint(name)}"
            for name in self.expected.absent
            if not (name == self._label and self.was_met and self._events < _EVENTS)
        )
