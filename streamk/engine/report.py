"""The report of a run that has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from streamk.encoding import Schema
from streamk.engine.evaluation.confusion import Confusion
from streamk.engine.order.feed import Feed, Lost
from streamk.engine.training.bad_events import Counts, Fates
from streamk.engine.training.trainer import Trainer
from streamk.learners.common.base import Learner

__all__ = ["Report", "Stopped", "report_of"]

Stopped: TypeAlias = Literal["end", "max_events", "request"]


@dataclass(frozen=True)
class Report:
    """The outcome of a run.

    Attributes
    ----------
    stopped : "end", "max_events" or "request"
        The source ended, the limit was reached, or a signal or `Engine.stop` asked for it.
    events : int
        Events taken from the sequence since the job began, restarts included.
    counts : Counts
    whole, window : dict of str to float
        Figures of progressive validation: accuracy and log_loss, or mae, pinball of a quantile, and
        rmse.
    baselines : dict of dict of str to float
        "whole" and "window": accuracy of no_change and majority, or the first figure of
        last_value and mean, on the same events.
    confusion : Confusion
        Which class was taken for which, see `streamk.engine.evaluation.confusion`.
    since : dict of str to int
        After how many scored events a figure began to count, of those that did not at the first.
    history : dict of str to list
        Windowed figures along the stream by name, and ``events``, after how many; at most 1,024
        points. None where there was no figure yet.
    lost : list of dict
        Offset ranges that this model will never hold: partition, start, stop, reason.
    learns : bool
        Whether events with a label were learned.
    learned : dict of partition to list of [start, stop]
        Offset ranges that were taken.
    seconds : float
        This run took, of which `events_now` were taken in it.
    model : Learner
    schema : Schema or None
        None if no event was ever read.
    epoch : int or None
        The last checkpoint; None without.
    notes : tuple of str
        A sentence for each ignored field, and the label, that no event of this run had, and one
        where labels are not classes.
    skewed : dict of partition to int
        Events taken since the job began whose timestamp lay ahead of the clock that they were
        placed by (`max_skew`), where there are several partitions.
    fates : Fates or None
        What became of events and labels where these come late, from a source of their own.
    alarms : dict of str to int
        Alarms by kind since the job began.
    unfinished : tuple of str
        A sentence for everything that was there and not read, as half a record at the end of a
        file, and for what counts here and is read anew by a run that goes on from the checkpoint.
    slices : dict of str to dict
        Figures of each value of the column `slice`, see `Metrics.by_slice`.
    """

    stopped: Stopped
    events: int
    counts: Counts
    whole: dict[str, float]
    window: dict[str, float]
    learns: bool
    baselines: dict[str, dict[str, float]]
    confusion: Confusion
    since: dict[str, int]
    history: dict[str, list[Any]]
    lost: list[Lost]
    learned: dict[str, list[list[int]]]
    seconds: float
    events_now: int
    model: Learner
    schema: Schema | None
    epoch: int | None
    notes: tuple[str, ...] = ()
    skewed: dict[str, int] = field(default_factory=dict)
    fates: Fates | None = None
    alarms: dict[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    slices: dict[str, dict[str, Any]] = field(default_factory=dict)


def report_of(
    trainer: Trainer, feed: Feed, *, stopped: Stopped, epoch: int | None, first: int, seconds: float
) -> Report:
    """Return the report of a run that began after `first` events and took so many seconds."""
    return Report(
        stopped=stopped,
        events=feed.sequencer.events,
        counts=trainer.counts,
        whole=trainer.metrics.whole(),
        window=trainer.metrics.window(),
        learns=trainer.learns,
        baselines=trainer.metrics.baselines(),
        confusion=trainer.metrics.confusion,
        since=trainer.metrics.since(),
        history=trainer.metrics.history.columns,
        lost=feed.lost,
        learned=feed.learned,
        skewed=feed.sequencer.skewed(),
        seconds=seconds,
        events_now=feed.sequencer.events - first,
        model=trainer.model,
        schema=trainer.schema,
        epoch=epoch,
        notes=trainer.notes,
        fates=trainer.fates,
        alarms={} if trainer.alarms is None else trainer.alarms.counts,
        unfinished=feed.unfinished(saved=epoch is not None),
        slices=trainer.metrics.by_slice(),
    )
