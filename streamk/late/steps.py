"""Predict, hold, learn and score: the steps of a join, followed by a model in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.encoding import BadEvent, Name
from streamk.engine.training.beside import RegionGiver, Watcher
from streamk.engine.training.fields import EventFields
from streamk.engine.training.learning import cut
from streamk.engine.training.options import Details
from streamk.late.held import HeldEvents
from streamk.late.join import Join, Predict, Step
from streamk.late.source import Taken
from streamk.learners.common.base import Learner
from streamk.learners.common.classes import beyond
from streamk.learners.common.prequential import Prequential, joined, nothing
from streamk.learners.explaining import Event

__all__ = ["Explained", "HoldingModel", "LateResults", "follow"]

Floats = NDArray[np.float64]


class Explained(NamedTuple):
    """A prediction of a batch that was explained.

    Attributes
    ----------
    place : int
        Among the predictions, counted from 0.
    number : int or None
        Of the event, if it is held.
    explanation : object
        As an `Observer` gave it.
    """

    place: int
    number: int | None
    explanation: Any


class LateResults(NamedTuple):
    """Results of a batch.

    Attributes
    ----------
    rows : int64 array (p,)
        Of the batch, the events that were predicted.
    prequential : Prequential
        Their predictions.
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
    again : int
        How many of these were learned before, with another label.
    numbers : list of int
        The number of each.
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
    again: int
    numbers: list[int]
    explained: Explained | None


@dataclass
class HoldingModel:
    """A model with the events that it holds, and what is said of them beside predictions.

    Parameters
    ----------
    label : str
        The label's field, for messages.
    number : int, default 0
        Of the next event to be held.
    sliced_from, regions_from : int, default 0
        Number of the first event whose slice, and whose region, is of use to this run.
    """

    model: Learner
    held: HeldEvents
    label: Name | None
    details: Details | None
    regions: RegionGiver | None
    observer: Watcher | None
    event_fields: EventFields
    number: int = 0
    sliced_from: int = 0
    regions_from: int = 0

    def hold(
        self,
        taken: Taken,
        rows: list[int],
        slots: list[int],
        found: Prequential,
        numbers: Sequence[int],
        thresholds: Floats,
    ) -> None:
        """Put events that were predicted, some rows of `taken.X`, into their slots."""
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

    def _coded(self, found: Prequential) -> Floats:
        """Return predicted numbers, or the numbers of predicted classes, -1 for none."""
        if not self.model.is_classifier:
            return found.predictions
        codes = {(type(label), label): n for n, label in enumerate(self.model.classes)}
        return np.array([codes.get((type(one), one), -1) for one in found.predictions.tolist()])

    def details_of(self, taken: Taken, rows: list[int]) -> list[dict[str, Any]]:
        """Return the details of the next events, some rows of `taken.X`, if they are wanted."""
        if self.details is None or not rows:
            return []
        model, events = self.model, self.fields_of(taken, rows)
        places = self.event_fields.places_of(model, taken.schema)
        return self.details.of(model, places, cut(taken.X[rows], len(model.columns or ())), events)

    def fields_of(self, taken: Taken, rows: list[int]) -> list[Event]:
        """Return the fields of events as they stand there."""
        return self.event_fields.of([taken.raw[row] for row in rows], taken.schema)

    def predict_and_learn(self, X: Floats, y: list[Any], numbers: list[int]) -> Prequential:
        """Predict the events X (n, d) and learn those with a label in y (n,), in their order.

        Parameters
        ----------
        y : list of n labels
            None of those that are predicted.
        numbers : list of n int
            -1 of those that are not held.

        Returns
        -------
        Prequential
            What is in the places of events that were learned is nobody's.
        """
        model = self.model
        if model.columns is None:  # so that there is nothing to learn
            return nothing(model, len(X))
        if not model.holds_predictions:
            return model.predict_then_learn_many(X, y)
        parts = []
        kinds = [(label is None, number >= 0) for label, number in zip(y, numbers, strict=True)]
        for (asks, held), run in groupby(range(len(y)), kinds.__getitem__):
            places = list(run)
            events, some = X[places], [numbers[place] for place in places]
            if not asks:
                model.learn_held_many(events, [y[place] for place in places], some)
                parts.append(nothing(model, len(places)))
            elif held:
                parts.append(model.predict_held_many(events, some))
            else:
                with model.aside():
                    parts.append(model.predict_then_learn_many(events, [None] * len(places)))
        return joined(parts, model)

    def scores(self, slots: list[int]) -> Prequential:
        """Return what was predicted of held events, with the classes that are known now."""
        events, classes = self.held.events[slots], self.model.classes
        if not self.model.is_classifier:
            return Prequential(events["said"], None)
        answers = np.empty(len(slots), object)
        answers[:] = [None if n < 0 else classes[int(n)] for n in events["said"].tolist()]
        P = np.full((len(slots), len(classes)), np.nan)
        there = events["P"]
        P[:, : there.shape[1]] = there
        return Prequential(answers, P)


