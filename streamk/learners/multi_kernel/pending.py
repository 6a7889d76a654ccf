"""Predictions of the experts that are kept until the labels of their events come."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.declared import NON_NEGATIVE, Declared, Domain, taken
from streamk.errors import StateError

Floats = NDArray[np.float64]
UNBOUNDED = 1 << 62
"""Bytes: predictions that move from one place to another must not be forgotten on the way."""


NOTHING: Floats = np.zeros(0)


class Kept(NamedTuple):
    """The forecast of an event, and what was known when it was made."""

    scores: NDArray[np.float32]
    learned: int = 0
    """Events that the mixture had learned by then."""
    known: Floats = NOTHING
    """As of `streamk.learners.multi_kernel.label_expert`, empty without that expert."""

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.scores.nbytes + self.known.nbytes

    def copied(self) -> Self:
        """Return a copy."""
        return type(self)(self.scores.copy(), self.learned, self.known.copy())


class PendingPredictions:
    """Predictions of the experts for the events predicted last, by event.

    That of an expert that was inactive then is NaN. Equal events have one each if something was
    learned between them. Memory has a budget in bytes; the oldest are forgotten first, but for one;
    `dropped` counts them.

    Examples
    --------
    >>> import numpy as np
    >>> pending = PendingPredictions(1000)
    >>> pending.keep(b"event", Kept(np.array([0.5])))
    >>> pending.take(b"event").scores, pending.take(b"event")
    (array([0.5]), None)
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: OrderedDict[tuple[bytes, int], Kept] = OrderedDict()
        self._learned: dict[bytes, list[int]] = {}
        """By event, how many others were learned before each of its predictions."""
        self.nbytes = self.dropped = 0

    @cached_property
    def inner(self) -> PendingPredictions:
        """Those of the learner inside the expert of labels."""
        return PendingPredictions(self._budget)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, event: bytes) -> bool:
        return event in self._learned

    def keep(self, event: bytes, forecast: Kept) -> None:
        """Keep a forecast, of arrays that the caller does not use again."""
        self.remove(event, forecast.learned)
        self.nbytes += forecast.nbytes + len(event)
        self._kept[event, forecast.learned] = forecast
        self._learned.setdefault(event, []).append(forecast.learned)
        while self.nbytes > self._budget and len(self._kept) > 1:
            self.remove(*next(iter(self._kept)))
            self.dropped += 1

    def items(self) -> list[tuple[bytes, Kept]]:
        """Return all events and the predictions for each, the oldest first."""
        return [(event, forecast) for (event, _), forecast in self._kept.items()]

    def take(self, event: bytes, usual: float = math.inf) -> Kept | None:
        """Remove and return the predictions for an event; None where there are none.

        Of several, those before which about as many events were learned as `usual`, by default the
        last ones.
        """
        times = self._learned.get(event)
        if times is None:
            return None
        learned = times[-1]
        if len(times) > 1 and usual < learned:
            learned = min(times, key=lambda one: abs(one - usual))
        return self.remove(event, learned)

    def remove(self, event: bytes, learned: int) -> Kept | None:
        """Remove and return the predictions for an event before which so many were learned."""
        found = self._kept.pop((event, learned), None)
        if found is not None:
            self.nbytes -= found.nbytes + len(event)
            times = self._learned[event]
            times.remove(learned)
            if not times:
                del self._learned[event]
        return found

    def shift(self, factor: float, shift: float) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        for one in self._kept.values():
            one.scores[...] = one.scores * factor + shift

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._learned.clear()
        self.nbytes = 0
        if "inner" in vars(self):
            self.inner.clear()


