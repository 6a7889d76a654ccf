"""Predict, hold, learn and score: the steps of a join, followed by a model in their order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

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

Floats = NDArray[np.float64]


@dataclass
class HoldingModel:
    """A model with the events that it holds, and their regions and reasons."""

    model: Learner
    held: HeldEvents
    label: Name | None
    """The label's field, for messages."""
    details: Details | None
    regions: tuple[RegionGiver, ...]
    """Those that are wanted: one for each of the horizons."""
    observer: Watcher | None
    event_fields: EventFields
    horizons: int = 1
    """Times that each event is held, under consecutive numbers."""
    number: int = 0
    """That of the next event to be held."""
    sliced_from: int = 0
    """Number of the first event whose slice is of use to this run."""
    regions_from: int = 0
    """The same of its region."""

    def coded(self, found: Prequential) -> Floats:
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

        Events that are not held have the number -1. Learned events have no entry
        in the result.
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
        """Return the predictions of held events, widened to the classes known now."""
        events, classes = self.held.events[slots], self.model.classes
        if not self.model.is_classifier:
            return Prequential(events["said"], None)
        answers = np.empty(len(slots), object)
        answers[:] = [None if n < 0 else classes[int(n)] for n in events["said"].tolist()]
        P = np.full((len(slots), len(classes)), np.nan)
        there = events["P"]
        P[:, : there.shape[1]] = there
        return Prequential(answers, P)


