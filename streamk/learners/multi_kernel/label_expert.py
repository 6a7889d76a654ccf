"""The expert that knows the labels so far: a learner of many kernels of how they change."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.backends.banks import WINDOW_BYTES, WINDOW_EVENTS
from streamk.declared import Declared, Domain, listed, taken
from streamk.errors import StateError
from streamk.features.columns import Column
from streamk.learners.common.classes import LARGEST_NUMBER
from streamk.learners.common.merging import check_mergeable
from streamk.learners.multi_kernel.pending import PendingPredictions
from streamk.learners.multi_kernel.units import Unit, in_unit
from streamk.memory.labels import LabelMemory
from streamk.state import JSON, State

Floats = NDArray[np.float64]
TYPE = "memory"
"""Its name among the experts."""
_LEVEL, _KNOWN = 0, -1
"""Places of the level, and behind the columns of how many labels were known."""

_FIRST = 32
"""Labels from which on it predicts and learns: a model of few events takes no memory for it."""
_NAN = np.full(1, math.nan)
_AGAIN = -1
_NOWHERE = slice(0, 0)
_LAST = (
    Declared("events", "float64", ("kept", "columns"), Domain(-LARGEST, LARGEST, missing=True)),
    Declared("event_labels", "float64", ("kept",), Domain(-LARGEST, LARGEST)),
)


def _change(labels: Any, level: Any) -> Any:
    """Return how far labels are from a level, as far as numbers may be that are learned."""
    return np.clip(labels - level, -LARGEST_NUMBER, LARGEST_NUMBER)


class LabelExpert:
    """An expert of numbers that sees the labels so far beside the columns of an event.

    It is a learner of many kernels whose columns are those of `streamk.memory.labels`, then the
    event's, and whose label is the difference from their level. What is known is what was when the
    event was predicted: that is kept with its forecast until its label comes. It begins with the
    32nd label.

    Parameters
    ----------
    model : MultiKernel
        Of numbers, without this expert; it has not learned.
    clock : str or int, optional
        The column of the times of events, in seconds.

    Attributes
    ----------
    unit : float, float
        Center and inverse scale of the labels to the mixture, which sets it.
    numbers : sequence of int
        Those of the next events that are predicted, if these are held.
    held : sequence of int or None
        Those of the next events that are learned, if these were held: -1 of one that is learned
        again, with another label, which is none of the stream's.
    """

    unit: Unit = (0.0, 1.0)
    numbers: Sequence[int] = ()
    held: Sequence[int] | None = None

    def __init__(self, model: Any, clock: Column | None = None) -> None:
        self.labels, self.model = LabelMemory(has_times=clock is not None), model
        self._clock, self._clock_at = clock, _NOWHERE
        self._held = PendingPredictions(model.pending_bytes)
        self._names = tuple(f"@{name}" for name in self.labels.columns)
        """Columns of the labels, which come before those of the events."""
        self.n_known = len(self._names) + 1
        """Numbers that are remembered of an event."""
        self._forgotten = np.full((1, self.n_known), math.nan)
        self._forgotten[0, _KNOWN] = -1.0
        self._now = np.full((1, self.n_known), math.nan)
        """The row of `remembered` that was asked for last, without times."""
        self.columns: tuple[Column, ...] = ()
        """The columns of events."""
        self._last: deque[tuple[Floats, float]] = deque(maxlen=WINDOW_EVENTS)
        """The events learned last, with their labels."""
        self.active = True
        """False while it rests."""

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        last = len(self._last) * (len(self.columns) + 1) * 8
        return int(self.labels.nbytes + self.model.nbytes) + last

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns of events."""
        self._use_columns((*self.columns, *names))
        self._keep(self._last)
        if self.model.columns is not None and names:
            self.model.add_columns(names)

    def _use_columns(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        if self._clock in columns:
            at = columns.index(self._clock)
            self._clock_at = slice(at, at + 1)

    def _begin_if_due(self) -> None:
        if self.model.columns is None and self.labels.n_labels >= _FIRST:
            self.model.add_columns((*self._names, *self.columns))

    def begin(self) -> None:
        """Begin anew; the labels stay."""
        self._use(self.model.as_new())
        self._begin_if_due()

    def _use(self, model: Any) -> None:
        """Go on with a model; what waits for its labels was not predicted by it."""
        self._held.clear()
        self.model = model
        self.model.join_held(self._held)

    def last_events(self) -> tuple[Floats, Floats]:
        """Return the events (n, d) learned last, up to 1,000, and their labels (n,)."""
        events = np.zeros((len(self._last), len(self.columns)))
        for row, (event, _) in zip(events, self._last, strict=True):
            row[: len(event)] = event  # columns that came later were zero
        return events, np.array([label for _, label in self._last], np.float64)

    def _keep(self, events: Iterable[tuple[Floats, float]]) -> None:
        """Keep these as the events learned last, as far as there is room."""
        most = WINDOW_BYTES // (8 * max(1, len(self.columns)))
        self._last = deque(events, maxlen=max(16, min(WINDOW_EVENTS, most)))

    # What was known

    def remembered(self, events: Floats) -> Floats:
        """Return what is known now, for each of some events (n, d).

        Of one that was held it is nothing: what was known when it was predicted is forgotten.
        """
        n = len(events)
        if self.held is not None:
            return np.repeat(self._forgotten, n, axis=0)
        count = float(self.labels.n_labels)
        if not self.numbers and self._clock is None:
            if self._now[0, _KNOWN] != count:
                self._now = np.array([[*self.labels.now().tolist(), count]])
            return self._now if n == 1 else np.repeat(self._now, n, axis=0)
        some: Sequence[int | None] = self.numbers[:n] or [None] * n
        self.numbers = self.numbers[n:]
        times = self._times(events)
        pairs = zip(some, [math.nan] * n if times is None else times.tolist(), strict=True)
        rows = [np.append(self.labels.now(number, time), count) for number, time in pairs]
        return np.stack(rows) if rows else np.zeros((0, self.n_known))

    def _times(self, events: Floats) -> Floats | None:
        """Return the times of events (n, d), NaN unknown; None if these have none."""
        if self._clock is None:
            return None
        times = events[:, self._clock_at]
        return times[:, 0] if times.shape[1] else np.full(len(events), math.nan)

    @staticmethod
    def columns_of(events: Floats, known: Floats) -> Floats:
        """Return the columns (n, all columns) of events (n, d) when this was known."""
        return np.concatenate([known[:, :_KNOWN], events], axis=1)

    # Predicting and learning

    def outputs(self, events: Floats, known: Floats) -> Floats:
        """Return targets (n,) of events (n, d) by what is known, NaN where it can say nothing."""
        if len(events) == 1:
            if not self.active or known[0, _KNOWN] < _FIRST:
                return _NAN
            (change,) = self.model.decision_one(self.columns_of(events, known)[0]).tolist()
            return np.array([in_unit(change + float(known[0, _LEVEL]), self.unit)])
        out, some = np.full(len(events), np.nan), known[:, _KNOWN] >= _FIRST
        if self.active and some.any():
            changes = self.model.decision_many(self.columns_of(events[some], known[some]))[:, 0]
            out[some] = in_unit(changes + known[some, _LEVEL], self.unit)
        return out

    def learn_one(self, event: Floats, label: float, known: Floats | None) -> None:
        """Learn an event (1, d) with a label; known is what was remembered of it, None of now."""
        known = self.remembered(event) if known is None else known
        self._last.append((event[0].copy(), label))
        self._take(event, np.array([label]), known, self._next_numbers(1))
        level, count = known[0, [_LEVEL, _KNOWN]].tolist()
        if self.active and count >= _FIRST:
            self.model.learn_one(self.columns_of(event, known)[0], _change(label, level))

    def learn_many(
        self, events: Floats, labels: Floats, known: Sequence[Floats | None], *, anew: bool
    ) -> Floats:
        """Learn events (n, d) with labels (n,), and return the targets predicted before each.

        Known is what was remembered of each, None where they are predicted only now. If `anew`,
        they are weighed by what is predicted now, and not by forecasts that were kept.
        """
        pieces, first = [], 0
        self._last.extend(zip(events.copy(), labels.tolist(), strict=True))
        if self.held is not None:
            known = [self._forgotten[0] if one is None else one for one in known]
        for is_now, some in groupby(known, lambda one: one is None):
            part = slice(first, first + len(list(some)))
            if is_now:
                then = self._follow(events[part], labels[part])
            else:
                then = np.stack([*known[part]])  # type: ignore[list-item]
                self._take(events[part], labels[part], then, self._next_numbers(len(then)))
            pieces.append(self._learn(events[part], labels[part], then, anew=anew))
            first = part.stop
        return np.concatenate(pieces)

    def _follow(self, events: Floats, labels: Floats) -> Floats:
        """Take in labels (n,) of events (n, d), and return what is known before each."""
        known = np.full((len(labels), self.n_known), math.nan)
        known[:, _KNOWN] = self.labels.n_labels + np.arange(len(labels))
        known[:, :_KNOWN] = self.labels.follow(labels, self._times(events))
        self._begin_if_due()
        return known

    def _next_numbers(self, n: int) -> Sequence[int | None]:
        """Return the numbers of the next n events that are learned, None where they have none."""
        if self.held is None:
            return [None] * n
        some, self.held = self.held[:n], self.held[n:]
        return some

    def _take(
        self, events: Floats, labels: Floats, known: Floats, numbers: Sequence[int | None]
    ) -> None:
        """Take in labels (n,) of events (n, d) of which this was known, with their numbers."""
        counts, times = known[:, _KNOWN].astype(np.int64), self._times(events)
        if counts.min() >= 0 and _AGAIN not in numbers:
            self.labels.take(labels, counts, numbers[-1], times)
            self._begin_if_due()
            return
        for n, number in enumerate(numbers):
            if number != _AGAIN:
                count = counts[n] if counts[n] >= 0 else self.labels.n_labels - self.labels.lag
                one = slice(n, n + 1)
                then = None if times is None else times[one]
                self.labels.take(labels[one], np.array([count]), number, then)
        self._begin_if_due()

    def _learn(self, events: Floats, labels: Floats, known: Floats, *, anew: bool) -> Floats:
        """Learn events by what was known of them, and return the targets predicted before each."""
        out, some = np.full(len(labels), np.nan), known[:, _KNOWN] >= _FIRST
        if self.active and some.any():
            level = known[some, _LEVEL]
            columns = self.columns_of(events[some], known[some])
            changed = _change(labels[some], level)
            changes = self.model.tell_and_learn_many(columns, changed, anew=anew)
            out[some] = in_unit(changes + level, self.unit)
        return out

    def keeping(self, pending: PendingPredictions) -> AbstractContextManager[None]:
        """Have the model keep its forecasts there for a while."""
        keeping: AbstractContextManager[None] = self.model.keeping(pending)
        return keeping

    def join_held(self, held: PendingPredictions) -> None:
        """Have the model's forecasts of held events be these, here and in the mixture."""
        self._held = held
        self.model.join_held(held)

    # State and merging

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        parts = {"labels": self.labels.state(), "model": self.model.state()}
        header: dict[str, JSON] = {"type": TYPE, "columns": list(self.columns)}
        own = dict(zip((each.name for each in _LAST), self.last_events(), strict=True))
        return State.nest(parts, header, own)

    def restore(self, state: State) -> None:
        """Go on from such a state. Raises StateError if it is another expert's."""
        state.expect(TYPE)
        self.labels = LabelMemory.from_state(state.child("labels"))
        if (self.labels.times is None) != (self._clock is None):
            raise StateError(f"the labels of the expert {TYPE!r} have other times; it is damaged")
        model = type(self.model).from_state(state.child("model"), threads=self.model.threads)
        check_mergeable(model, self.model, ("is_classifier", *model.OPTIONS))
        self._use_columns(tuple(listed(state.header, "columns", TYPE)))
        if model.columns not in (None, (*self._names, *self.columns)):
            raise StateError(
                f"the columns of the expert {TYPE!r} are not those of labels and events"
            )
        sizes = {"columns": len(self.columns)}
        found, _ = taken(_LAST, state.arrays, sizes, f"the expert {TYPE!r}")
        events, labels = (found[each.name] for each in _LAST)
        self._keep(zip(events.copy(), labels.tolist(), strict=True))
        self._use(model)
        self._begin_if_due()

    def merge(self, other: Self, apart: tuple[int, int], *, ahead: bool) -> None:
        """Take in what another one learned apart; the labels are those of the one ahead.

        The mixtures have learned so many events apart, this one's and the other's.
        """
        if other.model.columns is not None and self.model.columns is None:
            self.model.add_columns((*self._names, *self.columns))
        mine, theirs = self.model.n_events - apart[0], other.model.n_events - apart[1]
        common = max(0, min(mine, theirs))
        self.model.merge(other.model, common_events=common)
        if ahead:
            self.labels = LabelMemory.from_state(other.labels.state())
            events, labels = other.last_events()
            mine = np.zeros((len(events), len(self.columns)))
            mine[:, [self.columns.index(name) for name in other.columns]] = events
            self._keep(zip(mine, labels.tolist(), strict=True))
            self._now = np.full((1, self.n_known), math.nan)
