"""The label of a later event, so many events or so much time ahead, predicted now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from connectors.base import Output, Source
from streamk.encoding import Name, Schema
from streamk.engine.training.bad_events import check_all_counted
from streamk.engine.training.beside import RegionGiver
from streamk.engine.training.learning import check_task
from streamk.engine.training.options import Stream
from streamk.engine.training.scoring import SliceReader
from streamk.engine.training.trainer import Trainer
from streamk.errors import InvalidInput, StateError
from streamk.late.ahead import Ahead, Lead
from streamk.late.held import HeldEvents
from streamk.late.holding import HoldingTrainer, unlabelled
from streamk.late.several import Horizons
from streamk.late.source import JoinedSource, SeriesReader, Taken, check_source
from streamk.late.steps import BatchSteps
from streamk.learners.common.base import Learner
from streamk.memory.entities import span_name
from streamk.options import Whole

_MILLISECOND = timedelta(milliseconds=1)
Step = int | timedelta
"""A horizon: so many events, or so much time."""


@dataclass(frozen=True)
class Horizon:
    """The target is the label of a later event: predicted now, learned when that event comes.

    An event has its own label as a column, since it is known by then, and before the event is
    predicted the earlier one is learned whose target that label is. Of several horizons each has a
    learner and a prediction of its own.

    Parameters
    ----------
    ahead : int or timedelta, or sequence of these
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
    >>> Horizon(24).names, Horizon([timedelta(hours=6), timedelta(days=1)]).names
    (('24',), ('6h', '1d'))
    """

    ahead: Step | Sequence[Step]
    series: Name | None = None
    time: Name | None = None
    held_events: int = 1_000_000

    @property
    def leads(self) -> tuple[Lead, ...]:
        """The horizons, one or several."""
        return tuple(
            Lead(one // _MILLISECOND, timed=True)
            if isinstance(one, timedelta)
            else Lead(one, timed=False)
            for one in self._ahead
        )

    @property
    def _ahead(self) -> tuple[Any, ...]:
        return tuple(self.ahead) if isinstance(self.ahead, list | tuple) else (self.ahead,)

    @property
    def timed(self) -> bool:
        """True if one is of time."""
        return any(lead.timed for lead in self.leads)

    @property
    def names(self) -> tuple[str, ...]:
        """The texts that the command has for them."""
        return tuple(
            span_name(lead.size / 1000) if lead.timed else str(lead.size) for lead in self.leads
        )

    def joined(
        self, events: Source, label: Name | None, model: Learner, *, learn: bool
    ) -> JoinedSource:
        """Return the events as a source with their times.

        Raises `InvalidInput` where a job cannot have a horizon.
        """
        self._check(label)
        check_source(events, "events", "horizons")
        if self.timed and self.time is None and not events.has_times:
            raise InvalidInput(
                "the horizon is a time span, but the events have no time; name their time field "
                "by time= (--time), or give the horizon as a number of events"
            )
        if not learn:
            raise InvalidInput("a horizon is for a job that learns")
        if model.models or model.events_at_once:
            raise InvalidInput(
                "a horizon cannot be combined with challengers, shards or workers; leave it out, "
                "or run the model alone"
            )
        return JoinedSource(events, None, time=self.time)

    def _check(self, label: Name | None) -> None:
        """Raise `InvalidInput` if an option is wrong."""
        Whole(least=1).check("held_events", self.held_events)
        for one in self._ahead:
            is_whole = isinstance(one, int) and not isinstance(one, bool) and one > 0
            if not is_whole and not (isinstance(one, timedelta) and one >= _MILLISECOND):
                raise InvalidInput(f"a horizon of {one} must be a whole number of events or a time")
        if not self.leads or len(set(self.names)) < len(self.names):
            told = ", ".join(self.names)
            raise InvalidInput(f"give one or more horizons, each once, not: {told}")
        if label is None:
            raise InvalidInput("a horizon needs label=, the field that is to be predicted")
        if self.series == label:
            raise InvalidInput(f"the field of the series is the label, {label!r}; name another one")
        if self.time is not None and not self.timed:
            raise InvalidInput(
                f"time={self.time!r} is for a horizon of time, such as 24h; leave it out"
            )

    def trainer(self, model: Learner, source: Source, stream: Stream, **options: Any) -> Trainer:
        """Return the trainer of a job with this horizon; `options` as for `Trainer`.

        Raises `InvalidInput` if they do not go together.
        """
        if len(self.leads) > 1:
            model = Horizons(model, self.names)
        return HorizonTrainer(model, source, stream, horizon=self, **options)

    def to_json(self) -> dict[str, Any]:
        """Return the options that must be the same in a checkpoint and in a resumed run.

        The horizon itself is that of a model, too, with which another job begins.
        """
        return {
            "horizon": ",".join(self.names),
            "series": self.series,
            "time": self.time,
            "held_events": self.held_events,
        }


class _ByHorizon(SliceReader):
    """Horizons, used like the values of a column."""

    def __init__(self, names: Sequence[str]) -> None:
        self.name, self._first = "horizon", names[0]

    def of(self, values: Sequence[Any]) -> list[Any]:
        """Return the first horizon for each of raw events."""
        return [self._first] * len(values)


class HorizonTrainer(HoldingTrainer):
    """A trainer that learns events with the labels of later events."""

    TYPE = "horizon"
    _held: Ahead

    def __init__(
        self, model: Learner, source: Source, stream: Stream, *, horizon: Horizon, **options: Any
    ) -> None:
        self._horizon, self._horizons = horizon, len(horizon.leads)
        check_task(stream.schema_for(model), model)
        super().__init__(model, source, stream, **options)

    def _reader_of(self, source: Source, schema: Schema) -> SeriesReader:
        return SeriesReader(source, self._horizon.series, schema, self._horizon.time)

    def _slice_reader(self, source: Source, name: Name | None) -> SliceReader | None:
        if self._horizons == 1:
            return super()._slice_reader(source, name)
        if name is not None:
            raise InvalidInput(
                f"slice={name!r} cannot be combined with several horizons, each of which has its "
                "own figures"
            )
        return _ByHorizon(self._horizon.names)

    def _use_details(self, kept: RegionGiver | None) -> None:
        super()._use_details(kept)
        if self._regions is not None:
            made = [self._wanted.regions() for _ in range(self._horizons - 1)]
            self._regions.others = tuple(one for one in made if one is not None)

    def _begin(self) -> None:
        if self._regions is not None and len(self._regions.others) != self._horizons - 1:
            raise StateError("the regions in the checkpoint are not those of its horizons")
        super()._begin()
        slices = self.metrics.slices
        if slices is not None and self._horizons > 1:
            slices.codes(self._horizon.names)

    def _together(self, outputs: list[Output]) -> list[Output]:
        names = self._horizon.names
        if len(names) == 1:
            return outputs
        told = []
        for first in range(0, len(outputs), len(names)):
            some = outputs[first : first + len(names)]
            ahead = [
                {"horizon": name, **{key: one.value[key] for key in one.value if key != "reasons"}}
                for name, one in zip(names, some, strict=True)
            ]
            told.append(some[0]._replace(value={**some[0].value, "ahead": ahead}))
        return told

    def _queue(self, held: HeldEvents) -> Ahead:
        horizon = self._horizon
        return Ahead(horizon.leads, most=horizon.held_events, held=held)

    def use(self, schema: Schema) -> None:
        """Read events by this schema from now on; the label is a field like others."""
        ignore, label = schema.ignore, schema.label
        if schema.columns and label is not None and label not in schema.columns:
            ignore = (*ignore, label)  # they were chosen without it
        self._job_schema = replace(unlabelled(schema), ignore=ignore)
        super().use(self._job_schema)

    def _follow(self, taken: Taken) -> BatchSteps:
        batch, held = BatchSteps(self._work, taken), self._held
        learners = self.model.horizons.values() or (self.model,)
        is_new = [not (one.is_classifier or one.n_events) for one in learners]
        events = zip(taken.keys, taken.batch.timestamps.tolist(), taken.labels, strict=True)
        for row, (key, time, label) in enumerate(events):
            if key is None:
                continue
            for slot, before, k in held.due(key, time, label):
                batch.learn(row, slot, label, before=before)
                is_new[k] = False
            for k, slot in enumerate(held.hold(key, time, label)):
                # A number that nothing is known of is the present one.
                batch.predict(row, slot, label if is_new[k] else None)
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
            self._records,
            self.fates.events // self._horizons + bad + self.counts.tombstones,
            "of events",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """As `Trainer.notes`, and a sentence where no event has been learned, or had no room."""
        fates, horizon = self.fates, self._horizon
        notes, named = super().notes, f"the horizon of {', '.join(horizon.names)}"
        if fates.overflow:
            told = (
                f"{fates.overflow:,} events were dropped before they were learned: {named} spans "
                "more than"
            )
            notes = (*notes, f"{told} held_events={horizon.held_events:,}; raise that option")
        elif fates.events and not fates.joined:
            n, gaps = fates.events // self._horizons, ""
            if fates.missing:
                gaps = ", or after more than twice that time"
            told = f"none of {n:,} events is learned yet: no label has come at {named}{gaps}"
            notes = (*notes, told)
        return notes