class HeldPredictions:
    """Predictions of the experts for events that are held, also for equal ones, under numbers.

    They may be saved beside a model. The memory of those that are `kept` has a budget, in bytes.

    Examples
    --------
    >>> held, events, pending = HeldPredictions(1000), np.zeros((1, 2)), PendingPredictions(1000)
    >>> pending.keep(events.tobytes(), Kept(np.array([0.5])))
    >>> held.keep([7], events, pending)
    >>> held.take([7], events).items()[0][1].scores, len(held.take([7], events))
    (array([0.5]), 0)
    """

    def __init__(self, budget: int) -> None:
        self.kept = PendingPredictions(budget)

    def keep(self, numbers: Sequence[int], events: Floats, pending: PendingPredictions) -> None:
        """Keep copies of the pending predictions of events (n, d), under their numbers."""
        found, inner = dict(pending.items()), dict(pending.inner.items())
        for number, event in zip(numbers, events, strict=True):
            forecast, name = found.get(event.tobytes()), _name(number)
            if forecast is None:
                continue
            self.kept.keep(name, forecast.copied())
            of_labels = inner.get(inner_name(event, forecast.known)) if inner else None
            if of_labels is not None:
                self.kept.inner.keep(name, of_labels.copied())

    def take(self, numbers: Sequence[int], events: Floats) -> PendingPredictions:
        """Remove and return the predictions of events (n, d), no two of which are equal."""
        waiting = PendingPredictions(UNBOUNDED)
        for number, event in zip(numbers, events, strict=True):
            if number < 0:
                continue
            name = _name(number)
            forecast, of_labels = self.kept.take(name), self.kept.inner.take(name)
            if forecast is None:
                continue
            waiting.keep(event.tobytes(), forecast)
            if of_labels is not None:
                waiting.inner.keep(inner_name(event, forecast.known), of_labels)
        return waiting

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return copies of all that is kept, as `HELD` declares it, the oldest first."""
        found: dict[str, NDArray[Any]] = {}
        for declared, pending in zip(HELD, (self.kept, self.kept.inner), strict=True):
            numbers, forecasts, learned, *known = (each.name for each in declared)
            names, kept = [name for name, _ in pending.items()], [one for _, one in pending.items()]
            found[numbers] = np.array([int.from_bytes(name, "little") for name in names], np.int64)
            found[forecasts] = _stacked([one.scores for one in kept], _NO_FORECAST)
            found[learned] = np.array([one.learned for one in kept], np.int64)
            for name in known:
                found[name] = _stacked([one.known for one in kept], NOTHING)
        return found

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        shape: tuple[int, ...],
        inner_shape: tuple[int, ...],
        known: int,
    ) -> None:
        """Take back what `arrays` gave; raise StateError unless it fits.

        Forecasts are of these shapes, and so many numbers were known of each event.
        """
        found = {n: a for each in HELD for n, a in taken(each, arrays, {}, _OWNER)[0].items()}
        fitting = {"forecasts": shape, "inner_forecasts": inner_shape, "known": (known,)}
        for name, fits in fitting.items():
            if len(found[name]) and found[name].shape[1:] != fits:
                raise StateError(
                    f"array {name!r} of {_OWNER} has the shape {found[name].shape[1:]}, not {fits};"
                    " the checkpoint is damaged or was changed by hand"
                )
        self.kept.clear()
        for declared, pending in zip(HELD, (self.kept, self.kept.inner), strict=True):
            rows = zip(*(found[each.name] for each in declared), strict=True)
            for number, scores, learned, *more in rows:
                kept = Kept(scores.copy(), int(learned), *(array.copy() for array in more))
                pending.keep(_name(int(number)), kept)


_OWNER = "predictions of held events"
_FORECASTS = Domain(-LARGEST, LARGEST, missing=True)
HELD = (
    (
        Declared("numbers", "int64", ("kept",), NON_NEGATIVE),
        Declared("forecasts", "float32", ("kept", "parts", "outputs"), _FORECASTS),
        Declared("learned", "int64", ("kept",), NON_NEGATIVE),
        Declared("known", "float64", ("kept", "known"), Domain(-1e308, 1e308, missing=True)),
    ),
    (
        Declared("inner_numbers", "int64", ("kept",), NON_NEGATIVE),
        Declared("inner_forecasts", "float32", ("kept", "parts", "outputs"), _FORECASTS),
        Declared("inner_learned", "int64", ("kept",), NON_NEGATIVE),
    ),
)
"""Arrays of what is kept for held events, and of that inside the expert of labels."""
_NO_FORECAST = np.zeros((0, 0), np.float32)


def inner_name(event: Floats, known: Floats) -> bytes:
    """Return the name of an event (d,) to the learner inside the expert of labels."""
    return np.concatenate([known[:-1], event]).tobytes()


def _stacked(arrays: list[NDArray[Any]], none: NDArray[Any]) -> NDArray[Any]:
    """Return arrays of one shape as one, or none of that of another."""
    return np.stack(arrays) if arrays else none[None][:0]


def _name(number: int) -> bytes:
    return number.to_bytes(8, "little")


def unequal(events: Floats) -> Iterator[slice]:
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