class BatchSteps:
    """The steps of a batch, which a model follows in their order, and what came of them.

    An event is in the call once without a label, as it is predicted, and once with it, as it is
    learned. So a model that has its own ways to learn many events at once, such as one in shards,
    is given many in a call.

    From `finish` on `prequential` are the predictions, `scored` the earlier ones of the events that
    were learned, `measured` (k, 2) tells whether their regions held their labels, and their sizes,
    `classes` are those that are known, and `drifts` tells which of the learned events, counted from
    1, were the last before experts began anew. `dropped` counts held events of which what experts
    had said found no room.
    """

    def __init__(self, work: HoldingModel, taken: Taken) -> None:
        self._work, self._taken = work, taken
        self._alone = not work.model.holds_predictions
        """A prediction may change the model, as that of one in shards."""
        self._learned, self._dropped = work.model.n_events, work.model.held_dropped
        self._classes = set(work.model.classes)
        self.rows: list[int] = []
        """Events that were predicted, by their rows in the batch."""
        self.details: list[dict[str, Any]] = []
        """Those of their predictions."""
        self.at: list[int] = []
        """The rows at which events were learned, of which what follows is."""
        self.labels: list[Any] = []
        self.numbers: list[int] = []
        self.delays: list[int] = []
        """Events between each of these and its label."""
        self.slices: list[float] = []
        """NaN where one has none."""
        self.unchanged: list[Any] = []
        """The labels that were the last when these events were predicted, None where unknown."""
        self.again = 0
        """Number of these that were learned before, with another label."""
        self.bad: list[BadEvent] = []
        """Labels that would make too many classes."""
        self.explained: tuple[int, int | None, Any] | None = None
        """The place of an event among the predictions, its number if it is held, and how its
        prediction was explained."""
        self._said: list[Prequential] = []
        self._scored: list[Prequential] = []
        self._measured: list[Floats] = []
        self._restart()

    def _restart(self) -> None:
        """Begin a call."""
        self._y: list[Any] = []
        self._events: list[int] = []
        """Numbers of the events of the call, -1 of those that are not held, or learned again."""
        self._asked: tuple[list[int], list[int]] = [], []
        """Places in the call, and rows of the values, of events to predict."""
        self._told: dict[int, float] = {}
        """Numbers that are predicted without the model, by places."""
        self._fresh: dict[int, tuple[int, int]] = {}
        """Place, and row of the values, of events that will be held, by their slots."""
        self._early: tuple[list[int], list[int]] = [], []
        """Places of events to learn, and the slots of those held since before the call."""
        self._anew: tuple[list[int], list[int]] = [], []
        """Places of events to learn, and those of their predictions in the call."""

    def predict(self, row: int, slot: int, number: float | None = None) -> None:
        """Queue an event to be predicted, after all queued learning, and held in a slot.

        If a number is given, that is what is predicted.
        """
        work, values = self._work, self._taken.rows[row]
        if work.model.remembers_events and work.model.columns is None:
            work.model.add_columns(self._taken.schema.columns[: int(self._taken.width[values])])
        explains = work.observer is not None and self.explained is None and work.observer.due
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
        if number is not None:
            self._told[place] = number
        if slot >= 0:
            self._fresh[slot] = place, values
            self._events[-1] = work.number
            work.number += 1
        self.rows.append(row)

    def learn(
        self, row: int, slot: int, label: Any, *, again: bool = False, before: Any = None
    ) -> None:
        """Queue the event in a slot to be learned, after all queued predictions.

        A label that would make too many classes is a bad one instead. `before` is the label that
        was the last when the event was predicted, if that is known.
        """
        work, taken = self._work, self._taken
        if work.model.is_classifier and beyond(self._classes, [label], work.model.max_classes):
            self._refuse(row, label)
            return
        fresh = self._fresh.get(slot)
        events, columns = work.held.events, work.model.columns
        width = events["width"].item(slot) if fresh is None else int(taken.width[fresh[1]])
        if columns is None or width > len(columns):
            self.flush()
            work.model.add_columns(taken.schema.columns[len(columns or ()) : width])
            fresh, events = None, work.held.events
        if fresh is None:
            number, part = events["number"].item(slot), events["slice"].item(slot)
            self._early[0].append(len(self._y))
            self._early[1].append(slot)
        else:
            number = self._events[fresh[0]]
            part = np.nan if taken.slices is None else float(taken.slices[fresh[1]])
            self._anew[0].append(len(self._y))
            self._anew[1].append(fresh[0])
        self.delays.append((work.number - 1 - number) // work.horizons)
        self.unchanged.append(before)
        self.slices.append(part if number >= work.sliced_from else np.nan)
        self.numbers.append(number)
        self._events.append(-1 if again else number)
        self._y.append(label)
        self.at.append(row)
        self.labels.append(label)
        self.again += again

    def _refuse(self, row: int, label: Any) -> None:
        if self.bad and self.bad[-1].row == row:
            return
        most, name = self._work.model.max_classes, self._work.label
        reason = f"label out of domain: {label!r} would be one class more than max_classes={most}"
        self.bad.append(BadEvent(row, name, f"{reason}; raise that option, or learn a number"))

    def _explain(self, row: int, slot: int) -> None:
        """Have the next prediction explained by the model as it is when it predicts."""
        work, taken = self._work, self._taken
        assert work.observer is not None
        found = work.observer.explain(
            work.model, taken.schema, taken.X[[row]], lambda: work.fields_of(taken, [row])[0]
        )
        if found is not None:
            number = work.number if slot >= 0 else None
            self.explained = len(self.rows), number, found

    def flush(self) -> None:
        """Call the model for all queued steps."""
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
        found.predictions[list(self._told)] = list(self._told.values())
        self._said.append(_some(found, asked))
        thresholds = np.full(n, np.nan)
        before = work.held.events[slots]
        known = before["number"] >= work.regions_from
        thresholds[early] = np.where(known, before["threshold"], np.nan)
        learned = joined([work.scores(slots), _some(found, sources)], work.model)
        learned = _some(learned, np.argsort([*early, *anew]))
        self._follow_regions(found, learned, thresholds, details)
        if self._fresh:
            places, rows = map(list, zip(*self._fresh.values(), strict=True))
            said = _some(found, places)
            work.held.put(
                list(self._fresh),
                taken.X[rows],
                taken.width[rows].tolist(),
                said.probabilities,
                work.coded(said),
                [self._events[place] for place in places],
                thresholds[places],
                np.nan if taken.slices is None else taken.slices[rows],
            )
        self._restart()

    def _follow_regions(
        self,
        found: Prequential,
        learned: Prequential,
        thresholds: Floats,
        details: list[dict[str, Any]],
    ) -> None:
        """Give regions and learn labels for them, run by run in the order of the call.

        The model goes by no region, so that all its steps come first. `found` is of all places of
        the call, `learned` has earlier predictions of the events to learn, in their order, and
        `details` those of events to predict, where they are wanted. `thresholds` are by the places;
        those of events to predict are written.
        """
        self._scored.append(learned)
        givers, classes, numbers = self._work.regions, self._work.model.classes, self._events
        if not givers:
            self.details += details
            return
        sources = dict(zip(*self._anew, strict=True))
        asked = {place: n for n, place in enumerate(self._asked[0])}
        labelled = [place for place in range(len(self._y)) if place not in asked]
        scored = {place: n for n, place in enumerate(labelled)}
        delays = self.delays[len(self.delays) - len(labelled) :]
        given: list[dict[str, Any]] = [{}] * len(asked)
        measured = np.empty((len(labelled), 2))
        for k, giver in enumerate(givers):
            mine = [place for place in range(len(self._y)) if numbers[place] % len(givers) == k]
            for is_asked, run in groupby(mine, asked.__contains__):
                places = list(run)
                if is_asked:
                    more, thresholds[places] = giver.give(_some(found, places), classes)
                    for place, region in zip(places, more, strict=True):
                        given[asked[place]] = region
                    continue
                for place in places:
                    if place in sources:
                        thresholds[place] = thresholds[sources[place]]
                at = [scored[place] for place in places]
                measured[at] = giver.learn_later(
                    _some(learned, at),
                    classes,
                    [self._y[place] for place in places],
                    thresholds[places],
                    [delays[n] for n in at],
                )
        self.details += [a | b for a, b in zip(given, details or [{}] * len(given), strict=True)]
        self._measured.append(measured)

    def finish(self) -> None:
        """Carry out the remaining steps, and put the results together."""
        self.flush()
        model = self._work.model
        self.prequential, self.scored = joined(self._said, model), joined(self._scored, model)
        self.measured = np.concatenate(self._measured) if self._measured else None
        self.classes = model.classes
        self.drifts = [n - self._learned for n in model.drifts if n > self._learned]
        self.dropped = model.held_dropped - self._dropped


def _some(found: Prequential, places: list[int] | NDArray[np.intp] | slice) -> Prequential:
    """Return the predictions at some places."""
    P = found.probabilities
    return Prequential(found.predictions[places], None if P is None else P[places])


def follow(work: HoldingModel, join: Join, taken: Taken) -> BatchSteps:
    """Predict, hold and learn what a batch of events and labels brings.

    Raises `InvalidInput` as the model does, and `EngineError` if events cannot be written to the
    disk, and `StateError` if they cannot be read again.
    """
    batch = BatchSteps(work, taken)

    def add(row: int, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, Predict):
                batch.predict(row, step.slot)
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
    batch.finish()
    join.end()
    return batch
