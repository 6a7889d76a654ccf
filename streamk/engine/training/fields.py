"""The fields of raw events, for the reasons that name their values."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from connectors.base import Source
from connectors.records import FRAMED
from streamk.encoding import SAID, Expected, FieldReader, Name, Rejected, Schema, flatten, vector_of
from streamk.encoding.values import parse_number
from streamk.learners.common.base import Learner
from streamk.learners.explaining import Event, Fields


class EventFields:
    """Reads the fields of raw events of a source as they stand there."""

    def __init__(self, source: Source) -> None:
        self._places = Fields()
        self._source = source
        self._have_names = source.encoding in ("json", "csv", "dict", *FRAMED)
        self._known = -1

    def places_of(self, model: Learner, schema: Schema) -> Fields:
        """Return the fields with the places of their columns in a model."""
        self._places.follow(schema, model.predicting.explained.columns or ())
        return self._places

    def of(self, values: Sequence[Any], schema: Schema) -> list[Event]:
        """Return the fields of events; None of each where they have no names of their own."""
        if not self._have_names:
            return [None] * len(values)
        if len(schema.kinds) != self._known:  # in Avro a field may have been called as one of these
            self._reader = FieldReader.of_source(self._source, tuple(schema.kinds))
            self._known = len(schema.kinds)
        return [self._one(value, schema) for value in values]

    def _one(self, value: Any, schema: Schema) -> Event:
        try:
            return self._reader.all(value, schema.ignore)
        except Rejected:
            return None


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
        hint = f"; its nearest fields: {near}" if near else ""
        return f"the model has no field {name!r}{others}{hint}"


_EVENTS = 1000
"""Events of a run after which names that have not come are told."""
_MOST_NAMED = 10
"""Unknown fields that are told."""

_LEAST, _LABELS = 50, 1000
"""Labels of a run that are looked at: with fewer nothing is told, and later ones do not count."""
_MOST_NUMBERS = 100
"""Numbers among these up to which they pass for classes."""

_log = logging.getLogger("streamk.engine")


def warn(sentences: Iterable[str]) -> None:
    """Log sentences as warnings."""
    for sentence in sentences:
        _log.warning("%s", sentence)


class NameCheck:
    """Warns of useless names: those of a run that no event has, and the other way round.

    These are ignored fields, fields whose kind is given, a label and the field `slice_by` whose
    values have figures of their own, or, where nothing is learned, fields that the model lacks.
    """

    def __init__(
        self, schema: Schema, slice_by: Name | None = None, *, learns: bool = True
    ) -> None:
        self._label = schema.label
        self._roles: dict[Name | None, str] = {slice_by: "slice"}
        # Columns that are fixed are those of a model, which was given the names for other events.
        if schema.mode != "fixed":
            self._roles |= dict.fromkeys(schema.ignore, "ignored field")
            kinds = schema.kinds.items()
            self._roles |= {name: SAID[kind] for name, kind in kinds if kind in SAID}
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
            warn(self.sentences())

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
        for name in found.names[: _MOST_NAMED + 1 - len(self._unknown)]:
            self._unknown.setdefault(name, found.is_all)

    def sentences(self) -> list[str]:
        """Return a sentence for each field."""
        found = [self.known.sentence(name, is_all=is_all) for name, is_all in self._unknown.items()]
        return found[:_MOST_NAMED] + ["and more fields of the events"] * (len(found) > _MOST_NAMED)


class LabelCheck:
    """Counts how many of the first labels differ: where most do, they are not classes.

    Examples
    --------
    >>> check = LabelCheck("price")
    >>> check.add([f"{n},000.50" for n in range(1, 101)], 0)
    False
    >>> check.sentences()[0].partition(";")[0]
    "the label 'price' has 100 values in 100 events, too many to learn them as classes"
    """

    def __init__(self, label: Name | None) -> None:
        self._label = label
        self._values: set[Any] = set()
        self._seen = self._refused = 0

    def add(self, labels: Iterable[Any], refused: int) -> bool:
        """Look at labels, None where one is not known, and so many that are not classes.

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
        """Return the messages, if there are any."""
        n = len(self._values) + self._refused
        texts = [value for value in self._values if isinstance(value, str)]
        numbers = n - sum(parse_number(text) is None for text in texts)
        if self._seen < _LEAST or (2 * n <= self._seen and numbers <= _MOST_NUMBERS):
            return ()
        fix = "should another field be predicted?"
        if 2 * numbers > n:
            fix = "numbers are learned with --task regression"
        found = f"the label {self._label!r} has {n:,} values in {self._seen:,} events"
        return (f"{found}, too many to learn them as classes; {fix}",)
