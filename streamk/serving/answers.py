"""Answers to requests: events in JSON, read as the job reads them, and predicted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.conformal import Regions
from streamk.encoding import BadEvent, FieldReader, Schema, decoder
from streamk.engine.training.details import Details
from streamk.engine.training.fields import KnownFields, Unknown
from streamk.errors import InvalidInput
from streamk.learners import Learner
from streamk.learners.explaining import Event, Fields
from streamk.serving.trained import TrainedModel, answers

__all__ = ["Answers", "RefusedEvents", "split"]

_SHOWN, _HINTS = 20, 3
"""Unknown fields that are named of an event, and that the nearest are named of in an answer."""

_READER = FieldReader("json", ())

Asked = tuple[Learner, Schema, NDArray[np.float64], Callable[[], Event]]
"""The arguments of `Observer.explain`."""


class RefusedEvents(InvalidInput):
    """Events of a request that cannot be used.

    Attributes
    ----------
    events : list of dict
        Of each its "index" in the request, the "column" that is wrong, if it is one, and the
        "reason".
    """

    def __init__(self, bad: Sequence[BadEvent]) -> None:
        self.events = [
            {"index": event.row, "column": event.column, "reason": event.reason} for event in bad
        ]
        first = self.events[0]
        super().__init__(f"event {first['index']}: {first['reason']}")


def split(body: bytes) -> tuple[list[bytes], bool]:
    """Return the events of a request's body as they stand in it, and whether they are a list.

    Parameters
    ----------
    body : bytes
        JSON: an object, which is one event, or an array of objects.

    Raises
    ------
    InvalidInput
        If the body is neither.

    Examples
    --------
    >>> split(b'[{"a": 1}, {"a": 2}]'), split(b'{"a": 1}')
    (([b'{"a": 1}', b'{"a": 2}'], True), ([b'{"a": 1}'], False))
    """
    try:
        kind = body.lstrip()[:1]
        if kind != b"[":
            if kind != b"{":
                raise InvalidInput(
                    "the body must be an event, an object of JSON, or an array of them"
                )
            msgspec.json.decode(body)
            return [body], False
        return [bytes(raw) for raw in msgspec.json.decode(body, type=list[msgspec.Raw])], True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is no JSON: {error}") from None


class Answers:
    """Predictions of a model that other threads may replace by a newer one.

    Each request is answered by one model. May be used by several threads.

    Parameters
    ----------
    model : TrainedModel
    """

    def __init__(self, model: TrainedModel) -> None:
        self._model = model
        self._asked: Asked | None = None
        self._lock = threading.Lock()
        """Of the decoder, which writes to arrays of its own."""
        learner, schema, _ = model.current
        self._use(learner, schema)

    def _use(self, learner: Learner, schema: Schema) -> None:
        self._learner, self._known = learner, KnownFields(schema)
        self._places = Fields()
        self._places.follow(schema, learner.columns or ())
        ignore = schema.ignore if schema.label is None else (*schema.ignore, schema.label)
        self._decoder = decoder("json", replace(schema, label=None, label_type=None, ignore=ignore))

    def of(self, events: Sequence[bytes], details: Details | None = None) -> list[dict[str, Any]]:
        """Return of each event what `streamk predict` writes: its prediction, and more.

        Fields that the model does not have are named, too, and with the first event that has one
        the nearest of those that it has.

        Parameters
        ----------
        events : sequence of bytes
            Objects of JSON.
        details : Details, optional
            The intervals and reasons that are wanted.

        Raises
        ------
        RefusedEvents
            If some cannot be used, or have fields and none that the model has. Then none is
            predicted.
        InvalidInput
            If the model has no such details.
        """
        (learner, schema, kept), places, known, X = self._decoded(events)
        unknown = [_unknown(event, known) for event in events]
        _refuse(unknown, known)
        if len(X):
            last = events[-1]
            self._asked = learner, schema, X[-1:], lambda: _fields_of(last, schema)
        regions: Regions | None = None
        if details is not None:
            details, regions = details.served(learner, kept)
        found = answers(learner, X, regions)
        if details is not None:
            raw = [_fields_of(event, schema) if details.explain else None for event in events]
            for answer, more in zip(found, details.of(learner, places, X, raw), strict=True):
                answer |= more
        _name(unknown, known, found)
        return found

    def asked(self) -> Asked | None:
        """Return what `Observer.explain` takes of the event predicted last, once."""
        found, self._asked = self._asked, None
        return found

    def _decoded(
        self, events: Sequence[bytes]
    ) -> tuple[tuple[Learner, Schema, Regions | None], Fields, KnownFields, NDArray[np.float64]]:
        """Return `TrainedModel.current`, the places of its fields, those, and the events as rows.

        Raises `RefusedEvents`.
        """
        with self._lock:
            current = learner, schema, _ = self._model.current
            if learner is not self._learner:
                self._use(learner, schema)
            decoded = self._decoder.decode(events)
            X, places, known = decoded.X.copy(), self._places, self._known
        if decoded.bad:
            raise RefusedEvents(decoded.bad)
        return current, places, known, X if learner.takes_missing else np.nan_to_num(X)


def _fields_of(event: bytes, schema: Schema) -> Event:
    """Return the fields of an event that was decoded, as they stand there."""
    return _READER.all(event, schema.ignore)


def _unknown(event: bytes, known: KnownFields) -> Unknown:
    """Return what is unknown of an event that was read."""
    try:
        return known.of(msgspec.json.decode(event))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # in what is not read
        return Unknown()


def _refuse(unknown: Sequence[Unknown], known: KnownFields) -> None:
    """Raise `RefusedEvents` if the model knows none of the fields of some events."""
    bad = []
    for row, (names, is_all) in enumerate(unknown):
        if is_all:
            reason = f"unknown column: {known.sentence(names[0], is_all=True)}"
            bad.append(BadEvent(row, names[0], reason))
    if bad:
        raise RefusedEvents(bad)


def _name(unknown: Sequence[Unknown], known: KnownFields, answers: list[dict[str, Any]]) -> None:
    """Add the fields that are unknown to the answers, and the nearest to the first that has one."""
    told: set[str] = set()
    for (names, _), answer in zip(unknown, answers, strict=True):
        if names:
            shown = [str(name) for name in names[:_SHOWN]]
            answer["unknown"] = shown
            new = [name for name in shown if name not in told][: _HINTS - len(told)]
            told.update(new)
            near = {name: fields for name in new if (fields := known.nearest(name))}
            if near:
                answer["nearest"] = near
