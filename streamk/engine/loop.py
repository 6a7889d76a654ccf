"""The engine: consume, predict, emit, learn, measure, checkpoint, until there is no more."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

from connectors.base import Sink, Source, group_of
from connectors.errors import Aborted
from connectors.fields import declare
from streamk.conformal import Regions
from streamk.encoding import Absent, Mode, Schema
from streamk.engine.alarms import ALARM
from streamk.engine.checkpoints.store import Store
from streamk.engine.display import Display, HealthMonitor
from streamk.engine.observing import Observer
from streamk.engine.options import (
    CheckpointOptions,
    Place,
    check_choice,
    check_learning,
    check_seconds,
    check_share,
    check_skew,
    check_whole,
    config_of,
    label_of,
    policy,
    schema_of,
)
from streamk.engine.order.feed import DataLoss, Feed
from streamk.engine.order.sequence import IdleAdvance
from streamk.engine.progress import Pace, Snapshot
from streamk.engine.recovery.coordinator import CheckpointCoordinator
from streamk.engine.recovery.group import transactions_of
from streamk.engine.report import Report, Stopped, report_of
from streamk.engine.saving import Again, Saving
from streamk.engine.training.bad_events import OnError
from streamk.engine.training.details import Details
from streamk.engine.training.outputs import DEAD_LETTER
from streamk.engine.training.scoring import SliceReader
from streamk.engine.training.trainer import DelayedLabels, Trainer
from streamk.errors import InvalidInput
from streamk.learners.base import Learner


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
    label : str, int, optional
        The field that holds the label; without one events are only predicted.
    schema : "open", "strict" or Schema, default "open"
        Fields and texts become columns when the first event with them is learned (open), or the
        first event learned has all of them and one with others is a bad one (strict). A `Schema`
        brings its own label.
    absent : "zero" or "missing", default "zero"
        What the columns of a field that an event lacks count as: 0 or NaN. A null is NaN anyway.
    ignore : tuple of str or int
        Fields that are no columns.
    sink : Sink, optional
        Gets the predictions.
    dead_letters : Sink, optional
        Gets the events that cannot be used, as they came, with position and reason.
    on_error : "raise", "skip" or "dead-letter"
        What becomes of such events; they are counted in any case. "dead-letter" if there is a
        sink for it, else "skip".
    max_bad_share : float, default 1.0
        The run ends where more than this share of the events, of at least 1,000 or all of them,
        cannot be used.
    data_loss : "fail", "earliest" or "latest", default "fail"
        What to do when the next events of a partition are gone from the source.
    checkpoint : path or str, optional
        Directory of checkpoints, made if need be, or an address in an object store,
        ``s3://bucket/job``, for jobs of one process.
    start_from : path or str, optional
        Directory or address of another job's checkpoints. A job that has no checkpoint of its own
        begins with the newest model there, its columns and its labels, and with nothing else of it;
        `model` and the options of the stream must be those of that job, `encoding` apart.
    state_key : path, optional
        File with a key of 32 bytes or more. Checkpoints are signed with it (HMAC-SHA256), and what
        is not signed with it is refused: the checkpoint to go on from, that of `start_from`, and
        those of other members.
    checkpoint_every : int, default 100000
        Checkpoints are written after so many events of the sequence, twice as many and so on.
    checkpoint_grace : int, default 1000000
        Where a checkpoint cannot be written, it is tried again each second while the run goes on,
        until so many events have come since the last one; 0 ends the run at once.
    transactions : float, optional
        Predictions, dead letters, alarms and, of a consumer group, the offsets are written in one
        transaction for each checkpoint, which is then also written where one is so many seconds
        old, between 0.1 and 60. For sinks of Kafka.
    idle_timeout : float, default 1.0
        Seconds that the other partitions of a live stream wait for one that brings nothing.
    max_skew : float, default 60.0
        Seconds that the timestamp of an event may be ahead of its partition's clock, see
        `streamk.engine.order.partitions`; infinite for no bound.
    until_end : bool, default False
        Each partition ends where it ended when the run began (for a restart: the first run).
    max_events : int, optional
        Stop after so many events of the sequence, restarts included.
    buffer_events : int, default 65536
    buffer_bytes : int, default 2^28
        About how much is read ahead while partitions wait for each other.
    window : int, default 1000
        Events in the windowed figures.
    learn : bool, default True
        False: events are predicted and never learned. `schema` is then one of mode "fixed" with the
        model's columns, as `streamk.load` gives it.
    newer : function, optional
        Called each second where nothing is learned: returns a model, its schema and its `kept` to
        predict with from there on, or None.
    interval : float, optional
        Predicted numbers come with an interval; so large a share of them is held, above 0 and at
        most 0.99, whatever the model and the drift (`streamk.conformal.AdaptiveIntervals`).
    prediction_set : float, optional
        Predicted classes come with a set of the most probable ones, which likewise holds so large a
        share of the labels (`streamk.conformal.AdaptiveSets`).
    kept : Regions, optional
        For learn=False: what the job of the model has learned for those (`TrainedModel.kept`).
    explain : bool, default False
        Predictions come with their reasons, the fields of the largest effect. Each event takes a
        prediction more for every field (`streamk.learners.explaining`).
    labels : streamk.engine.late.LateLabels, optional
        Labels that come later than the events, from a source of their own; `label` is their field
        there. Events are held until then, and one of that name in them is not read. Counts of
        events of the sequence, as in `max_events`, count labels too.
    metrics : sequence of str, optional
        Further figures by their names in `river.metrics`, as "F1", "ROCAUC", "CohenKappa" or "R2".
        Where they are of one class it is True or 1, or named, as "F1=spam".
    alarms : Sink, optional
        Gets an event when the error rises against its past, the columns drift, labels come later
        than before, or coverage or calibration leave their bounds, see
        `streamk.engine.alarms`.
    slice : str or int, optional
        A field of the events; each of the 20 values that come first has figures of its own, all
        others together.
    on_progress : function of a Snapshot, optional
        Called every `progress_interval` seconds, and at the end unless it is as it was then; by
        another thread where the run waits for a source or sink that is gone.
    progress_interval : float, default 1.0
    observer : Observer, optional
        Gets samples of the predictions, with their reasons, and the events that cannot be used, see
        `streamk.engine.observing`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

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
    >>> report = Engine(MemorySource((X, y)), model, label="y").run()
    >>> report.events, report.counts.learned, report.window["accuracy"] > 0.8
    (2000, 2000, True)
    """

    def __init__(
        self,
        source: Source,
        model: Learner,
        *,
        label: str | int | None = None,
        schema: Schema | Mode = "open",
        absent: Absent = "zero",
        ignore: tuple[str | int, ...] = (),
        sink: Sink | None = None,
        dead_letters: Sink | None = None,
        on_error: OnError | None = None,
        max_bad_share: float = 1.0,
        data_loss: DataLoss = "fail",
        checkpoint: Place | None = None,
        start_from: Place | None = None,
        state_key: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
        checkpoint_grace: int = 1_000_000,
        transactions: float | None = None,
        idle_timeout: float = 1.0,
        max_skew: float = 60.0,
        until_end: bool = False,
        max_events: int | None = None,
        buffer_events: int = 1 << 16,
        buffer_bytes: int = 1 << 28,
        window: int = 1000,
        learn: bool = True,
        newer: Callable[[], tuple[Learner, Schema, Regions | None] | None] | None = None,
        interval: float | None = None,
        prediction_set: float | None = None,
        kept: Regions | None = None,
        explain: bool = False,
        labels: DelayedLabels | None = None,
        metrics: Sequence[str] = (),
        alarms: Sink | None = None,
        slice: str | int | None = None,  # noqa: A002 (the field's word)
        on_progress: Callable[[Snapshot], None] | None = None,
        progress_interval: float = 1.0,
        observer: Observer | None = None,
    ) -> None:
        on_error = policy(on_error, dead_letters)
        label = label_of(label, schema)
        check_choice("data_loss", data_loss, DataLoss)
        check_whole(1, checkpoint_every=checkpoint_every, window=window)
        check_whole(1, buffer_events=buffer_events, buffer_bytes=buffer_bytes)
        check_whole(0, max_events=max_events, checkpoint_grace=checkpoint_grace)
        check_seconds(idle_timeout=idle_timeout, progress_interval=progress_interval)
        check_skew(max_skew)
        check_choice("absent", absent, Absent)
        check_share(max_bad_share=max_bad_share)
        if labels is not None:
            source = labels.joined(source, label, model, learn=learn)
        self._source, self._sink = source, sink
        sinks = {"sink": sink, "dead_letters": dead_letters, "alarms": alarms}
        self._sinks = {name: some for name, some in sinks.items() if some is not None}
        self._checkpoints = CheckpointOptions.of(
            checkpoint,
            start_from,
            state_key,
            every=checkpoint_every,
            grace=checkpoint_grace,
            seconds=transactions,
        )
        self._transactions = transactions_of(
            source, self._sinks.values(), transactions, saved=checkpoint is not None
        )
        self._max_events, self._until_end = max_events, until_end
        self._newer, self._looked = newer, time.monotonic()
        self._display = Display(on_progress, Pace(progress_interval))
        self._health = HealthMonitor((source, sink, dead_letters, alarms), self._show_trouble)
        self._stopping = False
        self._store: Store | None = None
        trainer_of = Trainer if labels is None else labels.trainer
        self._trainer: Trainer = trainer_of(
            model,
            source,
            schema_of(model, label, schema, absent, ignore),
            sink=sink,
            dead_letters=dead_letters,
            on_error=on_error,
            max_bad_share=max_bad_share,
            window=window,
            learn=learn,
            details=Details(interval, prediction_set, explain),
            kept=kept,
            metrics=metrics,
            alarms=alarms,
            slices=None if slice is None else SliceReader(source, slice),
            observer=observer,
        )
        self._feed = Feed(
            source,
            buffer_events=buffer_events,
            buffer_bytes=buffer_bytes,
            idle_timeout=idle_timeout,
            max_skew=max_skew,
            data_loss=data_loss,
            until_end=until_end,
            journal=self._note,
        )
        check_learning(schema, learn=learn, takes_newer=newer is not None)
        self._config = config_of(
            source, schema, label, absent, ignore, labels, max_skew, learn=learn
        )

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
            # Closed in the reverse order: sinks first; the member's slot before the group is left,
            # because whoever gets the partitions takes over from a member whose slot is free.
            stack.callback(self._source.close)
            stack.callback(self._release)
            for sink in self._sinks.values():
                stack.callback(sink.close)
            stack.callback(self._trainer.close)
            stack.enter_context(stopped_by_signals(self.stop, lambda: self._stopping))
            self._declare()
            coordinator = self._coordinated()
            stack.enter_context(self._health)
            coordinator.open()
            first = self._feed.sequencer.events
            self._display.begin(first)
            how = self._checkpoints
            saving = Saving(coordinator, how.every, how.grace, how.seconds)
            again = Again(coordinator, self._feed, lambda: self._stopping)
            stopped: Stopped | None = None
            while stopped is None:
                try:
                    stopped = self._ended(coordinator, saving)
                except Aborted as error:
                    again.go_back(error)
            coordinator.release()
            self._show(coordinator, saving, last=True)
            return report_of(
                self._trainer,
                self._feed,
                stopped=stopped,
                epoch=coordinator.epoch,
                first=first,
                seconds=time.monotonic() - began,
            )

    def stop(self) -> None:
        """End the run after the events at work; may be called from another thread or a signal."""
        self._stopping = True

    # --- inside -----------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Tell sinks whose records have a schema which fields there will be."""
        declare(self._sink, self._trainer.prediction_type)
        declare(self._sinks.get("dead_letters"), DEAD_LETTER)
        declare(self._sinks.get("alarms"), ALARM)

    def _coordinated(self) -> CheckpointCoordinator:
        """Open the store, if there are checkpoints, and return what saves and restores the run."""
        self._store = self._checkpoints.open(alone=group_of(self._source) is None)
        if self._store is not None:
            self._trainer.hold_in(self._store.segments)
        return CheckpointCoordinator(
            self._store,
            self._source,
            self._feed,
            self._trainer,
            sinks=self._sinks,
            config=self._config,
            until_end=self._until_end,
            start_from=self._checkpoints.start_from,
            key=self._checkpoints.key,
            transactions=self._transactions,
        )

    def _ended(self, coordinator: CheckpointCoordinator, saving: Saving) -> Stopped | None:
        """Run, and save at the end; None if the group refused that and the run went back."""
        stopped = self._loop(coordinator, saving)
        self._trainer.settle()
        is_new = not coordinator.is_current or stopped == "end"
        saved = not is_new or saving.save(self._feed.sequencer.events, last=True)
        return stopped if saved or stopped == "request" else None

    def _loop(self, coordinator: CheckpointCoordinator, saving: Saving) -> Stopped:
        trainer = self._trainer
        while not self._stopping:
            sequencer = self._feed.sequencer
            if self._max_events is not None and sequencer.events >= self._max_events:
                trainer.end()
                return "max_events"
            if sequencer.ready:
                share = self._share(sequencer.events)
                self._gather(share)
                trainer.take(sequencer.take(share))
                if saving.is_due(sequencer.events):
                    saving.save(sequencer.events)
            elif self._feed.exhausted:
                if not self._feed.has_last:
                    trainer.end()
                    return "end"
                self._save_before_last(saving)
            else:
                # What is learned at the moment is written once nothing more is there at once.
                self._feed.poll(_POLL_SECONDS if trainer.settled else 0.0)
                if not self._feed.sequencer.ready:
                    trainer.settle()
            if saving.is_overdue:
                saving.save(sequencer.events)
            if self._display.due:
                self._show(coordinator, saving)
            if self._newer is not None and time.monotonic() - self._looked >= _NEWER_SECONDS:
                self._renew(self._newer())
        trainer.settle()
        trainer.tell()
        return "request"

    def _save_before_last(self, saving: Saving) -> None:
        """Take in records that a later run may find otherwise, behind a last checkpoint.

        That is none of a run that ends with an error, unless those records avert it.
        """
        with suppress(InvalidInput):
            self._trainer.check()
            saving.save(self._feed.sequencer.events, last=True)
        self._feed.add_last()

    def _renew(self, found: tuple[Learner, Schema, Regions | None] | None) -> None:
        """Predict by another model from here on, if there is one."""
        self._looked = time.monotonic()
        if found is not None:
            self._trainer.renew(*found)

    def _share(self, events: int) -> int:
        """Return how many events to take after so many: up to a checkpoint, or the last one."""
        most = max(_MOST, self._trainer.events_left)
        every = self._checkpoints.every
        most = min(most, every - events % every)
        return most if self._max_events is None else min(most, self._max_events - events)

    def _gather(self, events: int) -> None:
        """Read on until more events than usual are ready, or no more are there at once."""
        ready = -1 if events > _MOST else events
        while ready < self._feed.sequencer.ready < events:
            ready = self._feed.sequencer.ready
            self._feed.poll(0.0)

    def _release(self) -> None:
        if self._store is not None:
            self._store.close()

    def _note(self, passes: list[IdleAdvance]) -> None:
        if self._store is not None:
            self._store.note(passes)

    def _show(
        self, coordinator: CheckpointCoordinator, saving: Saving, *, last: bool = False
    ) -> None:
        self._display.show(
            self._source,
            self._feed,
            self._trainer,
            epoch=coordinator.epoch,
            trouble=self._health.short or saving.trouble,
            last=last,
        )

    def _show_trouble(self) -> None:
        self._display.show_again(self._health.short)
