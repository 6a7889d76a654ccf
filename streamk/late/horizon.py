"""The label of a later event, so many events or so much time ahead, predicted now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from connectors.base import Source, group_of
from connectors.errors import BadRecord
from streamk.encoding import Name, Schema
from streamk.engine.training.bad_events import check_all_counted
from streamk.engine.training.learning import check_task
from streamk.engine.training.options import Stream
from streamk.engine.training.trainer import Trainer
from streamk.errors import InvalidInput
from streamk.late.ahead import Ahead
from streamk.late.held import HeldEvents
from streamk.late.holding import HoldingTrainer
from streamk.late.source import NAMED, JoinedSource, SeriesReader, Taken
from streamk.late.steps import BatchSteps
from streamk.learners.common.base import Learner
from streamk.memory.entities import span_name
from streamk.options import Whole

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Horizon:
    """The target is the label of a later event: predicted now, learned when that event comes.

    An event has its own label as a column, since it is known by then, and before the event is
    predicted the earlier one is learned whose target that label is.

    Parameters
    ----------
    ahead : int or timedelta
        So many events later; or the first event that is at least so much later, and less than
        twice that.
    series : str, optional
        The field whose values tell series apart: the later event is one of the same value. By
        default all events are one series.
    time : str, optional
        The field that holds when an event was, if `ahead` is a time: milliseconds since 1970 or a
        text of ISO 8601. By default the source's timestamps count, which files do not have.
    held_events : int, default 1000000
        Events that wait at once; the oldest go first, unlearned.

    Examples
    --------
    >>> Horizon(timedelta(hours=24)).name, Horizon(24).name
    ('1d', '24')
    """

    ahead: int | timedelta
    series: Name | None = None
    time: Name | None = None
    held_events: int = 1_000_000

    @property
    def timed(self) -> bool:
        """True if it is one of time."""
        return isinstance(self.ahead, timedelta)

    @property
    def span(self) -> int:
        """Events, or milliseconds."""
        return self.ahead // _MILLISECOND if isinstance(self.ahead, timedelta) else self.ahead

    @property
    def name(self) -> str:
        """The text that the command has for it."""
        return span_name(self.span / 1000) if self.timed else str(self.ahead)

    def joined(
        self, events: Source, label: Name | None, model: Learner, *, learn: bool
    ) -> JoinedSource:
        """Return the events as a source with their times.

        Raises `InvalidInput` where a job cannot have a horizon.
        """
        Whole(least=1).check("held_events", self.held_events)
        Whole(least=1).check("ahead", self.span)
        if label is None:
            raise InvalidInput("a horizon needs label=, the field that is to be predicted")
        if self.series == label:
            raise InvalidInput(f"series={self.series!r} is the label; it must be another field")
        if self.time is not None and not self.timed:
            raise InvalidInput(f"time={self.time!r} is for a horizon of time, as 24h; leave it out")
        if events.encoding not in NAMED:
            raise InvalidInput(
                f"a horizon is for records with named fields ({', '.join(NAMED)}); the events are"
                f" of encoding {events.encoding!r}"
            )
        group = group_of(events)
        if group is not None:
            raise InvalidInput(f"a job with a horizon is one process: drop group={group}")
        if not learn:
            raise InvalidInput("a horizon is for a job that learns")
        if model.models:
            raise InvalidInput("challengers have no horizon; leave it out, or run the model alone")
        return JoinedSource(events, None, time=self.time)

    def trainer(self, model: Learner, source: Source, stream: Stream, **options: Any) -> Trainer:
        """Return the trainer of a job with this horizon, whose `options` are as of `Trainer`."""
        return HorizonTrainer(model, source, stream, horizon=self, **options)

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint and the run that goes on from it must agree in."""
        return {
            "horizon": self.name,
            "series": self.series,
            "time": self.time,
            "held_events": self.held_events,
        }


class HorizonTrainer(HoldingTrainer):
    """A trainer whose events are learned with the labels of later ones."""

    TYPE = "horizon"
    _held: Ahead

    def __init__(
        self, model: Learner, source: Source, stream: Stream, *, horizon: Horizon, **options: Any
    ) -> None:
        self._horizon, schema = horizon, stream.schema_for(model)
        check_task(schema, model)
        try:
            self._reader = SeriesReader(
                source, horizon.series, schema, horizon.time, timed=horizon.timed
            )
        except BadRecord as error:
            raise InvalidInput(f"the labels cannot be read: {error}") from error
        super().__init__(model, source, stream, **options)
        self._begin()

    def _queue(self, held: HeldEvents) -> Ahead:
        horizon = self._horizon
        return Ahead(horizon.span, timed=horizon.timed, most=horizon.held_events, held=held)

    def use(self, schema: Schema) -> None:
        """Read events by this schema from now on; the label is a field like others."""
        ignore, label = schema.ignore, schema.label
        if schema.columns and label is not None and label not in schema.columns:
            ignore = (*ignore, label)  # they were chosen without it
        self._job_schema = replace(schema, label=None, label_type=None, classes=None, ignore=ignore)
        super().use(self._job_schema)

    def _follow(self, taken: Taken) -> BatchSteps:
        batch, held = BatchSteps(self._work, taken), self._held
        events = zip(taken.keys, taken.batch.timestamps.tolist(), taken.labels, strict=True)
        for row, (key, time, label) in enumerate(events):
            if key is None:
                continue
            for slot, before in held.due(key, time, label):
                batch.learn(row, slot, label, before=before)
            batch.predict(row, held.hold(key, time, label))
        batch.finish()
        held.settle()
        return batch

    def _count(self, taken: Taken, found: BatchSteps) -> None:
        del taken
        self.counts.unlabelled -= len(found.bad)  # their events are bad ones, too

    def check(self) -> None:
        """Drain, and raise `InvalidInput` if nothing could be learned, or too much is bad."""
        super().check()
        bad = self.counts.n_bad - self._labels_refused
        check_all_counted(
            self._records, self.fates.events + bad + self.counts.tombstones, "of events"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """As `Trainer.notes`, and a sentence where no event has been learned, or had no room."""
        fates, horizon = self.fates, self._horizon
        notes, named = super().notes, f"the horizon of {horizon.name}"
        if fates.overflow:
            told = f"{fates.overflow:,} events were dropped unlearned: {named} spans more than"
            notes = (*notes, f"{told} held_events={horizon.held_events:,}; raise that option")
        elif fates.events and not fates.joined:
            told = f"none of {fates.events:,} events is learned yet: no label has come at {named}"
            notes = (*notes, told)
        return notes
