"""Predictions of the experts that are kept until the labels of their events come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import StateError

UNBOUNDED = 1 << 62
"""Bytes: predictions that move from one place to another must not be forgotten on the way."""


class PendingPredictions:
    """Predictions of the experts for the events predicted last, by event.

    That of an expert that was inactive then is NaN. Memory has a budget in bytes; the oldest are
    forgotten first, but for one.

    Examples
    --------
    >>> import numpy as np
    >>> pending = PendingPredictions(1000)
    >>> pending.keep(b"event", np.array([0.5]))
    >>> pending.take(b"event"), pending.take(b"event")
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
        self.take(event)
        self.nbytes += scores.nbytes + len(event)
        self._kept[event] = scores
        while self.nbytes > self._budget and len(self._kept) > 1:
            first, forgotten = self._kept.popitem(last=False)
            self.nbytes -= forgotten.nbytes + len(first)

    def items(self) -> list[tuple[bytes, NDArray[Any]]]:
        """Return all events and the predictions for each, the oldest first."""
        return list(self._kept.items())

    def take(self, event: bytes) -> NDArray[Any] | None:
        """Remove and return the predictions for an event; None where there are none."""
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


class HeldPredictions:
    """Predictions of the experts for events that are held, also for equal ones, under numbers.

    They may be saved beside a model. The memory of those that are `kept` has a budget, in bytes.

    Examples
    --------
    >>> held, events, pending = HeldPredictions(1000), np.zeros((1, 2)), PendingPredictions(1000)
    >>> pending.keep(events.tobytes(), np.array([0.5]))
    >>> held.keep([7], events, pending)
    >>> held.take([7], events).items()[0][1], len(held.take([7], events))
    (array([0.5]), 0)
    """

    def __init__(self, budget: int) -> None:
        self.kept = PendingPredictions(budget)

    def keep(
        self, numbers: Sequence[int], events: NDArray[np.float64], pending: PendingPredictions
    ) -> None:
        """Keep copies of the pending predictions of events (n, d), under their numbers."""
        found = dict(pending.items())
        for number, event in zip(numbers, events, strict=True):
            forecast = found.get(event.tobytes())
            if forecast is not None:
                self.kept.keep(_name(number), forecast.copy())

    def take(self, numbers: Sequence[int], events: NDArray[np.float64]) -> PendingPredictions:
        """Remove and return the predictions of events (n, d), no two of which are equal."""
        waiting = PendingPredictions(UNBOUNDED)
        for number, event in zip(numbers, events, strict=True):
            forecast = self.kept.take(_name(number))
            if forecast is not None:
                waiting.keep(event.tobytes(), forecast)
        return waiting

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return numbers (n,), the oldest first, and predictions (n, experts, outputs)."""
        kept = self.kept.items()
        numbers = np.array([int.from_bytes(name, "little") for name, _ in kept], np.int64)
        if not kept:
            return numbers, np.zeros((0, 0, 0), np.float32)
        return numbers, np.stack([forecast for _, forecast in kept])

    def restore(
        self, numbers: NDArray[np.int64], forecasts: NDArray[np.float32], shape: tuple[int, ...]
    ) -> None:
        """Take back what `arrays` gave; raise StateError unless it is finite and of this shape."""
        if len(forecasts) and (forecasts.shape[1:] != shape or np.isinf(forecasts).any()):
            raise StateError(
                f"predictions of held events have the shape {forecasts.shape[1:]}, not {shape}, or "
                "are infinite; the checkpoint is damaged or was changed by hand"
            )
        self.kept.clear()
        for number, one in zip(numbers.tolist(), forecasts, strict=True):
            self.kept.keep(_name(number), one.copy())


def _name(number: int) -> bytes:
    return number.to_bytes(8, "little")


def unequal(events: NDArray[np.float64]) -> Iterator[slice]:
    """Yield slices in which no two events are equal, one after the other.

    >>> list(unequal(np.array([[1.0], [2.0], [1.0]])))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    first, met = 0, set[bytes]()
    for n, event in enumerate(events):
        name = event.tobytes()
        if name in met:
            yield slice(first, n)
            first, met = n, set()
        met.add(name)
    if first < len(events):
        yield slice(first, len(events))
