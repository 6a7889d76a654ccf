"""Answers to requests: events in JSON, read as the job reads them, and predicted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.encoding import BadEvent, Rejected, Schema, decoder, flatten
from streamk.encoding.values import read_json
from streamk.engine.training.beside import RegionGiver
from streamk.engine.training.fields import KnownFields, Unknown
from streamk.engine.training.options import Details
from streamk.errors import InvalidInput
from streamk.learners import Learner
from streamk.learners.explaining import Event, Fields
from streamk.trained import TrainedModel, answers

_SHOWN, _HINTS = 20, 3
"""Unknown fields that are named of an event, and that the nearest are named of in an answer."""

Asked = tuple[Learner, Schema, NDArray[np.float64], Callable[[], Event]]
"""The arguments of `Observer.explain`."""


class RefusedEvents(InvalidInput):
    """Events of a request that cannot be used.

    `events` has of each its "index" in the request, the "column" that is wrong, if it is one, and
    the "reason".
    """

    def __init__(self, bad: Sequence[BadEvent]) -> None:
        self.events = [
            {"index": event.row, "column": event.column, "reason": event.reason} for event in bad
        ]
        first = self.events[0]
        super().__init__(f"event {first['index']}: {first['reason']}")


def split(body: bytes, each: Any = Any) -> tuple[list[Any], bool]:
    """Return the events of a request's body, and whether they are a list.

    The body is JSON: an object, which is one event, or an array of objects; ``msgspec.Raw`` is
    their type for their bytes as they stand there. Raises `InvalidInput` if it is neither, and
    `RefusedEvents` if some events of an array are not JSON.

    Examples
    --------
    >>> split(b'[{"a": 1}, {"a": 2}]'), split(b'{"a": 1}')
    (([{'a': 1}, {'a': 2}], True), ([{'a': 1}], False))
    """
    first = body.lstrip()[:1]
    if first not in (b"[", b"{") or not first:
        raise InvalidInput("the body must be an event (a JSON object) or an array of events")
    try:
        if first == b"{":
            return [msgspec.json.decode(body, type=each)], False
        try:
            return msgspec.json.decode(body, type=list[each]), True
        except msgspec.DecodeError:  # where it is of single events, these are named
            return _one_by_one(msgspec.json.decode(body, type=list[msgspec.Raw])), True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"invalid JSON in the body: {error}") from None


def _one_by_one(events: Sequence[msgspec.Raw]) -> list[Any]:
    """Return events, read with care. Raises `RefusedEvents`."""
    found, bad = [], []
    for row, event in enumerate(events):
        try:
            found.append(read_json(bytes(event)))
        except Rejected as rejected:
            bad.append(BadEvent(row, rejected.column, rejected.reason))
    if bad:
        raise RefusedEvents(bad)
    return found


class _Reading:
    """The decoder of events for one model, and the fields that it has."""

    def __init__(self, learner: Learner, schema: Schema, kept: RegionGiver | None) -> None:
        self.learner, self.schema, self.kept = learner, schema, kept
        self.known, self.fields = KnownFields(schema), Fields()
        self.fields.follow(schema, learner.explained.columns or ())
        ignore = schema.ignore if schema.label is None else (*schema.ignore, schema.label)
        unlabelled = replace(schema, label=None, label_type=None, ignore=ignore)
        self.decoder = decoder("dict", unlabelled)


class Answers:
    """Predictions of a model that other threads may replace by a newer one.

    Each request is answered by one model. May be used by several threads.
    """

    def __init__(self, model: TrainedModel) -> None:
        self._model = model
        self._asked: Asked | None = None
        self._lock = threading.Lock()
        """Of the decoder, which writes to arrays of its own."""
        self._reading = _Reading(*model.current)

    def of(
        self, events: Sequence[Mapping[str, Any]], details: Details | None = None
    ) -> list[dict[str, Any]]:
        """Return of each event what `streamk predict` writes: its prediction, and more.

        Fields that the model does not have are named, too, and with the first event that has one
        the nearest of those that it has. Raises `RefusedEvents` if some cannot be used, or have
        fields and none that the model has (then none is predicted), and `InvalidInput` if the model
        has no such details.
        """
        reading, X = self._decoded(events)
        learner, schema, known = reading.learner, reading.schema, reading.known
        unknown = [known.of(event) for event in events]
        bad = [
            BadEvent(row, names[0], f"unknown column: {known.sentence(names[0], is_all=True)}")
            for row, (names, is_all) in enumerate(unknown)
            if is_all
        ]
        if bad:
            raise RefusedEvents(bad)
        if len(X):
            last = events[-1]
            self._asked = learner, schema, X[-1:], lambda: flatten(last, schema.ignore)
        regions: RegionGiver | None = None
        if details is not None:
            details, regions = details.served(learner, reading.kept)
        found = answers(learner, X, regions)
        if details is not None:
            raw = [flatten(event, schema.ignore) if details.explain else None for event in events]
            for answer, more in zip(
                found, details.of(learner, reading.fields, X, raw), strict=True
            ):
                answer |= more
        _name(unknown, known, found)
        return found

    def asked(self) -> Asked | None:
        """Return what `Observer.explain` takes of the event predicted last, once."""
        found, self._asked = self._asked, None
        return found

    def _decoded(self, events: Sequence[Mapping[str, Any]]) -> tuple[_Reading, NDArray[np.float64]]:
        """Return how events are read by now, and these as rows. Raises `RefusedEvents`."""
        with self._lock:
            current = self._model.current
            if current[0] is not self._reading.learner:
                self._reading = _Reading(*current)
            reading = self._reading
            decoded = reading.decoder.decode(events)
            X = decoded.X.copy()
        if decoded.bad:
            raise RefusedEvents(decoded.bad)
        return reading, X if reading.learner.takes_missing else np.nan_to_num(X)


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