class _Fresh(NamedTuple):
    """An event that is predicted in the next call, and then held.

    Attributes
    ----------
    place : int
        In the call.
    row : int
        Of the values of the batch.
    """

    place: int
    row: int


class _Steps:
    """The steps of a batch, which a model follows in their order, many in a call.

    An event is in the call once without a label, as it is predicted, and once with it, as it is
    learned. So a model that has its own ways to learn many events at once, such as one in shards,
    is given many.
    """

    def __init__(self, work: HoldingModel, taken: Taken) -> None:
        self._work, self._taken = work, taken
        self._alone = not work.model.holds_predictions
        """A prediction may change the model, as that of one in shards."""
        self._rows: list[int] = []
        self._at: list[int] = []
        self._labels: list[Any] = []
        self._said: list[Prequential] = []
        self._scored: list[Prequential] = []
        self._measured: list[Floats] = []
        self._delays: list[int] = []
        self._slices: list[float] = []
        self._details: list[dict[str, Any]] = []
        self._bad: list[BadEvent] = []
        self._numbers: list[int] = []
        self._explained: Explained | None = None
        self._again = 0
        self._restart()

    def _restart(self) -> None:
        """Begin a call."""
        self._y: list[Any] = []
        self._events: list[int] = []
        """The numbers of the events of the call, -1 of those that are not held."""
        self._asked: tuple[list[int], list[int]] = [], []
        """Places in the call, and rows of the values, of events to predict."""
        self._fresh: dict[int, _Fresh] = {}
        """Events of the call that will be held, by their slots."""
        self._early: tuple[list[int], list[int]] = [], []
        """Places of events to learn, and the slots of those held since before the call."""
        self._anew: tuple[list[int], list[int]] = [], []
        """Places of events to learn, and those of their predictions in the call."""

    def predict(self, row: int, slot: int) -> None:
        """Have an event predicted after all that is to be learned so far, and held in a slot."""
        work, values = self._work, self._taken.rows[row]
        explains = work.observer is not None and self._explained is None and work.observer.due
        if (work.details is not None or explains) and (
            self._early[0] or self._anew[0] or self._alone
        ):
            self.flush()  # so that they are of the model that predicts this event
        if explains:
            self._explain(values, slot)
        place = len(self._y)
        self._asked[0].append(place)
        self._asked[1].append(values)
        self._y.append(None)
        self._events.append(-1)
        if slot >= 0:
            self._fresh[slot] = _Fresh(place, values)
            self._events[-1] = work.number
            work.number += 1
        self._rows.append(row)

    def learn(self, row: int, slot: int, label: Any, *, again: bool) -> None:
        """Have the event in a slot learned after all that is to be predicted so far."""
        work, taken = self._work, self._taken
        fresh = self._fresh.get(slot)
        events, columns = work.held.events, work.model.columns
        width = events["width"].item(slot) if fresh is None else int(taken.width[fresh.row])
        if columns is None or width > len(columns):
            self.flush()
            work.model.add_columns(taken.schema.columns[len(columns or ()) : width])
            fresh, events = None, work.held.events
        if fresh is None:
            number, part = events["number"].item(slot), events["slice"].item(slot)
            self._early[0].append(len(self._y))
            self._early[1].append(slot)
        else:
            number = self._events[fresh.place]
            part = np.nan if taken.slices is None else float(taken.slices[fresh.row])
            self._anew[0].append(len(self._y))
            self._anew[1].append(fresh.place)
        self._delays.append(work.number - 1 - number)
        self._slices.append(part if number >= work.sliced_from else np.nan)
        self._numbers.append(number)
        self._events.append(number)
        self._y.append(label)
        self._at.append(row)
        self._labels.append(label)
        self._again += again

    def refuse(self, row: int, label: Any) -> None:
        """Take note of a label that would make too many classes."""
        most, name = self._work.model.max_classes, self._work.label
        reason = f"label out of domain: {label!r} would be one class more than max_classes={most}"
        self._bad.append(BadEvent(row, name, f"{reason}; raise that option, or learn a number"))

    def _explain(self, row: int, slot: int) -> None:
        """Have the next prediction explained by the model as it is when it predicts.

        Parameters
        ----------
        row : int
            Of the values of the batch.
        slot : int
            Negative where the event is not held.
        """
        work, taken = self._work, self._taken
        assert work.observer is not None
        found = work.observer.explain(
            work.model, taken.schema, taken.X[[row]], lambda: work.fields_of(taken, [row])[0]
        )
        if found is not None:
            number = work.number if slot >= 0 else None
            self._explained = Explained(len(self._rows), number, found)

    def flush(self) -> None:
        """Call the model for what is to be done so far."""
        if not self._y:
            return
        work, taken, n = self._work, self._taken, len(self._y)
        (asked, values), (early, slots), (anew, sources) = self._asked, self._early, self._anew
        details = work.details_of(taken, values)
        X = np.empty((n, len(work.model.columns or ())))
        X[asked] = cut(taken.X[values], X.shape[1])
        X[early] = work.held.rows(slots, X.shape[1])
        X[anew] = X[sources]
        found = work.predict_and_learn(X, self._y, self._events)
        self._said.append(_some(found, asked))
        thresholds = np.full(n, np.nan)
        before = work.held.events[slots]
        known = before["number"] >= work.regions_from
        thresholds[early] = np.where(known, before["threshold"], np.nan)
        learned = joined([work.scores(slots), _some(found, sources)], work.model)
        learned = _some(learned, np.argsort([*early, *anew]))
        self._follow_regions(found, learned, thresholds, details)
        if self._fresh:
            fresh = list(self._fresh.values())
            places, rows = [one.place for one in fresh], [one.row for one in fresh]
            numbers = [self._events[place] for place in places]
            said = _some(found, places)
            work.hold(taken, rows, list(self._fresh), said, numbers, thresholds[places])
        self._restart()

    def _follow_regions(
        self,
        found: Prequential,
        learned: Prequential,
        thresholds: Floats,
        details: list[dict[str, Any]],
    ) -> None:
        """Give regions and learn labels for them, run by run in the order of the call.

        The model goes by no region, so that all its steps come first.

        Parameters
        ----------
        found : Prequential
            Of all places of the call.
        learned : Prequential
            Earlier predictions of the events to learn, in their order.
        thresholds : float64 array
            By the places; those of events to predict are written.
        details : list of dict
            Of the events to predict, where they are wanted.
        """
        given, classes = self._work.regions, self._work.model.classes
        self._scored.append(learned)
        if given is None:
            self._details += details
            return
        sources = dict(zip(*self._anew, strict=True))
        delays = self._delays[len(self._delays) - len(learned.predictions) :]
        told = done = 0
        for is_asked, run in groupby(range(len(self._y)), lambda place: self._y[place] is None):
            places = list(run)
            if is_asked:
                more, thresholds[places] = given.give(_some(found, places), classes)
                others = details[told : told + len(places)] or [{}] * len(places)
                self._details += [a | b for a, b in zip(more, others, strict=True)]
                told += len(places)
                continue
            for place in places:
                if place in sources:
                    thresholds[place] = thresholds[sources[place]]
            part = slice(done, done + len(places))
            labels = [self._y[place] for place in places]
            said = _some(learned, part)
            self._measured.append(
                given.learn_later(said, classes, labels, thresholds[places], delays[part])
            )
            done = part.stop

    def result(self, drifts: list[int]) -> LateResults:
        """Return what came of it all."""
        model = self._work.model
        return LateResults(
            np.array(self._rows, np.int64),
            joined(self._said, model),
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
            self._again,
            self._numbers,
            self._explained,
        )


