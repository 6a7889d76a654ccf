"""Telling of names that no event has, and of labels that are no classes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from streamk.encoding import Expected, Name, Schema
from streamk.encoding.values import parse_number
from streamk.engine.training.known_fields import KnownFields

__all__ = ["LabelCheck", "NameCheck"]

_EVENTS = 1000
"""Events of a run after which names that have not come are told."""
_MOST = 10
"""Unknown fields that are told."""

_LEAST, _LABELS = 50, 1000
"""Labels of a run that are looked at: with fewer nothing is told, and later ones do not count."""

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


class LabelCheck:
    """Counts how many of the first labels differ: where most do, they are no classes.

    Parameters
    ----------
    label : str, int or None
        The label's field.

    Examples
    --------
    >>> check = LabelCheck("price")
    >>> check.take([f"{n},000.50" for n in range(1, 101)], 0)
    False
    >>> check.sentences()[0].partition(";")[0]
    "the label 'price' has 100 values in 100 events, too many to learn them as classes"
    """

    def __init__(self, label: Name | None) -> None:
        self._label = label
        self._values: set[Any] = set()
        self._seen = self._refused = 0

    def take(self, labels: Iterable[Any], refused: int) -> bool:
        """Look at labels, None where one is not known, and so many that are no class.

        Returns whether all that are looked at have come now.
        """
        if self._seen >= _LABELS:
            return False
        there = [label for label in labels if label is not None]
        self._values.update(there)
        self._refused += refused
        self._seen += len(there) + refused
        return self._seen >= _LABELS

    def sentences(self) -> tuple[str, ...]:
        """Return what is to be told, if there is something."""
        n = len(self._values) + self._refused
        if self._seen < _LEAST or 2 * n <= self._seen:
            return ()
        texts = [value for value in self._values if isinstance(value, str)]
        numbers = n - sum(parse_number(text) is None for text in texts)
        fix = "is another field to be predicted?"
        if 2 * numbers > n:
            fix = "numbers are learned with --task regression"
        found = f"the label {self._label!r} has {n:,} values in {self._seen:,} events"
        return (f"{found}, too many to learn them as classes; {fix}",)
