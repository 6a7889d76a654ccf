"""Predict, hold and learn: the steps of a join, followed by a model in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.conformal import Regions
from streamk.encoding import BadEvent, Name
from streamk.engine.late.held import HeldEvents
from streamk.engine.late.join import Join, Predict
from streamk.engine.late.reading import Taken
from streamk.engine.training import regions
from streamk.engine.training.details import Details
from streamk.learners.base import HoldsPredictions, Learner
from streamk.learners.common.classes import Label, beyond
from streamk.learners.common.predictor import aside
from streamk.learners.common.prequential import Prequential, joined, nothing

__all__ = ["Followed", "LateWork"]

Floats = NDArray[np.float64]


class Followed(NamedTuple):
    """Results of a batch.

    Attributes
    ----------
    rows : int64 array (p,)
        Of the batch, the events that were predicted.
    prequential : Prequential
        Their predictions.
    details : list of dict
    classes : tuple of labels
        Those that were known after it.
    scored : Prequential
        The earlier predictions of the events that were learned, in their order.
    labels : list
        Their labels.
    at : int64 array
        The rows at which they were learned.
    drifts : list of int
        Which of these, counted from 1, were the last before experts began anew.
    bad : list of BadEvent
        Labels that would make too many classes.
    measured : float64 array (k, 2), or None
        Whether the regions of the events that were learned held their labels, and their sizes.
    delays : list of int
        Events between each of these and its label.
    slices : list of float
        The slice of each, NaN where it has none.
    """

    rows: NDArray[np.int64]
    prequential: Prequential
    details: list[dict[str, Any]]
    classes: tuple[Any, ...]
    scored: Prequential
    labels: list[Any]
    at: NDArray[np.int64]
    drifts: list[int]
    bad: list[BadEvent]
    measured: Floats | None
    delays: list[int]
    slices: list[float]


class LateWork:
    """A model that predicts events, holds them, and learns them when their labels come.

    Parameters
    ----------
    model : Learner
    join : Join
    held : HeldEvents
    number : int
        Of the next event to be held.
    label : str
        The label's field, for messages.
    details : Details, optional
    regions : Regions, optional
    """

    def __init__(
        self,
        model: Learner,
        join: Join,
        held: HeldEvents,
        number: int,
        label: Name | None,
        details: Details | None,
        regions: Regions | None,
    ) -> None:
        self.model, self.join, self.held, self.number = model, join, held, number
        self._label, self._details, self._regions = label, details, regions
        self._holds: Any = model if isinstance(model, HoldsPredictions) else None
        self._classes = set(model.classes)

    def follow(self, taken: Taken) -> Followed:
        """Predict, hold and learn what a batch brings. Raises `InvalidInput` as the model does."""
        batch = _Batch(self, taken)
        learned = self.model.n_events
        event, answer, classes = self.join.event, self.join.label, self._classes
        clocks = taken.batch.clocks.tolist()
        each = zip(taken.keys, taken.is_label, clocks, strict=True)
        for row, (key, is_label, clock) in enumerate(each):
            if key is None:
                continue
            steps = answer(key, taken.labels[row], clock) if is_label else event(key, clock)
            for step in steps:
                if isinstance(step, Predict):
                    batch.predict(row, step.slot)
                elif not self.model.is_classifier or self._has_room(step.label, classes):
                    batch.learn(row, step.slot, step.label)
                else:
                    batch.refuse(row, step.label)
        batch.flush()
        return batch.result([n - learned for n in getattr(self.model, "drifts", ()) if n > learned])

    def _has_room(self, label: Label, classes: set[Label]) -> bool:
        return label in classes or not beyond(classes, [label], self.model.max_classes)

    def predict(
        self, taken: Taken, rows: list[int], slots: list[int]
    ) -> tuple[Prequential, list[dict[str, Any]]]:
        """Predict the next events, all of them held or none, and put them into their slots."""
        model, X = self.model, taken.X[rows]
        known = 0 if model.columns is None else len(model.columns)
        seen = X if X.shape[1] == known else np.ascontiguousarray(X[:, :known])
        details = [] if self._details is None else [self._details.of(model, x) for x in seen]
        unlabelled, holds = [None] * len(X), slots[0] >= 0
        numbers = range(self.number, self.number + len(X))
        if model.columns is None:
            found = nothing(model, len(X))
        elif holds and self._holds is not None:
            found = self._holds.predict_held_many(seen, numbers)
        elif holds:
            found = model.predict_then_learn_many(seen, unlabelled)
        else:
            with aside(model):
                found = model.predict_then_learn_many(seen, unlabelled)
        thresholds: Floats | float = np.nan
        of_slices = np.nan if taken.slices is None else taken.slices[rows]
        if self._regions is not None:
            more, thresholds = regions.given(self._regions, found, model.classes)
            details = [a | b for a, b in zip(more, details or [{}] * len(X), strict=True)]
        if holds:
            self.number += len(X)
            width = taken.width[rows].tolist()
            said = self._coded(found)
            self.held.put(
                slots, X, width, found.probabilities, said, numbers, thresholds, of_slices
            )
        return found, details

    def _coded(self, found: Prequential) -> Sequence[float] | Floats:
        """Return predicted numbers, or the numbers of predicted classes."""
        if not self.model.is_classifier:
            return found.predictions
        codes = {(type(label), label): n for n, label in enumerate(self.model.classes)}
        return [codes.get((type(one), one), -1) for one in found.predictions.tolist()]

    def learn(self, slots: list[int], labels: list[Any], columns: tuple[Name, ...]) -> None:
        """Learn events out of their slots; the columns that they brought come before them."""
        widths = self.held.width[slots].tolist()
        start, model = 0, self.model
        for n, width in enumerate(widths):
            known = -1 if model.columns is None else len(model.columns)
            if width > known:
                self._learn(slots[start:n], labels[start:n])
                model.add_columns(columns[max(known, 0) : width])
                start = n
        self._learn(slots[start:], labels[start:])

    def _learn(self, slots: list[int], labels: list[Any]) -> None:
        if not slots:
            return
        X = self.held.rows(slots, len(self.model.columns or ()))
        if self._holds is None:
            self.model.learn_many(X, labels)
        else:
            self._holds.learn_held_many(X, labels, self.held.number[slots].tolist())

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

    def measures(self, slots: list[int], said: Prequential, labels: Sequence[Any]) -> Floats | None:
        """Learn the labels of held events for the regions of others; return how theirs did."""
        if self._regions is None:
            return None
        delays = self.delays(slots)
        thresholds = self.held.threshold[slots]
        return regions.learn(self._regions, said, self.model.classes, labels, thresholds, delays)


class _Batch:
    """The runs of a batch: events that are predicted, or learned, one after the other."""

    def __init__(self, work: LateWork, taken: Taken) -> None:
        self._work, self._taken = work, taken
        self._predicts: tuple[list[int], list[int]] = [], []
        self._filled: set[int] = set()
        """Slots that the events to be predicted next are put into."""
        self._learns: tuple[list[int], list[Any]] = [], []
        self._rows: list[int] = []
        self._at: list[int] = []
        self._labels: list[Any] = []
        self._pieces: list[Prequential] = []
        self._scored: list[Prequential] = []
        self._measured: list[Floats] = []
        self._delays: list[int] = []
        self._slices: list[float] = []
        self._details: list[dict[str, Any]] = []
        self._bad: list[BadEvent] = []

    def predict(self, row: int, slot: int) -> None:
        """Have an event predicted after all that is to be learned so far."""
        slots = self._predicts[1]
        # A slot that was filled in this run may have become free again by an overflow.
        mixed = slots and (slots[-1] < 0) != (slot < 0)
        if self._learns[0] or mixed or (slot >= 0 and slot in self._filled):
            self.flush()
        self._predicts[0].append(self._taken.rows[row])
        self._predicts[1].append(slot)
        self._filled.add(slot)
        self._rows.append(row)

    def learn(self, row: int, slot: int, label: Any) -> None:
        """Have an event learned after all that is to be predicted so far."""
        if self._predicts[0]:
            self.flush()
        self._learns[0].append(slot)
        self._learns[1].append(label)
        self._at.append(row)
        self._labels.append(label)

    def refuse(self, row: int, label: Any) -> None:
        """Take note of a label that would make too many classes."""
        work = self._work
        most, name = work.model.max_classes, work._label
        reason = f"label out of domain: {label!r} would be one class more than max_classes={most}"
        self._bad.append(BadEvent(row, name, f"{reason}; raise that option, or learn a number"))

    def flush(self) -> None:
        """Do what is to be done so far."""
        work = self._work
        if self._predicts[0]:
            (rows, slots), self._predicts = self._predicts, ([], [])
            self._filled.clear()
            found, details = work.predict(self._taken, rows, slots)
            self._pieces.append(found)
            self._details += details
        if self._learns[0]:
            (slots, labels), self._learns = self._learns, ([], [])
            said = work.scores(slots)
            self._scored.append(said)
            self._delays += work.delays(slots)
            self._slices += work.held.slice[slots].tolist()
            measured = work.measures(slots, said, labels)
            if measured is not None:
                self._measured.append(measured)
            work.learn(slots, labels, self._taken.columns)

    def result(self, drifts: list[int]) -> Followed:
        """Return what came of it all."""
        model = self._work.model
        return Followed(
            np.array(self._rows, np.int64),
            joined(self._pieces, model),
            self._details,
            model.classes,
            joined(self._scored, model),
            self._labels,
            np.array(self._at, np.int64),
            drifts,
            self._bad,
            np.concatenate(self._measured) if self._measured else None,
            self._delays,
            self._slices,
        )
