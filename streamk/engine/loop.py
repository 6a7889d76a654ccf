"""The engine: consume, predict, emit, learn, measure and checkpoint until the stream ends."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from connectors.base import Sink, Source, Transactional, Transactions, group_of
from connectors.errors import Aborted
from connectors.fields import declare
from streamk.encoding import Schema
from streamk.engine.checkpoints.opening import Checkpoints
from streamk.engine.display import Display, HealthMonitor
from streamk.engine.order.feed import Feed, Order
from streamk.engine.progress import Pace
from streamk.engine.recovery.coordinator import CheckpointCoordinator, NotAssigned
from streamk.engine.report import Report, Stopped, report_of
from streamk.engine.saving import Restarts, Saving
from streamk.engine.training.options import Details, Fixed, Newer, Stream, Watch
from streamk.engine.training.outputs import DEAD_LETTER
from streamk.engine.training.trainer import DETAILS, WATCH, DelayedLabels, Trainer
from streamk.errors import InvalidInput
from streamk.learners.common.base import Learner


@contextmanager
def stopped_by_signals(stop: Callable[[], None], is_stopping: Callable[[], bool]) -> Iterator[None]:
    """Stop gently on the first SIGTERM or SIGINT in the block, at once where it stops already.

    Signals are the main thread's: in another one nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        if is_stopping():
            os._exit(128 + number)
        stop()

    before = {n: signal.signal(n, handle) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


STREAM, ORDER, CHECKPOINTS = Stream(), Order(), Checkpoints()
_POLL_SECONDS = 0.1
"""Longest wait for events before looking whether to stop."""
_NEWER_SECONDS = 1.0
"""Time between two looks for a newer model."""
_MOST = 1024
"""Events taken at once: enough to make a call cheap per event, few enough to stay in cache."""

_log = logging.getLogger("streamk.engine")


class Engine:
    """Attaches a model to a stream.

    Events are taken in one fixed order (see `streamk.engine.order.sequence`). Each is predicted by
    the model that has learned all events before it, then learned, as soon as its place in the order
    is certain. Nothing of that depends on timing; with a `checkpoint` directory the run goes on
    after any crash as if nothing had happened.

    Parameters
    ----------
    source : Source
    model : Learner
        In its initial state, also when a checkpoint is there to go on from.
    sink : Sink, optional
        Gets the predictions.
    stream : Stream, optional
        What the events are, how many are taken, and what becomes of unusable ones.
    order : Order, optional
        How partitions become one sequence.
    checkpoints : Checkpoints, optional
        Where and when model and position are saved, and what the run goes on from.
    watch : Watch, optional
        What is told of the run: figures, alarms and progress.
    details : Details, optional
        What comes with predictions: intervals, sets of classes, reasons. Each event takes a
        prediction more for every field for these (`streamk.learners.explaining`).
    labels : streamk.late.LateLabels, optional
        Labels that come later than the events, from a source of their own; the label is their
        field there. Events are held until then, and one of that name in them is not read. Counts of
        events of the sequence, as in `max_events`, count labels too.
    fixed : Fixed, optional
        Events are predicted and never learned.

    Raises
    ------
    InvalidInput
        If these do not go together.

    Examples
    --------
    >>> import numpy as np
    >>> from connectors.memory import MemorySource
    >>> from streamk.kernels import Gaussian
    >>> from streamk.learners import DoublyStochastic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)).astype("f")
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=1024)
    >>> report = Engine(MemorySource((X, y)), model, stream=Stream(label="y")).run()
    >>> report.events, report.counts.learned, report.window["accuracy"] > 0.8
    (2000, 2000, True)
    """

    def __init__(
        self,
        source: Source,
        model: Learner,
        *,
        sink: Sink | None = None,
        stream: Stream = STREAM,
        order: Order = ORDER,
        checkpoints: Checkpoints = CHECKPOINTS,
        watch: Watch = WATCH,
        details: Details = DETAILS,
        labels: DelayedLabels | None = None,
        fixed: Fixed | None = None,
    ) -> None:
        model = stream.remembering(model)
        is_fixed = isinstance(stream.schema, Schema) and stream.schema.mode == "fixed"
        if fixed is not None and not is_fixed:
            raise InvalidInput('fixed= needs a schema of mode "fixed", see streamk.load')
        if labels is not None:
            source = labels.joined(source, stream.label, model, learn=fixed is None)
        self._source, self._stream, self._fixed = source, stream, fixed
        self._limit = sys.maxsize if stream.max_events is None else stream.max_events
        sinks = {"sink": sink, "dead_letters": stream.dead_letters, "alarms": watch.alarms}
        self._sinks = {name: some for name, some in sinks.items() if some is not None}
        self._checkpoints = checkpoints
        self._transactions = _transactions_of(
            source, self._sinks.values(), checkpoints.transactions
        )
        self._display = Display(watch.on_progress, Pace(watch.progress_interval))
        self._health = HealthMonitor((source, *self._sinks.values()), self._display.show_again)
        self._stopping, self._looked = False, time.monotonic()
        trainer_of = Trainer if labels is None else labels.trainer
        self._trainer: Trainer = trainer_of(
            model, source, stream, sink=sink, watch=watch, details=details, fixed=fixed
        )
        self._feed = Feed(source, order, data_loss=stream.data_loss, until_end=stream.until_end)
        self._config = _config(source, stream, order, labels, learn=fixed is None)

    def run(self) -> Report:
        """Run until the source ends, `max_events`, a signal (SIGTERM, SIGINT) or `stop`.

        Stopping finishes the events at work, writes a checkpoint and closes. A second signal ends
        the process at once.
        Source and sinks are closed at the end; an engine runs once.

        Raises
        ------
        InvalidInput
            If none of all events can be learned from.
        EngineError, StateError, ConnectorError
            See `streamk.errors` and `connectors.errors`. What the last checkpoint holds is safe.
        OSError
            If an object store is away when the run begins.
        """
        began = time.monotonic()
        with ExitStack() as stack:
            self._open(stack)
            first = self._feed.sequencer.events
            self._display.begin(first)
            restarts = Restarts(self._coordinator, self._feed, lambda: self._stopping)
            stopped: Stopped | None = None
            while stopped is None:
                try:
                    stopped = self._ended()
                except (Aborted, NotAssigned) as error:
                    restarts.restart(error)
            self._coordinator.commit_released()
            self._show(last=True)
            return report_of(
                self._trainer,
                self._feed,
                stopped=stopped,
                epoch=self._coordinator.epoch,
                first=first,
                seconds=time.monotonic() - began,
            )

    def stop(self) -> None:
        """End the run after the events at work; may be called from another thread or a signal."""
        self._stopping = True

    # --- inside -----------------------------------------------------------------------------------

    def _open(self, stack: ExitStack) -> None:
        """Open all that the stack closes, and go on from the last checkpoint, if there is one."""
        # Closed in the reverse order: sinks first; the member's slot before the group is left,
        # because whoever gets the partitions takes over from a member whose slot is free.
        stack.callback(self._source.close)
        slot = stack.enter_context(ExitStack())
        for sink in self._sinks.values():
            stack.callback(sink.close)
        stack.callback(self._trainer.close)
        stack.enter_context(stopped_by_signals(self.stop, lambda: self._stopping))
        # Sinks whose records have a schema are told which fields there will be.
        declare(self._sinks.get("sink"), self._trainer.prediction_type)
        declare(self._sinks.get("dead_letters"), DEAD_LETTER)
        if self._trainer.alarms is not None:
            declare(self._sinks.get("alarms"), self._trainer.alarms.RECORD)
        store = self._checkpoints.open(alone=group_of(self._source) is None)
        if store is not None:
            slot.callback(store.close)
            self._trainer.hold_in(store.segments)
            self._feed.write_passes = store.write_passes
        self._coordinator = CheckpointCoordinator(
            store,
            self._source,
            self._feed,
            self._trainer,
            sinks=self._sinks,
            config=self._config,
            until_end=self._stream.until_end,
            checkpoints=self._checkpoints,
            transactions=self._transactions,
        )
        stack.enter_context(self._health)
        self._coordinator.open()
        self._saving = Saving(self._coordinator, self._checkpoints)

    def _ended(self) -> Stopped | None:
        """Run, and save at the end; None if the group refused that and the run went back."""
        stopped, trainer = self._loop(), self._trainer
        if stopped == "request":
            trainer.drain()
        else:
            trainer.check()
        trainer.tell()
        is_new = not self._coordinator.is_current or stopped == "end"
        saved = not is_new or self._saving.save(self._feed.sequencer.events, final=True)
        return stopped if saved or stopped == "request" else None

    def _loop(self) -> Stopped:
        """Read and process events until there are no more or the run is to stop; say why."""
        feed, trainer, saving = self._feed, self._trainer, self._saving
        while not self._stopping:
            if feed.sequencer.events >= self._limit:
                return "max_events"
            if feed.sequencer.ready:
                self._process_ready()
            elif not feed.exhausted:
                # What is being learned is written once nothing more is there at once.
                feed.poll(_POLL_SECONDS if trainer.drained else 0.0)
                if not feed.sequencer.ready:
                    trainer.drain()
            elif feed.unfinished_lines:
                self._save_before_unfinished_lines()
            else:
                return "end"
            if saving.is_due_by_time:
                saving.save(feed.sequencer.events)
            if self._display.due:
                self._show()
            if self._fixed is not None and self._fixed.newer is not None:
                self._renew(self._fixed.newer)
        return "request"

    def _process_ready(self) -> None:
        """Process the next events, and save where a checkpoint is due after them."""
        many, ready = self._how_many(), -1
        # Where more than usual are wanted at once, read on while more are there at once.
        while many > _MOST and ready < self._feed.sequencer.ready < many:
            ready = self._feed.sequencer.ready
            self._feed.poll(0.0)
            many = self._how_many()
        sequencer = self._feed.sequencer  # only now: a rebalance may have replaced or emptied it
        if sequencer.ready and many > 0:
            self._trainer.process(sequencer.take(many))
            if self._saving.is_due_by_count(sequencer.events):
                self._saving.save(sequencer.events)

    def _how_many(self) -> int:
        """Return how many events to take at once: to the next checkpoint or the limit at most."""
        events, every = self._feed.sequencer.events, self._checkpoints.every
        round_left = self._trainer.events_left if self._trainer.in_rounds else 0
        most = min(max(_MOST, round_left), every - events % every)
        return min(most, self._limit - events)

    def _save_before_unfinished_lines(self) -> None:
        """Take in last lines that a later run may find longer, after the final checkpoint.

        A run that is about to end with an error writes none; those lines may avert the error.
        """
        with suppress(InvalidInput):
            self._trainer.check()
            self._saving.save(self._feed.sequencer.events, final=True)
        self._feed.add_unfinished_lines()

    def _renew(self, newer: Callable[[], Newer | None]) -> None:
        """Predict by a newer model from here on, if it is time to look and there is one."""
        if time.monotonic() - self._looked >= _NEWER_SECONDS:
            found, self._looked = newer(), time.monotonic()
            if found is not None:
                self._trainer.renew(*found)

    def _show(self, *, last: bool = False) -> None:
        self._display.show(
            self._source,
            self._feed,
            self._trainer,
            epoch=self._coordinator.epoch,
            trouble=self._health.short or self._saving.trouble,
            last=last,
        )


def _config(
    source: Source, stream: Stream, order: Order, labels: DelayedLabels | None, *, learn: bool
) -> dict[str, Any]:
    """Return the options in which a checkpoint and a run that goes on from it agree, as JSON."""
    given, late = stream.schema, None if labels is None else labels.to_json()
    columns = given.to_json() if isinstance(given, Schema) else given
    return {
        "label": stream.label,
        "learn": learn,
        "schema": columns if learn else "fixed",
        "absent": stream.absent,
        "ignore": list(stream.ignore),
        "text": list(stream.text),
        "entity": list(stream.entities) or None,
        "time": stream.time,
        "spans": None if stream.spans is None else list(stream.spans),
        "max_entities": stream.max_entities if stream.entities else None,
        "horizon": None if late is None else late.pop("horizon", None),
        "labels": late,
        "encoding": source.encoding,
        "delimiter": source.delimiter,
        "max_skew": None if math.isinf(order.max_skew) else float(order.max_skew),
    }


def _transactions_of(
    source: Source, sinks: Iterable[Sink], seconds: float | None
) -> Transactions | None:
    """Return the transactions of all sinks that can write in one; None without `seconds`.

    Each must be committed within that time.

    Raises
    ------
    InvalidInput
        If no sink can.
    BadURL
        If they, or the group of the source, cannot be in one.
    """
    if seconds is None:
        return None
    able = [sink for sink in sinks if isinstance(sink, Transactional)]
    if not able:
        raise InvalidInput(
            "transactions need a sink that can write in them: kafka://HOST:PORT/TOPIC"
        )
    first, *others = able
    return first.transact(source, others, seconds)
