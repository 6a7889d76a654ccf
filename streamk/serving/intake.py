"""Events that requests bring to be learned: checked, and added to the log that a job reads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from connectors.base import EventLog
from streamk.encoding import BadEvent, Schema, decoder
from streamk.errors import InvalidInput
from streamk.serving.answers import RefusedEvents
from streamk.serving.trained import TrainedModel

__all__ = ["Intake"]

_ENCODINGS = ("json", "dict")
"""Of jobs that read what is posted; dicts in memory stand for JSON."""


class Intake:
    """Adds events with labels to a log. May be used by several threads.

    Parameters
    ----------
    model : TrainedModel
        By whose columns and label the events are checked.
    log : EventLog

    Raises
    ------
    InvalidInput
        If the job of the model could not learn them: its events are no plain JSON, or its labels
        come from a source of their own.
    """

    def __init__(self, model: TrainedModel, log: EventLog) -> None:
        if model.encoding not in _ENCODINGS:
            raise InvalidInput(
                f"the job of this model reads events of encoding {model.encoding!r}, and those that"
                " are posted to be learned are JSON; post them to a job that reads JSON"
            )
        if model.late_labels:
            raise InvalidInput(
                "the job of this model takes its labels from a source of their own, so that a label"
                " in an event that is posted would not be read; add events and labels to the two"
                " sources of the job"
            )
        self._model, self._log = model, log
        self._lock = threading.Lock()
        """Of the decoder, and so that requests stay in one piece in the log."""
        self._use(model.schema)

    def _use(self, schema: Schema) -> None:
        self._schema, self._decoder = schema, decoder("json", schema)

    def append(self, events: Sequence[bytes]) -> None:
        """Add the events of a request, each an object of JSON; durable when it returns.

        Raises
        ------
        RefusedEvents
            If some cannot be used, or have no label. Then none is added.
        ConnectorError
            As `connectors.base.EventLog.append`.
        """
        with self._lock:
            if self._model.schema is not self._schema:
                self._use(self._model.schema)
            decoded = self._decoder.decode(events)
            label = self._schema.label
            bad = [
                *decoded.bad,
                *(
                    BadEvent(int(row), str(label), "no label; an event to be learned has one")
                    for row, known in zip(decoded.good, decoded.y, strict=True)
                    if known is None
                ),
            ]
            if bad:
                raise RefusedEvents(sorted(bad, key=lambda event: event.row))
            self._log.append([msgspec.json.format(event, indent=-1) for event in events])
