"""Predictions of events whose labels are still to come."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from numpy.typing import NDArray


class PendingPredictions:
    """Predictions of the experts for the events predicted last, by event.

    A label often comes long after its event had to be predicted. Experts that follow the last
    labels, and mixers whose weights do, look better at the time of the label than they were at the
    time of the prediction, so what they are weighed by is what they said then (Weinberger and
    Ordentlich 2002). That of an expert that was inactive then is NaN.

    Parameters
    ----------
    budget : int
        Memory, in bytes; the oldest are forgotten first. At least one is kept.

    Examples
    --------
    >>> import numpy as np
    >>> said = PendingPredictions(1000)
    >>> said.keep(b"event", np.array([0.5]))
    >>> said.take(b"event"), said.take(b"event")
    (array([0.5]), None)
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: OrderedDict[bytes, NDArray[Any]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, event: bytes) -> bool:
        return event in self._kept

    def keep(self, event: bytes, scores: NDArray[Any]) -> None:
        """Keep predictions, an array that the caller does not use again."""
        old = self._kept.pop(event, None)
        self.nbytes += scores.nbytes + len(event)
        if old is not None:
            self.nbytes -= old.nbytes + len(event)
        self._kept[event] = scores
        while self.nbytes > self._budget and len(self._kept) > 1:
            first, forgotten = self._kept.popitem(last=False)
            self.nbytes -= forgotten.nbytes + len(first)

    def find(self, event: bytes) -> NDArray[Any] | None:
        """Return the predictions for an event, which stay; None where there are none."""
        return self._kept.get(event)

    def items(self) -> list[tuple[bytes, NDArray[Any]]]:
        """Return all events and the predictions for each, the oldest first."""
        return list(self._kept.items())

    def take(self, event: bytes) -> NDArray[Any] | None:
        """Remove and return the predictions for an event; None where there are none."""
        if not self._kept:
            return None
        scores = self._kept.pop(event, None)
        if scores is not None:
            self.nbytes -= scores.nbytes + len(event)
        return scores

    def shift(self, factor: float, shift: float) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        for scores in self._kept.values():
            scores *= factor
            scores += shift

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.nbytes = 0