def _some(found: Prequential, places: list[int] | NDArray[np.intp] | slice) -> Prequential:
    """Return the predictions at some places."""
    P = found.probabilities
    return Prequential(found.predictions[places], None if P is None else P[places])


def follow(work: HoldingModel, join: Join, taken: Taken) -> LateResults:
    """Predict, hold and learn what a batch of events and labels brings.

    Raises `InvalidInput` as the model does, and `EngineError` if events cannot be written to the
    disk, and `StateError` if they cannot be read again.
    """
    model, batch = work.model, _Steps(work, taken)
    learned, classes = model.n_events, set(model.classes)

    def is_too_many(label: Any) -> bool:
        return model.is_classifier and bool(beyond(classes, [label], model.max_classes))

    def add(row: int, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, Predict):
                batch.predict(row, step.slot)
            elif is_too_many(step.label):
                batch.refuse(row, step.label)
            else:
                batch.learn(row, step.slot, step.label, again=step.again)

    clocks = taken.batch.clocks.tolist()
    join.begin([key for key in taken.keys if key is not None], max(clocks, default=0))
    for row, (key, is_label, clock) in enumerate(
        zip(taken.keys, taken.is_label, clocks, strict=True)
    ):
        if key is None:
            continue
        for steps, to_the_end in join.due(clock):
            add(row, steps)
            if to_the_end:
                batch.flush()
                join.settle()
        if is_label:
            add(row, join.label(key, taken.labels[row], clock))
        else:
            add(row, join.event(key, clock))
    batch.flush()
    join.end()
    return batch.result([n - learned for n in model.drifts if n > learned])
