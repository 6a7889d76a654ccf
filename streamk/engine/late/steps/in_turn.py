"""Steps for a model that keeps nothing of a prediction: events in one call, some with labels."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.engine.late.steps.holding import HoldingModel
from streamk.engine.late.steps.steps import Steps, some
from streamk.engine.late.steps.taken import Taken
from streamk.engine.training.learning import cut
from streamk.learners.common.prequential import Prequential, joined, nothing

__all__ = ["InTurn"]

Floats = NDArray[np.float64]


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


class InTurn(Steps):
    """Steps for a model that keeps nothing of a prediction: events in one call, some with labels.

    An event is in the call once without a label, as it is predicted, and once with it, as it is
    learned; what is predicted of it then is nobody's. So a model that has its own ways to learn
    many events at once, such as one in shards, is given many.
    """

    def __init__(self, work: HoldingModel, taken: Taken) -> None:
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
        """Have an event predicted in the next call."""
        work, values = self._work, self._taken.rows[row]
        explains = work.observer is not None and self._explained is None and work.observer.due
        if work.has_details or explains:  # which are of the model that predicts this event
            self.flush()
        if explains:
            self._explain(len(self._rows), values, slot)
        if work.has_details:
            self._told += work.details(self._taken, [values])
        place = len(self._y)
        self._asked[0].append(place)
        self._asked[1].append(values)
        self._y.append(None)
        if slot >= 0:
            self._fresh[slot] = _Fresh(place, values, work.number)
            work.number += 1
        super().predict(row, slot)

    def learn(self, row: int, slot: int, label: Any) -> None:
        """Have an event learned in the next call."""
        work, taken = self._work, self._taken
        fresh = self._fresh.get(slot)
        width = work.held.width.item(slot) if fresh is None else taken.width.item(fresh.row)
        if work.lacks(width):
            self.flush()
            work.grow(width, taken.schema.columns)
            fresh = None
        places, sources = self._early if fresh is None else self._anew
        places.append(len(self._y))
        sources.append(slot if fresh is None else fresh.place)
        self._y.append(label)
        if fresh is None:
            self._delays.append(work.number - 1 - work.held.number.item(slot))
            self._slices.append(work.held.slice.item(slot))
            self._numbers.append(work.held.number.item(slot))
        else:
            self._delays.append(work.number - 1 - fresh.number)
            self._numbers.append(fresh.number)
            self._slices.append(np.nan if taken.slices is None else float(taken.slices[fresh.row]))
        super().learn(row, slot, label)

    def flush(self) -> None:
        """Call the model."""
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
        self._pieces.append(some(found, asked))
        thresholds = np.full(n, np.nan)
        thresholds[early] = work.held.threshold[slots]
        learned = joined([work.scores(slots), some(found, sources)], model)
        learned = some(learned, np.argsort([*early, *anew]))
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
                others = self._told[told : told + len(places)]
                details, thresholds[places] = self._work.with_regions(some(found, places), others)
                self._details += details
                told += len(places)
                continue
            for place in places:
                if place in sources:
                    thresholds[place] = thresholds[sources[place]]
            part = slice(done, done + len(places))
            labels = [self._y[place] for place in places]
            self._score(some(learned, part), labels, thresholds[places], delays[part])
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
            some(found, places),
            [one.number for one in fresh],
            thresholds[places],
        )
