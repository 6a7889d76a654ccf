"""The fields of raw events, for the reasons that name their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.base import Source
from connectors.records import FRAMED
from streamk.encoding import FieldReader, Rejected, Schema
from streamk.learners.base import Learner
from streamk.learners.explaining import Event, Fields

__all__ = ["EventFields"]


class EventFields:
    """Reads the fields of raw events as they stand there.

    Parameters
    ----------
    source : Source
        Of the events.
    """

    def __init__(self, source: Source) -> None:
        self._places = Fields()
        self._source = source
        self._have_names = source.encoding in ("json", "csv", "dict", *FRAMED)
        self._known = -1

    def places_of(self, model: Learner, schema: Schema) -> Fields:
        """Return the fields with the places of their columns in a model."""
        self._places.follow(schema, model.columns or ())
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
