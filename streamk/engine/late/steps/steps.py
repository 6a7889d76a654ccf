"""The steps of a batch: what is to be predicted and learned, and what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.encoding import BadEvent
from streamk.engine.late.steps.holding import HoldingModel
from streamk.engine.late.steps.taken import Taken
from streamk.engine.observing.explaining import Explanation
from streamk.learners.common.prequential import Prequential, joined

__all__ = ["Explained", "Followed", "Steps", "some"]

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
    again : int
        How many of these were learned before, with another label.
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
    again: int
    numbers: list[int]
    explained: Explained | None


class Steps(ABC):
    """The steps of a batch, which a model follows in their order."""

    def __init__(self, work: HoldingModel, taken: Taken) -> None:
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
        self.again = 0

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
            found = work.observer.explain(
                work.model, taken.schema, taken.X[[row]], lambda: work.fields_of(taken, [row])[0]
            )
            if found is not None:
                self._explained = Explained(place, work.number if slot >= 0 else None, found)

    def refuse(self, row: int, label: Any) -> None:
        """Take note of a label that would make too many classes."""
        work = self._work
        most, name = work.model.max_classes, work.label
        reason = f"label out of domain: {label!r} would be one class more than max_classes={most}"
        self._bad.append(BadEvent(row, name, f"{reason}; raise that option, or learn a number"))

    @abstractmethod
    def flush(self) -> None:
        """Do what is to be done so far."""

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
            self.again,
            self._numbers,
            self._explained,
        )


def some(found: Prequential, places: list[int] | NDArray[np.intp] | slice) -> Prequential:
    """Return the predictions at some places."""
    P = found.probabilities
    return Prequential(found.predictions[places], None if P is None else P[places])
