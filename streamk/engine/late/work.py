"""Predict, hold and learn: the steps of a join, followed by a model in their order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.conformal import Regions
from streamk.encoding import BadEvent, Name
from streamk.engine.late.held import HeldEvents
from streamk.engine.late.join import Join, Predict
from streamk.engine.late.reading import Taken
from streamk.engine.observing.explaining import Explanation
from streamk.engine.observing.observer import Observer
from streamk.engine.training import regions
from streamk.engine.training.details import Details
from streamk.engine.training.learning import cut
from streamk.learners.base import HoldsPredictions, Learner
from streamk.learners.common.classes import Label, beyond
from streamk.learners.common.predictor import aside
from streamk.learners.common.prequential import Prequential, joined, nothing

__all__ = ["Followed", "LateWork"]

Floats = NDArray[np.float64]


class Explained(NamedTuple):
    """A prediction of a batch that was explained.

    Attributes
    ----------
    place : int
        Among the predictions, counted from 0.
    number : int or None
        Of the event, if it is held.
    explanation : Explanation
    """

    place: int
    number: int | None
    explanation: Explanation


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
    numbers : list of int
        The number of each.
    explained : Explained, optional
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
    numbers: list[int]
    explained: Explained | None


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
    observer : Observer, optional
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
        observer: Observer | None,
    ) -> None:
        self.model, self.join, self.held, self.number = model, join, held, number
        self._label, self._details, self._regions = label, details, regions
        self.observer = observer
        self._holds: Any = model if isinstance(model, HoldsPredictions) else None
        self._classes = set(model.classes)

    def follow(self, taken: Taken) -> Followed:
        """Predict, hold and learn what a batch brings. Raises `InvalidInput` as the model does."""
        batch = (_InTurn if self._holds is None else _ByNumber)(self, taken)
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
        """Have a model that holds predictions predict events, all of them held or none."""
        model, X = self.model, taken.X[rows]
        details = self.details(X)
        known = 0 if model.columns is None else len(model.columns)
        seen, holds = cut(X, known), slots[0] >= 0
        numbers = range(self.number, self.number + len(X))
        if model.columns is None:
            found = nothing(model, len(X))
        elif holds:
            found = self._holds.predict_held_many(seen, numbers)
        else:
            with aside(model):
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
        """Whether a region is given with each prediction."""
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
        """Whether details of each prediction are wanted."""
        return self._details is not None

    def details(self, X: Floats) -> list[dict[str, Any]]:
        """Return the details of the next events X (n, d), if they are wanted."""
        if self._details is None:
            return []
        known = len(self.model.columns or ())
        return [self._details.of(self.model, x) for x in cut(X, known)]

    def _coded(self, found: Prequential) -> Floats:
        """Return predicted numbers, or the numbers of predicted classes, -1 for none."""
        if not self.model.is_classifier:
            return found.predictions
        codes = {(type(label), label): n for n, label in enumerate(self.model.classes)}
        return np.array([codes.get((type(one), one), -1) for one in found.predictions.tolist()])

    def learn(self, slots: list[int], labels: list[Any]) -> None:
        """Have a model that holds predictions learn events out of their slots."""
        X = self.held.rows(slots, len(self.model.columns or ()))
        self._holds.learn_held_many(X, labels, self.held.number[slots].tolist())

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


class _Steps:
    """The steps of a batch, which a model follows in their order."""

    def __init__(self, work: LateWork, taken: Taken) -> None:
        self._work, self._taken = work, taken
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
        self._numbers: list[int] = []
        self._explained: Explained | None = None

    def predict(self, row: int, slot: int) -> None:
        """Have an event predicted after all that is to be learned so far."""
        self._rows.append(row)

    def learn(self, row: int, slot: int, label: Any) -> None:
        """Have an event learned after all that is to be predicted so far."""
        self._at.append(row)
        self._labels.append(label)

    def _score(
        self,
        said: Prequential,
        labels: Sequence[Any],
        thresholds: Floats,
        delays: Sequence[int],
    ) -> None:
        """Score what was said of events, and have regions learn their labels."""
        self._scored.append(said)
        measured = self._work.measures(said, labels, thresholds, delays)
        if measured is not None:
            self._measured.append(measured)

    def _explain(self, place: int, row: int, slot: int) -> None:
        """Have a prediction explained if it is time; the model is as it is when it predicts.

        Parameters
        ----------
        place : int
            Among the predictions of the batch, counted from 0.
        row : int
            Of the values of the batch.
        slot : int
            Negative where the event is not held.
        """
        work, taken = self._work, self._taken
        if work.observer is not None and self._explained is None:
            found = work.observer.explain(work.model, taken.schema, taken.X[[row]])
            if found is not None:
                self._explained = Explained(place, work.number if slot >= 0 else None, found)

    def refuse(self, row: int, label: Any) -> None:
        """Take note of a label that would make too many classes."""
        work = self._work
        most, name = work.model.max_classes, work._label
        reason = f"label out of domain: {label!r} would be one class more than max_classes={most}"
        self._bad.append(BadEvent(row, name, f"{reason}; raise that option, or learn a number"))

    def flush(self) -> None:
        """Do what is to be done so far."""
        raise NotImplementedError

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
            self._numbers,
            self._explained,
        )


class _ByNumber(_Steps):
    """Steps for a model that holds predictions: runs of events to predict, or to learn."""

    def __init__(self, work: LateWork, taken: Taken) -> None:
        super().__init__(work, taken)
        self._predicts: tuple[list[int], list[int]] = [], []
        self._filled: set[int] = set()
        """Slots that the events to be predicted next are put into."""
        self._learns: tuple[list[int], list[Any]] = [], []

    def predict(self, row: int, slot: int) -> None:
        slots = self._predicts[1]
        # A slot that was filled in this run may have become free again by an overflow.
        mixed = slots and (slots[-1] < 0) != (slot < 0)
        if self._learns[0] or mixed or (slot >= 0 and slot in self._filled):
            self.flush()
        self._predicts[0].append(self._taken.rows[row])
        self._predicts[1].append(slot)
        self._filled.add(slot)
        super().predict(row, slot)

    def learn(self, row: int, slot: int, label: Any) -> None:
        if self._predicts[0]:
            self.flush()
        work = self._work
        width = int(work.held.width[slot])
        if work.lacks(width):
            self.flush()
            work.grow(width, self._taken.schema.columns)
        self._learns[0].append(slot)
        self._learns[1].append(label)
        super().learn(row, slot, label)

    def flush(self) -> None:
        work = self._work
        if self._predicts[0]:
            (rows, slots), self._predicts = self._predicts, ([], [])
            self._filled.clear()
            self._explain(len(self._rows) - len(rows), rows[0], slots[0])
            found, details = work.predict(self._taken, rows, slots)
            self._pieces.append(found)
            self._details += details
        if self._learns[0]:
            (slots, labels), self._learns = self._learns, ([], [])
            delays = work.delays(slots)
            self._delays += delays
            self._slices += work.held.slice[slots].tolist()
            self._numbers += work.held.number[slots].tolist()
            self._score(work.scores(slots), labels, work.held.threshold[slots], delays)
            work.learn(slots, labels)


class _Fresh(NamedTuple):
    """An event that is predicted in the next call, and then held.

    Attributes
    ----------
    place : int
        In the call.
    row : int
        Of the values of the batch.
    number : int
    """

    place: int
    row: int
    number: int


class _InTurn(_Steps):
    """Steps for a model that keeps nothing of a prediction: events in one call, some with labels.

    An event is in the call once without a label, as it is predicted, and once with it, as it is
    learned; what is predicted of it then is nobody's. So a model that has its own ways to learn
    many events at once, such as one in shards, is given many.
    """

    def __init__(self, work: LateWork, taken: Taken) -> None:
        super().__init__(work, taken)
        self._restart()

    def _restart(self) -> None:
        self._y: list[Any] = []
        self._asked: tuple[list[int], list[int]] = [], []
        """Places in the call, and rows of the values, of events to predict."""
        self._fresh: dict[int, _Fresh] = {}
        """The last event of the call in each slot."""
        self._early: tuple[list[int], list[int]] = [], []
        """Places of events to learn, and the slots of those held since before the call."""
        self._anew: tuple[list[int], list[int]] = [], []
        """Places of events to learn, and those of their predictions in the call."""
        self._told: list[dict[str, Any]] = []
        """Details of the events to predict, where they are wanted."""

    def predict(self, row: int, slot: int) -> None:
        work, values = self._work, self._taken.rows[row]
        explains = work.observer is not None and self._explained is None and work.observer.due
        if work.has_details or explains:  # which are of the model that predicts this event
            self.flush()
        if explains:
            self._explain(len(self._rows), values, slot)
        self._told += work.details(self._taken.X[[values]])
        place = len(self._y)
        self._asked[0].append(place)
        self._asked[1].append(values)
        self._y.append(None)
        if slot >= 0:
            self._fresh[slot] = _Fresh(place, values, work.number)
            work.number += 1
        super().predict(row, slot)

    def learn(self, row: int, slot: int, label: Any) -> None:
        work, taken = self._work, self._taken
        fresh = self._fresh.get(slot)
        width = int(work.held.width[slot] if fresh is None else taken.width[fresh.row])
        if work.lacks(width):
            self.flush()
            work.grow(width, taken.schema.columns)
            fresh = None
        places, sources = self._early if fresh is None else self._anew
        places.append(len(self._y))
        sources.append(slot if fresh is None else fresh.place)
        self._y.append(label)
        if fresh is None:
            self._delays += work.delays([slot])
            self._slices.append(float(work.held.slice[slot]))
            self._numbers.append(int(work.held.number[slot]))
        else:
            self._delays.append(work.number - 1 - fresh.number)
            self._numbers.append(fresh.number)
            self._slices.append(np.nan if taken.slices is None else float(taken.slices[fresh.row]))
        super().learn(row, slot, label)

    def flush(self) -> None:
        if not self._y:
            return
        work, model, taken, n = self._work, self._work.model, self._taken, len(self._y)
        (asked, values), (early, slots), (anew, sources) = self._asked, self._early, self._anew
        if model.columns is None:  # so that there is nothing to learn
            found = nothing(model, n)
        else:
            X = np.empty((n, len(model.columns)))
            X[asked] = cut(taken.X[values], X.shape[1])
            X[early] = work.held.rows(slots, X.shape[1])
            X[anew] = X[sources]
            found = model.predict_then_learn_many(X, self._y)
        self._pieces.append(_some(found, asked))
        thresholds = np.full(n, np.nan)
        thresholds[early] = work.held.threshold[slots]
        learned = joined([work.scores(slots), _some(found, sources)], model)
        learned = _some(learned, np.argsort([*early, *anew]))
        self._follow_regions(found, learned, thresholds)
        self._hold(found, thresholds)
        self._restart()

    def _follow_regions(self, found: Prequential, learned: Prequential, thresholds: Floats) -> None:
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
        """
        if not self._work.has_regions:
            self._details += self._told
            self._scored.append(learned)
            return
        sources = dict(zip(*self._anew, strict=True))
        delays = self._delays[len(self._delays) - len(learned.predictions) :]
        told = done = 0
        for is_asked, run in groupby(range(len(self._y)), lambda place: self._y[place] is None):
            places = list(run)
            if is_asked:
                some = self._told[told : told + len(places)]
                details, thresholds[places] = self._work.with_regions(_some(found, places), some)
                self._details += details
                told += len(places)
                continue
            for place in places:
                if place in sources:
                    thresholds[place] = thresholds[sources[place]]
            part = slice(done, done + len(places))
            labels = [self._y[place] for place in places]
            self._score(_some(learned, part), labels, thresholds[places], delays[part])
            done = part.stop

    def _hold(self, found: Prequential, thresholds: Floats) -> None:
        """Put the events that were predicted into their slots."""
        if not self._fresh:
            return
        fresh = list(self._fresh.values())
        places = [one.place for one in fresh]
        self._work.hold(
            self._taken,
            [one.row for one in fresh],
            list(self._fresh),
            _some(found, places),
            [one.number for one in fresh],
            thresholds[places],
        )


def _some(found: Prequential, places: list[int] | NDArray[np.intp] | slice) -> Prequential:
    """Return the predictions at some places."""
    P = found.probabilities
    return Prequential(found.predictions[places], None if P is None else P[places])
