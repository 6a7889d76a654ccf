"""Learning of a pool of experts: it predicts each event, then learns it, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners.common.prequential import Recorder
from streamk.learners.multi_kernel import pool_growth, tables
from streamk.learners.multi_kernel.pooled import PendingPredictions, Pooled
from streamk.learners.multi_kernel.rests import STRETCH
from streamk.learners.multi_kernel.tables import FURTHEST
from streamk.learners.multi_kernel.upkeep import PERIOD, unit_change

_AT_ONCE = 128
"""Events that are learned before another thread that wants to predict gets its turn."""


class PooledLearning(Pooled):
    """A pool of experts that learns; see `streamk.learners.MultiKernel`.

    Events are learned in runs, mostly a pass of the compiled loops each. None but the first event
    of a run changes anything that is not in the pool itself: the columns' scale, the labels' unit
    or the classes.
    """

    def _learn_events(
        self,
        events: NDArray[np.float64],
        labels: NDArray[Any],
        recorder: Recorder | None = None,
    ) -> None:
        """Learn from events (n, d) with labels (n,), both checked.

        With a recorder, each is predicted first, by what was learned of those before.
        """
        first = 0
        if self._columns is None:
            self.add_columns(range(events.shape[1]))
            if recorder is not None:
                # A prediction made before any column is known does not count for the weights.
                recorder.add(self._even(1))
                self._learn(events[:1], labels[:1], None)
                first = 1
        while first < len(events):
            most = min(_AT_ONCE, self._scale.until_change(), tables.until_more(self.n_events))
            most = min(most, STRETCH - self.n_events % STRETCH)
            stop = min(len(events), first + most)
            if self.is_classifier:
                stop = first + self._until_new(labels[first:stop])
            else:
                stop = min(stop, first + self._labels.until_change(labels[first:stop]))
            self._learn(events[first:stop], labels[first:stop], recorder)
            first = stop

    def _until_new(self, labels: NDArray[Any]) -> int:
        """Return how many labels come before a new class, which is learned on its own at first."""
        if self._classes.contains_all(labels[1:]):
            return len(labels)
        known = self._classes.number
        for n, label in enumerate(labels[1:], start=1):
            if known(label) is None:
                return n
        return len(labels)

    def _learn(
        self, events: NDArray[np.float64], labels: NDArray[Any], recorder: Recorder | None
    ) -> None:
        """Learn from a run of events, at least one; see `_learn_events`."""
        old = self._unit
        moved = self._scale.observe(events)
        if self.is_classifier:
            turned = self._classes.number(labels[0]) is None
        else:
            turned = self._labels.observe(labels[:, None])
        predicted = recorder is not None and (moved or turned)
        if recorder is not None and predicted:
            # By the pool that does not follow yet.
            recorder.add(self._restored(self._forecast_event(events[0]), old)[None])
        elif moved or turned:
            self._forecast_unasked(events[0])
        if moved:
            self._follow_columns()
        if self.is_classifier:
            numbers = self._encode(labels)
        else:
            if turned:
                self._follow_unit(old)
            numbers = self._standardized(labels)
        self._learn_rows(events, numbers, recorder, predicted)

    def _follow_columns(self) -> None:
        """Convert the experts to a changed scale of the columns."""
        self._settle()
        self._pool.adapt(self._scale)
        self._external.adapt(self._scale)
        self._follow_woken()

    def _encode(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Return the numbers of the classes; the experts follow where there are new ones."""
        numbers = self._classes.encode(labels).astype(np.float64)
        classes, pool = len(self._classes), self._pool
        if classes > pool.classes:
            self._pool = pool_growth.with_classes(pool, classes)
            self._changed()
        elif self._external.lacks_classes(classes):
            self._tell_external()
        return numbers

    @property
    def _unit(self) -> tuple[float, float]:
        """Center and inverse scale of the labels; of classes 0 and 1."""
        if self.is_classifier:
            return 0.0, 1.0
        return float(self._labels.center[0]), float(self._labels.inverse[0])

    def _follow_unit(self, old: tuple[float, float]) -> None:
        """Convert the experts to a changed unit of the labels."""
        if not self.n_events or self._labels.jumped:
            return  # in the new unit is predicted what was in the old one
        factor, shift = unit_change(*old, self._labels)
        self._settle()
        self._pool.shift_labels(factor, shift)
        self._pending.shift(factor, shift)
        self._held.shift(factor, shift)
        self._external.shift_labels(factor, shift, self.n_events)
        self._follow_woken()
        if self._errors is not None and factor:
            self._errors.rescale(factor)

    def _standardized(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return labels in units of their spread."""
        center, inverse = self._unit
        return np.asarray(np.clip((labels - center) * inverse, -FURTHEST, FURTHEST))

    def _restored(
        self, out: NDArray[np.float64], unit: tuple[float, float] | None = None
    ) -> NDArray[np.float64]:
        """Return predicted numbers, which are in units of the labels' spread, in their own unit."""
        if self.is_classifier:
            return out
        center, inverse = self._unit if unit is None else unit
        return np.asarray(out / inverse + center)

    def _learn_rows(
        self,
        events: NDArray[np.float64],
        numbers: NDArray[np.float64],
        recorder: Recorder | None,
        predicted: bool,
    ) -> None:
        """Learn from events (n, d) whose labels are in the experts' terms.

        Parameters
        ----------
        events : float64 array of shape (n, d)
        numbers : float64 array of shape (n,)
        recorder : Recorder, optional
        predicted : bool
            Whether it has the prediction of the first one.
        """
        alone = len(events)
        if alone > 1:
            alone = int(predicted or events[0].tobytes() == self._fresh)
        for n in range(alone):
            if recorder is not None and not (n == 0 and predicted):
                recorder.add(self._restored(self._forecast_event(events[n]))[None])
            self._learn_row(events[n], float(numbers[n]))
        if alone < len(events):
            self._learn_pass(events[alone:], numbers[alone:], recorder)

    def _learn_pass(
        self,
        events: NDArray[np.float64],
        numbers: NDArray[np.float64],
        recorder: Recorder | None,
    ) -> None:
        """Do `_learn_rows` by the compiled loops alone."""
        pool, upkeep = self._pool, self._upkeep
        self._settle()
        seen, places = self._stored_predictions(events, asked=recorder is None)
        external = self._external.predict_then_learn(events, numbers, pool.outputs)
        out = np.empty((len(events), pool.outputs))
        errors = None if self._errors is None else self._errors.table
        rows, first = self._padded(events), 0
        while first < len(rows):
            rest = slice(first, None)
            learned, found = self._loops.learn(
                pool.table,
                rows[rest],
                numbers[rest],
                external[rest],
                seen,
                places[rest],
                errors,
                out[rest],
                upkeep.plan(self.n_events),
            )
            first += learned
            self.n_events += learned
            upkeep.follow(pool, found, self.n_events)
        self._add_cells()
        self._review_external()
        # Balanced weights change with each label, and decisions with them.
        weights = self._weights
        step = 1 if weights is not None and weights.balanced and recorder is not None else len(out)
        F = self._restored(out)
        for n in range(0, len(F), step):
            if recorder is not None:
                recorder.add(F[n : n + step])
            if weights is not None:
                weights.learn(numbers[n : n + step].tolist())

    def _stored_predictions(
        self, events: NDArray[np.float64], *, asked: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return what was said of events (n, d), and at which place there each is, -1 for none.

        It is forgotten. Unless it is asked for, since they are predicted anew, there is nothing.
        """
        places = np.full(len(events), -1)
        found: list[NDArray[np.float32]] = []
        if len(self._pending):
            for n, row in enumerate(events):
                then = self._pending.take(row.tobytes())
                if then is not None and asked:
                    places[n] = len(found)
                    found.append(then)
        return (np.stack(found) if found else self._pool.kept(0)), places

    def _learn_row(self, event: NDArray[np.float64], number: float) -> None:
        """Learn from an event (d,) whose label is in the experts' terms."""
        pool, name = self._pool, event.tobytes()
        seen = pool.arrays["KEPT"]
        if self._weights is not None:
            self._weights.learn([number])
        then = None
        if name == self._fresh:
            self._fresh = None
            self._pending.take(name)
        else:
            self._settle()
            then = self._pending.take(name)
            self._evaluate_external(event)
            self._loops.forecast_one(pool.table, self._padded(event))
        if then is not None:
            seen = then
        if self._errors is not None:
            missed = float(number - seen[-1, 0])
            self._errors.update(missed, seen[: pool.experts], pool.disagreement_weights)
        self._loops.update(pool.table, seen, number)
        if self._external:
            self._external.learn(event[None], number)
        self.n_events += 1
        if self.n_events % PERIOD == 0:
            self._review()
        self._add_cells()
        self._review_external()

    def _review_external(self) -> None:
        """Decide which external experts rest, if it is time."""
        if self._external and self.n_events % STRETCH == 0:
            self._settle()
            self._external.review(self._pool.external_gains(), self._upkeep.alarms)
            self._follow_woken()

    def _add_cells(self) -> None:
        """Grow the tables with the events learned."""
        if self._pool.most_cells < tables.LARGEST:
            self._pool.add_cells(tables.most_after(self.n_events))

    def compile_rare_steps(self) -> None:
        """Do what happens seldom, a review and a new beginning after drift, to have it compiled."""
        self._review()
        self._pool.restart()

    def _review(self) -> None:
        """Look at the events since the last review."""
        self._settle()
        self._upkeep.review(self._pool, self.n_events)

    def _forecast_event(self, event: NDArray[np.float64]) -> NDArray[np.float64]:
        """Forecast an event (d,); what is said of it stays in the pool's room for a while."""
        self._settle()
        self._evaluate_external(event)
        self._loops.forecast_one(self._pool.table, self._padded(event))
        self._fresh = event.tobytes()
        return np.asarray(self._pool.arrays["OUT"].copy())

    def _forecast_unasked(self, event: NDArray[np.float64]) -> None:
        """Forecast an event (d,) whose prediction was not requested, as if it had been."""
        name = event.tobytes()
        if name != self._fresh and name not in self._pending:
            self._forecast_event(event)

    def _evaluate_external(self, event: NDArray[np.float64]) -> None:
        """Ask the external experts about the event (d,) that is forecast next."""
        if self._external:
            outputs = self._external.outputs(event[None], self._pool.outputs)
            self._pool.set_external_outputs(outputs[0])

    def _settle(self) -> None:
        """Keep what the pool's room says of an event, before it is overwritten or means less."""
        if self._fresh is not None:
            self._pending.keep(self._fresh, self._pool.arrays["KEPT"].copy())
            self._fresh = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Predict without remembering it: later labels of these events find nothing said.

        Examples
        --------
        >>> from streamk.learners import MultiKernel
        >>> model = MultiKernel(columns=("a",), task="regression")
        >>> with model.aside():
        ...     number = model.predict_one([1.0])
        """
        with self.lock, self._keeping(PendingPredictions(0)):
            yield

    @contextmanager
    def _keeping(self, pending: PendingPredictions) -> Iterator[None]:
        """Have these pending predictions in the place of the model's for a while."""
        self._settle()
        said, self._pending = self._pending, pending
        try:
            yield
        finally:
            self._settle()
            self._pending = said

    def _padded(self, events: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return events (n, d), or one (d,), with room for columns still to come."""
        missing = self._pool.capacity - events.shape[-1]
        if not missing:
            return events
        return np.pad(events, (*((0, 0) for _ in events.shape[1:]), (0, missing)))
