"""Experts of a pool and external ones: what they predict, and how they learn.

A label often comes long after its event had to be predicted. Experts that follow the last labels,
and mixers whose weights do, look better at the time of the label than they were at the time of the
prediction, so what they are weighed by is what they predicted then (Weinberger and Ordentlich
2002).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import OF_LAGS, loops, threads
from streamk.learners.common.classes import Label
from streamk.learners.multi_kernel import binning_tables, pool_growth
from streamk.learners.multi_kernel.expert_pool import ExpertPool
from streamk.learners.multi_kernel.external_experts import ExternalExperts
from streamk.learners.multi_kernel.intervals import ErrorQuantiles
from streamk.learners.multi_kernel.pending import (
    NOTHING,
    HeldPredictions,
    Kept,
    PendingPredictions,
)
from streamk.learners.multi_kernel.rests import REST_REVIEW_EVERY
from streamk.learners.multi_kernel.units import ScaledColumns, Targets
from streamk.learners.multi_kernel.upkeep import REVIEW_EVERY, Upkeep
from streamk.losses import Loss
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import State

Floats = NDArray[np.float64]
_FLOPS = 100_000
"""Of a forecast, about, for the decision how many threads it is worth."""


class ExpertMixture:
    """A pool of experts, external ones beside it, and forecasts of events without a label yet.

    Events are raw, targets are labels in the experts' terms: numbers of classes, or numbers in
    units of the labels' spread. Scales and units are the caller's, who says when they move.

    Attributes
    ----------
    pool : ExpertPool
        From the first columns on, see `use_pool`.
    pending, held : PendingPredictions, HeldPredictions
        In so many bytes, of events whose labels are still to come.
    errors : ErrorQuantiles or None
        Of numbers.
    n_events : int
        Events learned.
    """

    pool: ExpertPool

    def __init__(
        self, external: ExternalExperts, *, is_classifier: bool, pending_bytes: int
    ) -> None:
        self.external, self.n_events = external, 0
        self.pending = PendingPredictions(pending_bytes)
        self.held = HeldPredictions(pending_bytes)
        external.join_held(self.held.kept)
        self.errors = None if is_classifier else ErrorQuantiles()
        self.upkeep = Upkeep()
        self._last_forecast: bytes | None = None
        """The event whose forecast is in the pool's workspace and nowhere else yet."""
        self._last_known = NOTHING
        """The labels that were known for that, see `known_now` of the external experts."""

    @property
    def has_begun(self) -> bool:
        """True from the first columns on, when there is a pool."""
        return hasattr(self, "pool")

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        pool = self.pool.nbytes if self.has_begun else 0
        kept = self.pending.nbytes + self.held.kept.nbytes
        return pool + kept + self.external.nbytes

    def pool_with(
        self, keys: NDArray[np.uint64], targets: Targets, seed: int, loss: Loss | None
    ) -> ExpertPool:
        """Return the pool with further columns of these keys, or one of the first columns."""
        if self.has_begun:
            return pool_growth.with_columns(self.pool, keys) if len(keys) else self.pool
        return ExpertPool(
            keys,
            task=targets.task,
            classes=targets.classes,
            seed=seed,
            loss=loss,
            external_names=self.external.names,
            most_cells=binning_tables.most_after(self.n_events),
        )

    def use_pool(self, pool: ExpertPool, columns: ScaledColumns, classes: Sequence[Label]) -> None:
        """Go on with a new pool, and drop the predictions of the one before."""
        self.external.update_columns_and_classes(columns.names or (), classes, columns.scale)
        pool.adapt(columns.scale)
        self.pool = pool  # only now: what has been interrupted is begun again with the next label
        self.pending.clear()
        self.held.kept.clear()
        self._last_forecast = None

    def add_classes(self, columns: ScaledColumns, classes: Sequence[Label]) -> None:
        """Have the experts follow new classes; the known ones come first."""
        if len(classes) > self.pool.classes:
            self.use_pool(pool_growth.with_classes(self.pool, len(classes)), columns, classes)
        elif self.external:
            self.external.update_columns_and_classes(columns.names or (), classes, columns.scale)

    def adapt(self, scale: RunningQuantiles) -> None:
        """Convert the experts to a changed scale of the columns."""
        self.keep_last_forecast()
        self.pool.adapt(scale)
        self.external.adapt(scale)
        self.restart_if_woken()

    def shift_labels(self, factor: float, shift: float) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        self.keep_last_forecast()
        self.pool.shift_labels(factor, shift)
        self.pending.shift(factor, shift)
        self.held.kept.shift(factor, shift)
        self.external.shift_labels(factor, shift, self.n_events)
        self.restart_if_woken()
        if self.errors is not None and factor:
            self.errors.rescale(factor)

    def restart_if_woken(self) -> None:
        """Begin the mixture of all experts anew where external ones are active after a rest."""
        if self.external and self.external.have_woken():
            self.pool.begin_full_mixing()

    # Predicting

    def forecast(
        self, events: Floats, most_threads: int | None
    ) -> tuple[Floats, NDArray[np.float32]]:
        """Return outputs (n, K) for events (n, d), and the scores (n, experts, K) behind them."""
        pool = self.pool
        rows, out = self._padded(events), np.empty((len(events), pool.outputs))
        forecasts = pool.empty_forecasts(len(events))
        scores = forecasts[:, : pool.experts]
        known = self.external.known_now(events)
        if self.external:
            scores[:, pool.experts - len(self.external) :] = self.external.outputs(
                events, pool.outputs, known
            )

        def forecast(part: slice) -> None:
            with pool.workspace() as table:
                loops.event.forecast(table, rows[part], forecasts[part], out[part])

        threads.divide(len(rows), _FLOPS * len(rows), forecast, most_threads)
        self.keep_last_forecast()
        for row, one, now in zip(events, forecasts, known, strict=True):
            self.pending.keep(row.tobytes(), Kept(one.copy(), self.n_events, now.copy()))
        return out, scores

    def forecast_one(self, event: Floats) -> Floats:
        """Return outputs (K,) for an event (d,); its forecast stays in the pool for a while."""
        self.keep_last_forecast()
        known = self.external.known_now(event[None])
        self._forecast_now(event, known)
        self._last_forecast, (self._last_known,) = event.tobytes(), known
        return np.asarray(self.pool.arrays["OUT"].copy())

    def forecast_unless_known(self, event: Floats) -> None:
        """Forecast an event (d,) whose prediction was not requested, as if it had been."""
        name = event.tobytes()
        if name != self._last_forecast and name not in self.pending:
            self.forecast_one(event)

    def was_forecast_last(self, event: Floats) -> bool:
        """Return whether an event (d,) is the one that was forecast last."""
        return event.tobytes() == self._last_forecast

    def _forecast_now(self, event: Floats, known: Floats | None = None) -> None:
        """Write the forecast of an event (d,), by what is known or was, into the workspace."""
        pool = self.pool
        if self.external:
            pool.set_external_outputs(self.external.outputs(event[None], pool.outputs, known)[0])
        loops.event.forecast_one(pool.table, self._padded(event))

    def keep_last_forecast(self) -> None:
        """Keep the forecast in the pool's workspace, before it is overwritten or means less."""
        if self._last_forecast is not None:
            forecast = self.pool.arrays["FORECAST"].copy()
            kept = Kept(forecast, self.n_events, self._last_known)
            self.pending.keep(self._last_forecast, kept)
            self._last_forecast = None

    @contextmanager
    def keeping(self, pending: PendingPredictions) -> Iterator[None]:
        """Have these pending predictions instead of the others for a while."""
        self.keep_last_forecast()
        others, self.pending = self.pending, pending
        try:
            with self.external.keeping(pending):
                yield
        finally:
            self.keep_last_forecast()
            self.pending = others

    def _padded(self, events: Floats) -> Floats:
        """Return events (n, d), or one (d,), with room for columns still to come."""
        missing = self.pool.capacity - events.shape[-1]
        if not missing:
            return events
        return np.pad(events, (*((0, 0) for _ in events.shape[1:]), (0, missing)))

    # Learning

    def until_upkeep(self) -> int:
        """Return how many events may be learned at once: until tables grow or experts rest."""
        until_review = REST_REVIEW_EVERY - self.n_events % REST_REVIEW_EVERY
        return min(binning_tables.until_more(self.n_events), until_review)

    def learn_run(
        self, events: Floats, labels: Floats, targets: Floats, *, predict: bool, predicted: bool
    ) -> Floats:
        """Learn from a run of events (n, d) with labels and targets (n,), mostly by compiled loops.

        Returned are the outputs (n, K) of each before it is learned. If `predict`, these are what
        mixing learns from, and not forecasts that wait; but for the first one if it is `predicted`
        already.
        """
        out = np.empty((len(events), self.pool.outputs))
        alone = int(len(events) == 1 or predicted or self.was_forecast_last(events[0]))
        if alone:
            if predict and not predicted:
                self.forecast_one(events[0])
            self.learn_one(events[0], labels[0], float(targets[0]), out[0])
        if len(events) > alone:
            some = slice(alone, None)
            self._learn_several(events[some], labels[some], targets[some], predict, out[some])
        return out

    def _learn_several(
        self, events: Floats, labels: Floats, targets: Floats, predict: bool, out: Floats
    ) -> None:
        """Do `learn_run`, and write what was predicted to `out`.

        External experts predict and learn all events first, then the compiled loops take the pool
        through these.
        """
        pool, upkeep = self.pool, self.upkeep
        self.keep_last_forecast()
        forecasts, places, known, lags = self._take_pending(events, predict)
        external = self.external.predict_then_learn(
            events, labels, targets, pool.outputs, known, lags, anew=predict
        )
        errors = None if self.errors is None else self.errors.table
        rows, first = self._padded(events), 0
        while first < len(rows):
            rest = slice(first, None)
            learned, found = loops.event.predict_then_learn(
                pool.table,
                rows[rest],
                targets[rest],
                external[rest],
                forecasts,
                places[rest],
                lags[rest],
                errors,
                out[rest],
                upkeep.arguments(self.n_events),
            )
            first += learned
            self.n_events += learned
            upkeep.act_on(found, pool, self.n_events)
        self._grow()

    def _take_pending(
        self, events: Floats, predict: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], list[Floats | None], NDArray[np.int64]]:
        """Return forecasts that wait, at which place there that of each event (n, d) is, or -1.

        Then come what was known of each event, None where no forecast waits, and how many events
        were learned since, 0 there. They are forgotten. Events that are
        predicted again have none.
        """
        known: list[Floats | None] = [None] * len(events)
        places, lags = np.full(len(events), -1), np.zeros(len(events), np.int64)
        found: list[Kept] = []
        if len(self.pending):
            usual = self.pool.usual_lag
            for n, row in enumerate(events):
                if predict:
                    self.pending.remove(row.tobytes(), self.n_events + n)
                    continue
                one = self.pending.take(row.tobytes(), self.n_events + n - usual)
                if one is not None:
                    places[n], known[n] = len(found), one.known
                    lags[n] = self.n_events + n - one.learned
                    found.append(one)
                usual += (lags[n] - usual) * OF_LAGS
        scores = [one.scores for one in found]
        forecasts = np.stack(scores) if found else self.pool.empty_forecasts(0)
        return forecasts, places, known, lags

    def learn_one(
        self, event: Floats, label: Any, target: float, out: Floats | None = None
    ) -> None:
        """Do `learn_run` of an event (d,) alone; faster, and its forecast may be there already."""
        pool, name = self.pool, event.tobytes()
        forecast = pool.arrays["FORECAST"]
        known, lag = None, 0
        if name == self._last_forecast:
            self._last_forecast = None
            self.pending.remove(name, self.n_events)
        else:
            self.keep_last_forecast()
            then = self.pending.take(name, self.n_events - pool.usual_lag)
            if then is None:
                self._forecast_now(event)
            else:
                forecast, known = then.scores, then.known[None]
                lag = self.n_events - then.learned
                with self.external.keeping(PendingPredictions(0)):
                    self._forecast_now(event, known)
        if out is not None:
            out[...] = pool.arrays["OUT"]
        if self.errors is not None:
            missed = float(target - forecast[-1, 0])
            self.errors.update(missed, forecast[: pool.experts], pool.disagreement_weights)
        pool.set_lag(lag)
        loops.event.update(pool.table, forecast, target)
        if self.external:
            self.external.learn(event[None], label, target, known, lag)
        self.n_events += 1
        if self.n_events % REVIEW_EVERY == 0:
            self.review()
        self._grow()

    def _grow(self) -> None:
        """Grow the tables with the events learned; decide which external experts rest, in time."""
        if self.pool.most_cells < binning_tables.MOST_CELLS:
            self.pool.add_cells(binning_tables.most_after(self.n_events))
        if self.external and self.n_events % REST_REVIEW_EVERY == 0:
            self.keep_last_forecast()
            external = self.external
            gains = self.pool.external_gains(external.least_spared, external.active)
            self.external.review(gains, self.upkeep.alarms)
            self.restart_if_woken()

    def review(self) -> None:
        """Look at the events since the last review."""
        self.keep_last_forecast()
        self.upkeep.review(self.pool, self.n_events)

    # State and merging

    def parts(self, *, lent: bool = False) -> dict[str, State]:
        """Return the states of the parts by name, but for predictions without a label yet.

        If `lent`, the pool's cells are its own, and what follows changes them.
        """
        parts = {}
        if self.errors is not None:
            parts["errors"] = self.errors.state()
        if self.external:
            parts["external_experts"] = self.external.state()
        if self.has_begun:
            parts["pool"] = pool_growth.state_of(self.pool, self.upkeep.arrays(), lent=lent)
        return parts

    def restore(
        self,
        state: State,
        columns: ScaledColumns,
        classes: Sequence[Label],
        seed: int,
        loss: Loss | None,
        placings: Sequence[Mapping[str, Any]],
    ) -> None:
        """Take back `parts` after `n_events`; raise StateError or ValueError if they do not fit."""
        is_classifier, names = self.errors is None, columns.names
        if not is_classifier:
            self.errors = ErrorQuantiles.from_state(state.child("errors"))
        header: Any = state.header
        if "external_experts" in header["parts"]:
            self.external = ExternalExperts.from_state(
                state.child("external_experts"),
                is_classifier=is_classifier,
                memory=self.external.memory,
                placings=placings,
            )
            self.external.join_held(self.held.kept)
            self.external.check(names or (), tuple(classes))
        if names is not None:
            self.upkeep.restore(state.child("pool").arrays)
            pool = pool_growth.load(
                state.child("pool"),
                columns.keys,
                classes=max(2, len(classes)) if is_classifier else None,
                seed=seed,
                loss=loss,
                external_names=self.external.names,
                n_events=self.n_events,
            )
            self.use_pool(pool, columns, classes)
