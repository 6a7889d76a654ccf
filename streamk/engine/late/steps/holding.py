"""A model with the events that it holds: predicts them, puts them into slots, learns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.conformal import Regions
from streamk.encoding import Name
from streamk.engine.late.steps.taken import Taken
from streamk.engine.observing.observer import Observer
from streamk.engine.training import regions
from streamk.engine.training.details import Details
from streamk.engine.training.event_fields import EventFields
from streamk.engine.training.learning import cut
from streamk.engine.waiting.held import HeldEvents
from streamk.learners.base import Learner
from streamk.learners.common.prequential import Prequential, nothing
from streamk.learners.explaining import Event

__all__ = ["HoldingModel"]

Floats = NDArray[np.float64]


class HoldingModel:
    """A model that predicts events, holds them in slots, and learns them out of these.

    Parameters
    ----------
    model : Learner
    held : HeldEvents
    number : int
        Of the next event to be held.
    label : str
        The label's field, for messages.
    details : Details, optional
    regions : Regions, optional
    observer : Observer, optional
    event_fields : EventFields
    """

    def __init__(
        self,
        model: Learner,
        held: HeldEvents,
        number: int,
        label: Name | None,
        details: Details | None,
        regions: Regions | None,
        observer: Observer | None,
        event_fields: EventFields,
    ) -> None:
        self.model, self.held, self.number, self.label = model, held, number, label
        self._details, self._regions, self.observer = details, regions, observer
        self._event_fields = event_fields

    def predict(
        self, taken: Taken, rows: list[int], slots: list[int]
    ) -> tuple[Prequential, list[dict[str, Any]]]:
        """Have a model that holds predictions predict events, all of them held or none."""
        model, X = self.model, taken.X[rows]
        details = self.details(taken, rows)
        known = 0 if model.columns is None else len(model.columns)
        seen, holds = cut(X, known), slots[0] >= 0
        numbers = range(self.number, self.number + len(X))
        if model.columns is None:
            found = nothing(model, len(X))
        elif holds:
            found = self.model.predict_held_many(seen, numbers)
        else:
            with model.aside():
                found = model.predict_then_learn_many(seen, [None] * len(X))
        details, thresholds = self.with_regions(found, details)
        if holds:
            self.number += len(X)
            self.hold(taken, rows, slots, found, numbers, thresholds)
        return found, details

    def hold(
        self,
        taken: Taken,
        rows: list[int],
        slots: list[int],
        found: Prequential,
        numbers: Sequence[int],
        thresholds: Floats | float,
    ) -> None:
        """Put events that were predicted into their slots."""
        self.held.put(
            slots,
            taken.X[rows],
            taken.width[rows].tolist(),
            found.probabilities,
            self._coded(found),
            numbers,
            thresholds,
            np.nan if taken.slices is None else taken.slices[rows],
        )

    @property
    def has_regions(self) -> bool:
        """A region is given with each prediction."""
        return self._regions is not None

    def with_regions(
        self, found: Prequential, details: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], Floats | float]:
        """Return the details with regions, if they are wanted, and the thresholds of these."""
        if self._regions is None:
            return details, np.nan
        more, thresholds = regions.given(self._regions, found, self.model.classes)
        return [a | b for a, b in zip(more, details or [{}] * len(more), strict=True)], thresholds

    @property
    def has_details(self) -> bool:
        """Details of each prediction are wanted."""
        return self._details is not None

    def details(self, taken: Taken, rows: list[int]) -> list[dict[str, Any]]:
        """Return the details of the next events, some rows of `taken.X`, if they are wanted."""
        if self._details is None:
            return []
        model, events = self.model, self.fields_of(taken, rows)
        places = self._event_fields.places_of(model, taken.schema)
        known = len(model.columns or ())
        return self._details.of(model, places, cut(taken.X[rows], known), events)

    def fields_of(self, taken: Taken, rows: list[int]) -> list[Event]:
        """Return the fields of events as they stand there."""
        return self._event_fields.of([taken.raw[row] for row in rows], taken.schema)

    def _coded(self, found: Prequential) -> Floats:
        """Return predicted numbers, or the numbers of predicted classes, -1 for none."""
        if not self.model.is_classifier:
            return found.predictions
        codes = {(type(label), label): n for n, label in enumerate(self.model.classes)}
        return np.array([codes.get((type(one), one), -1) for one in found.predictions.tolist()])

    def learn(self, slots: list[int], labels: list[Any]) -> None:
        """Have a model that holds predictions learn events out of their slots."""
        X = self.held.rows(slots, len(self.model.columns or ()))
        self.model.learn_held_many(X, labels, self.held.number[slots].tolist())

    def lacks(self, width: int) -> bool:
        """Return whether an event has columns that the model does not know."""
        columns = self.model.columns
        return columns is None or width > len(columns)

    def grow(self, width: int, columns: tuple[Name, ...]) -> None:
        """Give the model the columns that an event has."""
        self.model.add_columns(columns[len(self.model.columns or ()) : width])

    def scores(self, slots: list[int]) -> Prequential:
        """Return what was predicted of held events, with the classes that are known now."""
        said, classes = self.held.said[slots], self.model.classes
        if not self.model.is_classifier:
            return Prequential(said, None)
        answers = np.empty(len(slots), object)
        answers[:] = [None if n < 0 else classes[int(n)] for n in said.tolist()]
        P = np.full((len(slots), len(classes)), np.nan)
        there = self.held.P[slots]
        P[:, : there.shape[1]] = there
        return Prequential(answers, P)

    def delays(self, slots: list[int]) -> list[int]:
        """Return how many events were held after each of those in slots."""
        delays: list[int] = (self.number - 1 - self.held.number[slots]).tolist()
        return delays

    def measures(
        self, said: Prequential, labels: Sequence[Any], thresholds: Floats, delays: Sequence[int]
    ) -> Floats | None:
        """Learn the labels of held events for the regions of others; return how theirs did."""
        if self._regions is None:
            return None
        classes = self.model.classes
        return regions.learn(self._regions, said, classes, labels, thresholds, delays)
