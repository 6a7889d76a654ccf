"""Along the sequence: decode, predict and learn each event, emit, score.

A model predicts each event before it learns it, in the order of the sequence
(`Learner.predict_then_learn_many`). How many events are taken at once is speed and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from connectors.base import Sink, Source, group_of
from connectors.errors import BadRecord
from connectors.fields import RecordType
from streamk.encoding import BadEvent, Decoded, Decoder, LoneReader, Name, Schema, decoder
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.evaluation.marks import Marks
from streamk.engine.evaluation.metrics import Metrics
from streamk.engine.order.partitions import Batch
from streamk.engine.training.bad_events import (
    BadEvents,
    Counts,
    Fates,
    check_all_counted,
    complaint,
    tombstones_apart,
)
from streamk.engine.training.beside import AlarmWriter, RegionGiver, Scored
from streamk.engine.training.fields import EventFields, LabelCheck, NameCheck, warn
from streamk.engine.training.learning import (
    Predicted,
    Work,
    before,
    check_absent,
    cut,
    fitted,
    predict_then_learn,
    quantile_of,
    some_of,
    without,
)
from streamk.engine.training.options import Details, Fixed, Stream, Watch
from streamk.engine.training.outputs import (
    entries,
    prediction_type,
    predictions,
    revise,
)
from streamk.engine.training.scoring import Scoring, SliceReader
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.learners.common.base import Learner
from streamk.learners.common.classes import Label, beyond
from streamk.learners.common.prequential import Prequential, joined
from streamk.learners.explaining import Event
from streamk.state import State

__all__ = ["DelayedLabels", "Trainer"]

Bools = npt.NDArray[np.bool_]

WATCH, DETAILS = Watch(), Details()
_FEW = 64
"""Events up to which they are learned in the thread that takes them. Where there are so few at a
time nothing waits: another thread would take longer, and up to a third more of the processor."""

Found = TypeVar("Found")
"""The results of learning some events."""


class Trainer:
    """Decodes batches, has them predicted and learned, writes the predictions and scores them.

    While a large batch is learned, in a thread of its own, the next one is decoded and the one
    before it written out. `drain` waits for all of that. A trainer with `fixed` only predicts.
    """

    has_others = False
    """The model holds what other members of the group have learned."""
    revised: dict[str, int] | None = None
    """Of partitions the offset up to which predictions may replace others that were written.
    None where there is no group."""
    _threads: ThreadPoolExecutor | None = None
    _waiting: Callable[[], None] | None = None
    """Emits what is being learned, once it is."""
    _classes: set[Label] | None = None
    """Of all events taken; None where they are the model's."""
    _decoder: Decoder

    def __init__(
        self,
        model: Learner,
        source: Source,
        stream: Stream,
        *,
        sink: Sink | None = None,
        watch: Watch = WATCH,
        details: Details = DETAILS,
        fixed: Fixed | None = None,
    ) -> None:
        schema = stream.schema_for(model)
        check_absent(schema, model)
        self.learns, self._taken = fixed is None, 0
        self._adopt(model)
        self._source, self._sink, self._observer = source, sink, watch.observer
        self._wanted = details
        self._use_details(None if fixed is None else fixed.kept)
        self._scoring = Scoring(
            classification=model.is_classifier,
            window=watch.window,
            names=tuple(watch.metrics),
            quantile=quantile_of(model),
            regions=self._regions,
            slices=self._slice_reader(source, watch.slice),
            alarm_sink=watch.alarms,
        )
        self.counts = Counts(0, 0, 0, {})
        self.drifts, self.bad = Marks(), Marks()
        """After how many events of the sequence experts began anew, and unusable ones."""
        self._raises = stream.on_error == "raise"
        self._bad_events = BadEvents(stream.dead_letters, stream.max_bad_share, watch.observer)
        self.names = NameCheck(schema, watch.slice, learns=self.learns)
        self._labels = LabelCheck(schema.label)
        self._event_fields = EventFields(source)
        self._began, self._initial = False, schema
        self.use(schema)
        if model.columns is None and schema.columns:
            model.add_columns(schema.columns)

    def _slice_reader(self, source: Source, name: Name | None) -> SliceReader | None:
        """Return the reader of the column whose values have figures of their own, if there is one.

        Raises `InvalidInput` if there cannot be one.
        """
        return None if name is None else SliceReader(source, name)

    def _adopt(self, model: Learner) -> None:
        """Predict and learn by a model from here on."""
        self.model, self._classes = model, None
        self.in_rounds = model.events_at_once > 0
        """The model is in shards, which learn in rounds of so many events."""
        self._round = self._taken, model.events_left
        """Events taken when it was last looked how many are left of the round, and these."""
        self._ended: tuple[str, ...] = model.innermost.ended
        """A sentence for each expert of the model that is switched off."""
        self._n_ended = len(self._ended)
        """The number of those that this run does not have to tell any more."""

    def _use_details(self, kept: RegionGiver | None) -> None:
        """Prepare what goes with predictions; a model that learns no more has `kept` its regions.

        Raises `InvalidInput` if the model cannot give it.
        """
        self._regions: RegionGiver | None
        if self.learns:
            self._wanted.check(self.model)
            self._regions, details = self._wanted.regions(), Details(explain=self._wanted.explain)
        else:
            details, self._regions = self._wanted.served(self.model, kept)
        self._details = None if details == Details() else details

    @property
    def metrics(self) -> Metrics:
        """The figures of the run."""
        return self._scoring.metrics

    @property
    def alarms(self) -> AlarmWriter | None:
        """The alarms of the run; None where there is no sink for them."""
        return self._scoring.alarms

    @property
    def prediction_type(self) -> RecordType:
        """The fields of the predictions that it writes."""
        ahead = [name for name in self._wanted.names if name != "reasons"]
        return prediction_type(
            self._wanted.names,
            classification=self.model.is_classifier,
            revised=group_of(self._source) is not None,
            ahead=ahead if self.model.horizons else None,
        )

    @property
    def schema(self) -> Schema | None:
        """The columns and the label after the last batch; None before the first."""
        return self._decoder.schema if self._began else None

    @property
    def fates(self) -> Fates | None:
        """Counts of events and labels that come apart; None here."""
        return None

    @property
    def events_left(self) -> int:
        """Events that a model in shards learns next at best, to the end of its round."""
        (taken, left), most = self._round, self.model.events_at_once
        return (left - (self._taken - taken)) % most or most

    @property
    def drained(self) -> bool:
        """True if all events taken are learned, scored and written."""
        return self._waiting is None

    # --- events -----------------------------------------------------------------------------------

    def process(self, batch: Batch) -> None:
        """Decode the next events and have them learned; emit those before them.

        Raises
        ------
        EngineError
            If an event cannot be used and the policy is "raise", the model refuses some, or of the
            events emitted too many cannot be used.
        """
        table = self._decoder.table
        self._began, width_before = True, len(table.places)
        decoded, tombstones = self._decode(batch)
        schema = table.schema
        surplus = self._surplus(decoded, schema.label)
        refused = min([*decoded.bad, *surplus], default=None) if self._raises else None
        if refused is not None:
            decoded, surplus = before(decoded, refused.row), []
            tombstones = {row for row in tombstones if row < refused.row}
        work = Work(batch, decoded, tombstones, surplus, schema, width_before)
        self._hand_over(batch, partial(self._learn, work), partial(self._emit, work))
        if refused is not None:
            self.drain()
            raise EngineError(complaint(batch, refused))

    def _decode(self, batch: Batch) -> tuple[Decoded, Set[int]]:
        """Return the events, and the rows that are none but tell of a deletion."""
        try:
            decoded = self._decoder.decode(batch.values)
        except BadRecord as error:
            self.drain()
            raise EngineError(f"events {batch.span} cannot be read: {error}") from error
        if not decoded.bad:
            return decoded, set()
        bad, tombstones = tombstones_apart(decoded.bad, batch.values)
        return replace(decoded, bad=bad), tombstones

    def _surplus(self, decoded: Decoded, label: str | int | None) -> list[BadEvent]:
        """Take labels away that would make more classes than the model may have.

        Returns their events as bad ones. The columns of these come all the same, as the schema has
        them.
        """
        if not (self.model.is_classifier and self.learns):
            return []
        if self._classes is None:
            self._classes = set(self.model.classes)
        surplus, most = [], self.model.max_classes
        for place in beyond(self._classes, decoded.y, most):
            reason = (
                f"label out of domain: {decoded.y[place]!r} would be one class more than"
                f" max_classes={most}; raise that option, or learn a number"
            )
            surplus.append(BadEvent(int(decoded.good[place]), label, reason))
            decoded.y[place] = None
        return surplus

    def _hand_over(
        self, batch: Batch, learn: Callable[[], Found], emit: Callable[[Callable[[], Found]], None]
    ) -> None:
        """Have a batch learned, by the other thread if it is not small; emit the one before."""

        def learned() -> Found:
            try:
                found = learn()
            except InvalidInput as error:
                raise EngineError(f"the model refuses an event {batch.span}: {error}") from error
            if self.in_rounds:
                self._round = self._round[0] + n, self.model.events_left
            self._ended = self.model.innermost.ended
            return found

        n = len(batch.offsets)
        self._taken += n
        if n <= _FEW:
            if self._waiting is not None:
                self.drain()
            emit(learned)
            return
        self._threads = self._threads or ThreadPoolExecutor(1, "streamk-learner")
        learning = self._threads.submit(learned)
        earlier, self._waiting = self._waiting, partial(emit, learning.result)
        if earlier is not None:
            earlier()

    def drain(self) -> None:
        """Wait until all events taken are learned, scored and written.

        Raises
        ------
        EngineError
            As `process`.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()

    # --- learning ---------------------------------------------------------------------------------

    def _learn(self, work: Work) -> Predicted:
        """Predict, then learn, each event; an event's new columns come after its prediction."""
        model, decoded, schema, known = self.model, work.decoded, work.schema, work.width_before
        y = decoded.y if self.learns else [None] * len(decoded.y)
        X = decoded.X
        if not (model.takes_missing or np.isfinite(X).all()):
            X = np.nan_to_num(X)
        learned, start = model.n_events, 0
        explanation = None
        if self._observer is not None:  # the model is as it is when it predicts the first event
            explanation = self._observer.explain(
                model, schema, X, lambda: self._fields_of(work, slice(0, 1))[0]
            )
        pieces: list[Prequential] = []
        details: list[dict[str, Any]] = []
        for row, width in decoded.growth:
            part = slice(start, row + 1)
            some = cut(X[part], known)
            pieces += self._predict_then_learn(some, [*y[start:row], None], work, part, details)
            model.add_columns(schema.columns[known:width])
            known, start = width, row + 1
            if y[row] is not None:
                model.learn_many(cut(X[row:start], known), [y[row]])
        if start < len(X):
            part = slice(start, len(X))
            pieces += self._predict_then_learn(cut(X[part], known), y[part], work, part, details)
        drifts = [n - learned for n in model.drifts if n > learned]
        found, measured = joined(pieces, model), None
        if self._regions is not None:
            more, measured = self._regions.follow_events(
                found, model.classes, decoded.y, learns=self.learns
            )
            details = [a | b for a, b in zip(more, details or [{}] * len(more), strict=True)]
        if model.horizons:
            several = self._ahead(cut(X, known), found)
            details = [
                a | {"ahead": list(ahead)}
                for a, ahead in zip(details or [{}] * len(X), several, strict=True)
            ]
        return Predicted(found, model.classes, details, drifts, measured, explanation)

    def _ahead(self, X: Any, first: Prequential) -> Iterator[tuple[dict[str, Any], ...]]:
        """Return what is predicted of events X (n, d) for each of several horizons."""
        model, found, told = self.model, first, list[list[dict[str, Any]]]()
        regions = () if self._regions is None else (self._regions, *self._regions.others)
        classes = model.classes
        for name, learner in model.horizons.items():
            if told:
                found = predict_then_learn(learner, X, [None] * len(X), learns=False)
                classes = learner.classes
            more = regions[len(told)].give(found, classes)[0] if regions else [{}] * len(X)
            some = entries(found, classes)
            told.append([{"horizon": name, **a, **b} for a, b in zip(some, more, strict=True)])
        return zip(*told, strict=True)

    def _predict_then_learn(
        self, X: Any, y: list[Any], work: Work, part: slice, details: list[dict[str, Any]]
    ) -> list[Prequential]:
        """Predict, then learn, events of a part without new columns, and append their details."""
        model, wanted, pieces = self.model, self._details, list[Prequential]()
        if wanted is None:
            return [predict_then_learn(model, X, y, learns=self.learns)]
        events: list[Event] = [None] * len(X)
        if wanted.explain:
            events = self._fields_of(work, part)
        places = self._event_fields.places_of(model, work.schema)
        step = 1 if self.learns else len(X)  # each is explained by the model that predicts it
        for first in range(0, len(X), step):
            some = slice(first, first + step)
            details += wanted.of(model, places, X[some], events[some])
            pieces.append(predict_then_learn(model, X[some], y[some], learns=self.learns))
        return pieces

    def _fields_of(self, work: Work, part: slice) -> list[Event]:
        """Return the fields of events as they came."""
        raw = [work.batch.values[row] for row in work.decoded.good[part].tolist()]
        return self._event_fields.of(raw, work.schema)

    # --- what follows -----------------------------------------------------------------------------

    def _emit(self, work: Work, learned: Callable[[], Predicted]) -> None:
        """Write predictions and events that cannot be used, and count and score them."""
        found, batch, decoded = learned(), work.batch, work.decoded
        if work.surplus:
            decoded, found = without(decoded, work.surplus, found)
        there = np.array([label is not None for label in decoded.y], bool)
        n_there = len(decoded.y) - decoded.y.count(None)
        labelled, n = n_there if self.learns else 0, len(batch.offsets)
        first = self.counts.records + 1
        at = first + decoded.good[there]
        if found.drifts:
            self.drifts.add([at[n - 1] for n in found.drifts])
        if decoded.bad:
            self.bad.add([first + event.row for event in decoded.bad])
            self._bad_events.report(batch, decoded.bad, self.counts)
        self.counts.tombstones += len(work.tombstones)
        self.counts.learned += labelled
        self.counts.unlabelled += len(decoded.y) - labelled
        if not self._raises:  # else the run ends before what is not counted
            counted = len(decoded.y) + len(decoded.bad) + len(work.tombstones)
            check_all_counted(n, counted, batch)
        told = found.prequential, found.classes, found.details
        if self._sink is not None and len(decoded.good):
            outputs = predictions(batch, decoded.good, *told)
            if self.revised is not None:
                revise(outputs, self.revised)
            self._sink.write(outputs)
        self._score(batch, decoded, found, first, there)
        if found.explanation is not None:
            row, label = int(decoded.good[0]), decoded.y[0]
            self._observe(found.explanation, batch, row, 0, told, label)
        events: Sequence[int] = range(n)
        if work.tombstones:
            events = [row for row in events if row not in work.tombstones]
        self.names.after(len(events))
        self._look(decoded.y, decoded.bad)
        self._bad_events.check(events, {event.row for event in decoded.bad}, self.counts)

    def _score(
        self, batch: Batch, decoded: Decoded, found: Predicted, first: int, there: Bools
    ) -> None:
        """Score predictions of events whose labels are there, and watch them for alarms."""
        told, classes, measured = found.prequential, found.classes, found.measured
        self.counts.predicted += len(told.predictions) - told.predictions.tolist().count(None)
        truth, rows, answers = decoded.y, decoded.good[there], told
        if len(rows) < len(truth):
            truth, answers = [label for label in truth if label is not None], some_of(told, there)
        measured = None if measured is None else measured[there]
        scored = Scored(rows, answers, truth, measured)
        alarms = self._scoring.alarms
        if alarms is not None:
            alarms.watch(batch, first, classes, (decoded.good, told), scored, self._alone)
        if len(rows):
            slices = None
            if self._scoring.slice is not None:
                slices = self._scoring.slices_of(batch.values, rows.tolist())
            self._scoring.add(first + rows, classes, scored, slices)

    def _observe(
        self,
        explanation: Any,
        batch: Batch,
        row: int,
        place: int,
        told: tuple[Prequential, Sequence[Any], Sequence[dict[str, Any]]],
        label: Any = None,
        held: int | None = None,
    ) -> None:
        """Show the prediction of a row of a batch, which has this place among those `told`."""
        assert self._observer is not None
        (found, classes, details), some = told, slice(place, place + 1)
        one, at = some_of(found, some), np.array([row])
        (output,) = predictions(batch, at, one, classes, details[some])
        name = self._scoring.slice_name(batch.values[row])
        self._observer.show(explanation, output, label, name, held)

    def _look(self, labels: Sequence[Any], bad: Sequence[BadEvent]) -> None:
        """Warn, when it is time, of first labels that are not classes and of experts that rest."""
        if self.learns and self.model.is_classifier:
            refused = [event.kind for event in bad].count("label out of domain") if bad else 0
            if self._labels.add(labels, refused):
                warn(self._labels.sentences())
        if len(self._ended) > self._n_ended:
            self._n_ended = len(self._ended)
            warn(self._ended)

    # --- the end ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Drain, and raise `InvalidInput` if nothing could be learned, or too much is bad."""
        self.drain()
        counts, bad = self.counts, self.counts.n_bad
        self._bad_events.check_share(bad, counts.events, counts)
        refused = counts.bad.get("label out of domain", 0)
        if self.has_others:  # what one member has seen alone says little
            return
        if not counts.learned and (refused or (bad and not counts.unlabelled)):
            raise InvalidInput(
                f"none of the {bad + counts.unlabelled} events can be learned from, the first"
                f" because: {self._bad_events.why}; check the label, the task and the format"
            )
        if not counts.learned and self.names.lacks_label:
            raise InvalidInput("; ".join(self.names.sentences()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about names that have not come, labels that are not classes, and times."""
        return (*self.names.sentences(), *self._labels.sentences(), *self.model.predicting.notes)

    def tell(self) -> None:
        """Warn by what `notes` has."""
        warn(self.notes)

    def close(self) -> None:
        """Release the thread."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)

    # --- other columns and models -----------------------------------------------------------------

    def use(self, schema: Schema) -> None:
        """Read events by this schema from now on."""
        self._read_by(fitted(schema, self.model))

    def _read_by(self, schema: Schema) -> None:
        """Make the decoder for a schema that fits the model."""
        self.names.use(schema)
        source = self._source
        self._decoder = decoder(
            source.encoding,
            schema,
            fields=source.fields,
            delimiter=source.delimiter,
            expected=self.names.expected,
            record_format=source.record_format,
        )
        self._alone = LoneReader(source, schema)

    def renew(self, model: Learner, schema: Schema, kept: RegionGiver | None) -> None:
        """Predict by another model, which has its own columns and regions, from here on."""
        self.drain()
        self._adopt(model)
        self._use_details(kept)
        self.use(schema)

    def absorb(self, other: Learner, schema: Schema, common_events: int) -> None:
        """Merge a model that read its events by `schema` into this one.

        Raises `InvalidInput` or `BadRecord` if the two do not fit together; nothing is merged then.
        """
        mine = self._decoder.schema
        known = self.model.columns or ()
        new = [column for column in other.columns or () if column not in known]
        if self.model.columns is None:
            joined = replace(schema, columns=(*known, *new))
        else:
            joined = mine.extended(new, {**schema.kinds, **mine.kinds})
        self.model.merge(other, common_events=common_events)
        self._classes = None
        self.use(joined)
        self._began = self.has_others = True

    # --- state ------------------------------------------------------------------------------------

    def hold_in(self, files: SegmentFiles) -> None:
        """Have what waits and does not fit into memory in files of a store: nothing here."""

    def held_state(self) -> State | None:
        """Return what is held of events until their labels come: nothing here."""
        return None

    def restore_held(self, held: State | None) -> None:
        """Go on with what `held_state` gave, after `restore`: nothing here.

        Raises `StateError` if it does not fit.
        """
        if held is not None:
            raise StateError(
                "the checkpoint holds events that wait for labels, but this run has no late labels"
            )

    def to_json(self) -> dict[str, Any]:
        """Everything but the model, as JSON data, once it is drained."""
        return {
            "schema": None if self.schema is None else self.schema.to_json(),
            "counts": vars(self.counts) | {"bad": dict(self.counts.bad)},
            **self._scoring.to_json(),
            "regions": None if self._regions is None else self._regions.to_json(),
            "drifts": self.drifts.to_json(),
            "bad": self.bad.to_json(),
        }

    def restore(self, data: Mapping[str, Any], model: Learner) -> None:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own.

        A trainer that only predicts keeps its own model.
        """
        if self._threads is not None:  # it may be learning what is to be taken again
            self._threads.submit(lambda: None).result()
        try:
            self.counts = Counts(**data["counts"])
            self._scoring.restore(data)
            self.drifts = Marks.from_json(data["drifts"])
            self.bad = Marks.from_json(data["bad"])
        except (KeyError, TypeError) as error:
            raise StateError(f"the checkpoint does not fit this stream: {error}") from error
        self._waiting = None
        self.names.was_met = self.counts.learned > 0
        if self.learns:
            self.use_model(data, model)

    def use_model(self, data: Mapping[str, Any], model: Learner) -> None:
        """Go on with a model and the columns of its `to_json`, but not with what was counted.

        Raises `StateError` if the data does not fit.
        """
        try:
            self._adopt(model)
            schema = data["schema"]
            self._began = schema is not None
            if self._regions is not None and data["regions"] is not None:
                level = self._regions.level
                self._regions = type(self._regions).from_json(data["regions"], level)
            self.use(self._initial if schema is None else Schema.from_json(schema))
        except (KeyError, TypeError, BadRecord, InvalidInput) as error:
            raise StateError(f"the checkpoint does not fit this stream: {error}") from error


class DelayedLabels(Protocol):
    """Labels that are not in the events, as `streamk.late.LateLabels` has them."""

    def joined(
        self, events: Source, label: str | int | None, model: Learner, *, learn: bool
    ) -> Source:
        """Return events and labels as one source; raise `InvalidInput` where that cannot be."""

    def trainer(self, model: Learner, source: Source, stream: Stream, **options: Any) -> Trainer:
        """Return the trainer for that source, whose `options` are as of `Trainer`."""

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint and the run that goes on from it must agree in."""
