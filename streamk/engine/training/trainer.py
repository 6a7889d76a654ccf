"""Along the sequence: decode, predict and learn each event, emit, score.

A model predicts each event before it learns it, in the order of the sequence
(`Learner.predict_then_learn_many`). How many events are taken at once is speed and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
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
    check_sum,
    complaint,
    tombstones_apart,
)
from streamk.engine.training.beside import AlarmWriter, RegionGiver, Scored
from streamk.engine.training.fields import EventFields, LabelCheck, NameCheck
from streamk.engine.training.learning import (
    Predicted,
    before,
    check_absent,
    cut,
    fitted,
    predict_then_learn,
    refusals,
    surplus_of,
    without,
)
from streamk.engine.training.options import Details, Fixed, Stream, Watch
from streamk.engine.training.outputs import (
    Scoring,
    SliceReader,
    prediction_type,
    predictions,
    revise,
)
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.learners.common.base import Learner
from streamk.learners.common.classes import Label
from streamk.learners.common.prequential import Prequential, joined
from streamk.learners.explaining import Event
from streamk.state import State

__all__ = ["DelayedLabels", "Trainer"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WATCH, DETAILS = Watch(), Details()
_FEW = 64
"""Events up to which they are learned in the thread that takes them. Where there are so few at a
time nothing waits: another thread would take longer, and up to a third more of the processor."""

Found = TypeVar("Found")
"""The results of learning some events."""

_log = logging.getLogger("streamk.engine")


class Trainer:
    """A model on its way along the sequence.

    While a large batch is learned, in a thread of its own, the next one is decoded and the one
    before it written out. `settle` waits for all of that.
    """

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
        self.model = model
        self.learns = fixed is None
        self.counts = Counts(0, 0, 0, {})
        self._wanted, self._observer = details, watch.observer
        self._use_details(None if fixed is None else fixed.kept)
        slices = None if watch.slice is None else SliceReader(source, watch.slice)
        self._scoring = Scoring(
            classification=model.is_classifier,
            window=watch.window,
            names=tuple(watch.metrics),
            regions=self._regions,
            slices=slices,
            alarm_sink=watch.alarms,
        )
        self.drifts, self.bad = Marks(), Marks()
        """After how many events of the sequence experts began anew, and those of no use."""
        self._source, self._sink = source, sink
        self._raises = stream.on_error == "raise"
        self._bad_events = BadEvents(stream.dead_letters, stream.max_bad_share, watch.observer)
        self._event_fields = EventFields(source)
        self._began = False
        self.has_others = False
        """The model holds what other members of the group have learned."""
        self.revised: dict[str, int] | None = None
        """Of partitions the offset up to which predictions may replace others that were written.
        None where there is no group."""
        self._waiting: Callable[[], None] | None = None
        """Emits what is being learned, once it is."""
        self._classes: set[Label] | None = None
        """Of all events taken; None where they are the model's."""
        self._threads: ThreadPoolExecutor | None = None
        self._decoder: Decoder
        self._taken, self._learned = 0, (0, model.events_left)
        self._initial = schema
        self.names = NameCheck(schema, watch.slice, learns=self.learns)
        self._labels = LabelCheck(schema.label)
        self._ended = _ended(model)
        """Of the model's experts those that rest for good, a sentence each."""
        self._n_ended = len(self._ended)
        """The number of those that this run does not have to tell any more."""
        self.use(schema)
        if model.columns is None and schema.columns:
            model.add_columns(schema.columns)

    def _use_details(self, kept: RegionGiver | None) -> None:
        """Prepare what goes with predictions; a model that learns no more has `kept` its regions.

        Raises `InvalidInput` if the model cannot give it.
        """
        self._wanted.check(self.model)
        self._regions: RegionGiver | None
        if self.learns:
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
        return prediction_type(
            self._wanted.names,
            classification=self.model.is_classifier,
            revised=group_of(self._source) is not None,
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
        """Events that a model in shards learns next at best, to the end of its round; else 0."""
        most = self.model.events_at_once
        if not most:
            return 0
        learned, left = self._learned
        return (left - (self._taken - learned)) % most or most

    @property
    def settled(self) -> bool:
        """True if all that was taken is learned, scored and written."""
        return self._waiting is None

    # --- events -----------------------------------------------------------------------------------

    def take(self, batch: Batch) -> None:
        """Decode the next events and have them learned; emit those before them.

        Raises
        ------
        EngineError
            If an event cannot be used and the policy is "raise", the model refuses some, or of the
            events emitted too many cannot be used.
        """
        self._began = True
        n, known = len(batch), len(self._decoder.schema.columns)
        decoded, tombstones = self._decode(batch)
        refused = decoded.bad[0] if decoded.bad and self._raises else None
        if refused is not None:
            decoded = before(decoded, refused.row)
        schema = self._decoder.schema
        surplus = self._surplus(decoded, schema.label)
        if surplus and self._raises:
            refused = surplus[0]
            decoded, surplus = before(decoded, refused.row), []
        if refused is not None:
            tombstones = {row for row in tombstones if row < refused.row}
        for event in surplus:  # its columns come all the same, as the schema has them
            decoded.y[int(np.searchsorted(decoded.good, event.row))] = None
        learn = partial(self._learn, decoded, schema, known, batch)
        self._taken += n
        emit = partial(self._emit, batch, decoded, tombstones, surplus)
        self._hand_over(n, learn, emit)
        if refused is not None:
            self.settle()
            raise EngineError(complaint(batch, refused))

    def _hand_over(
        self, n: int, learn: Callable[[], Found], emit: Callable[[Callable[[], Found]], None]
    ) -> None:
        """Have n events learned, in the other thread if they are not few; emit those before."""
        if n <= _FEW:
            self.settle()
            emit(learn)
            return
        self._threads = self._threads or ThreadPoolExecutor(1, "streamk-learner")
        learning = self._threads.submit(learn)
        earlier, self._waiting = self._waiting, partial(emit, learning.result)
        if earlier is not None:
            earlier()

    def _decode(self, batch: Batch) -> tuple[Decoded, Set[int]]:
        """Return the events, and the rows that are none but tell of a deletion."""
        try:
            decoded = self._decoder.decode(batch.values)
        except BadRecord as error:
            self.settle()
            raise EngineError(f"events {batch.span} cannot be read: {error}") from error
        bad, tombstones = tombstones_apart(decoded.bad, batch.values)
        return replace(decoded, bad=bad) if tombstones else decoded, tombstones

    def _surplus(self, decoded: Decoded, label: Name | None) -> list[BadEvent]:
        """Return the events whose labels would make more classes than the model may have."""
        model = self.model
        if not (model.is_classifier and self.learns):
            return []
        if self._classes is None:
            self._classes = set(model.classes)
        return surplus_of(decoded, self._classes, model.max_classes, label)

    def settle(self) -> None:
        """Wait until all events taken are learned, scored and written.

        Raises
        ------
        EngineError
            As `take`.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()

    def check(self) -> None:
        """Settle, and raise `InvalidInput` if nothing could be learned, or too much is bad."""
        self.settle()
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
        """Sentences about names that have not come, and labels that are no classes."""
        return (*self.names.sentences(), *self._labels.sentences())

    def tell(self) -> None:
        """Warn by what `notes` has."""
        _warn(self.notes)

    def _look(self, labels: Sequence[Any], bad: Sequence[BadEvent]) -> None:
        """Warn, when it is time, of first labels that are no classes and of experts that rest."""
        if self.learns and self.model.is_classifier:
            refused = [event.kind for event in bad].count("label out of domain") if bad else 0
            if self._labels.take(labels, refused):
                _warn(self._labels.sentences())
        if len(self._ended) > self._n_ended:
            self._n_ended = len(self._ended)
            _warn(self._ended)

    def close(self) -> None:
        """Release the thread."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)

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

    # --- learning ---------------------------------------------------------------------------------

    def _learn(self, decoded: Decoded, schema: Schema, known: int, batch: Batch) -> Predicted:
        """Predict, then learn, each event; an event's new columns come after its prediction."""
        model = self.model
        y = decoded.y if self.learns else [None] * len(decoded.y)
        learned = model.n_events
        X = decoded.X if model.takes_missing else np.nan_to_num(decoded.X)
        explanation = None
        if self._observer is not None:  # the model is as it is when it predicts the first event
            first = [batch.values[row] for row in decoded.good[:1].tolist()]
            explanation = self._observer.explain(
                model, schema, X, lambda: self._event_fields.of(first, schema)[0]
            )
        events: list[Event] = [None] * len(X)
        if self._wanted.explain:
            raw = [batch.values[row] for row in decoded.good.tolist()]
            events = self._event_fields.of(raw, schema)
        pieces: list[Prequential] = []
        details: list[dict[str, Any]] = []

        def go_on(part: slice, labels: list[Any]) -> None:
            some = cut(X[part], known)
            pieces.extend(self._rest(some, labels, schema, events[part], details))

        start = 0
        with refusals(batch):
            for row, width in decoded.growth:
                if row > start:
                    go_on(slice(start, row), y[start:row])
                go_on(slice(row, row + 1), [None])
                model.add_columns(schema.columns[known:width])
                known, start = width, row + 1
                if y[row] is not None:
                    model.learn_many(cut(X[row : row + 1], known), [y[row]])
            if start < len(X):
                go_on(slice(start, len(X)), y[start:])
        drifts = [n - learned for n in model.drifts if n > learned]
        self._note_learned(len(batch))
        found, measured = joined(pieces, model), None
        if self._regions is not None:
            more, measured = self._regions.follow_events(
                found, model.classes, decoded.y, learns=self.learns
            )
            details = [a | b for a, b in zip(more, details or [{}] * len(more), strict=True)]
        return Predicted(found, model.classes, details, drifts, measured, explanation)

    def _note_learned(self, n: int) -> None:
        """Note that n of the events taken are learned, and what the model is like then."""
        self._learned = self._learned[0] + n, self.model.events_left
        self._ended = _ended(self.model)

    def _rest(
        self,
        X: Any,
        y: list[Any],
        schema: Schema,
        events: list[Event],
        details: list[dict[str, Any]],
    ) -> list[Prequential]:
        """Predict, then learn, events without new columns, and append their details."""
        model, wanted = self.model, self._details
        if wanted is None:
            return [predict_then_learn(model, X, y, learns=self.learns)]
        pieces = []
        places = self._event_fields.places_of(model, schema)
        step = 1 if self.learns else len(X)  # each is explained by the model that predicts it
        for first in range(0, len(X), step):
            some = slice(first, first + step)
            details += wanted.of(model, places, X[some], events[some])
            pieces.append(predict_then_learn(model, X[some], y[some], learns=self.learns))
        return pieces

    # --- what follows -----------------------------------------------------------------------------

    def _emit(
        self,
        batch: Batch,
        decoded: Decoded,
        tombstones: Set[int],
        surplus: list[BadEvent],
        learned: Callable[[], Predicted],
    ) -> None:
        """Write predictions and events that cannot be used, and count and score them."""
        found = learned()
        if surplus:
            decoded, found = without(decoded, surplus, found)
        predicted, classes, details, drifts, measured, explanation = found
        there = np.array([label is not None for label in decoded.y], bool)
        labelled = int(there.sum()) if self.learns else 0
        first = self.counts.records + 1
        at = first + decoded.good[there]
        if drifts:
            self.drifts.add([at[n - 1] for n in drifts])
        bad_rows = set()
        if decoded.bad:
            bad_rows = {event.row for event in decoded.bad}
            self.bad.add([first + event.row for event in decoded.bad])
            self._bad_events.report(batch, decoded.bad, self.counts)
        self.counts.tombstones += len(tombstones)
        self.counts.learned += labelled
        self.counts.unlabelled += len(decoded.y) - labelled
        if not self._raises:  # else the run ends before what is not counted
            check_sum(len(batch), self.counts.records + 1 - first, batch)
        if self._sink is not None and len(decoded.good):
            outputs = predictions(batch, decoded.good, predicted, classes, details)
            if self.revised is not None:
                revise(outputs, self.revised)
            self._sink.write(outputs)
        if measured is not None:
            measured = measured[there]
        self._score(first, batch, predicted, classes, decoded, there, measured)
        if explanation is not None:
            row = int(decoded.good[0])
            self._observe(explanation, batch, row, predicted, classes, details, decoded.y[0])
        events: Sequence[int] = range(len(batch))
        if tombstones:
            events = [row for row in events if row not in tombstones]
        self.names.after(len(events))
        self._look(decoded.y, decoded.bad)
        self._bad_events.check(events, bad_rows, self.counts)

    def _score(
        self,
        first: int,
        batch: Batch,
        predicted: Prequential,
        classes: tuple[Any, ...],
        decoded: Decoded,
        there: Bools,
        measured: Floats | None,
    ) -> None:
        """Score predictions of events whose labels are there, and watch them for alarms."""
        answers, P = predicted
        self.counts.predicted += len(answers) - answers.tolist().count(None)
        truth, rows = decoded.y, decoded.good[there]
        if len(rows) < len(truth):
            truth = [label for label in truth if label is not None]
            answers, P = answers[there], None if P is None else P[there]
        scored = Scored(rows, Prequential(answers, P), truth, measured)
        if self.alarms is not None:
            told = decoded.good, predicted
            self.alarms.take(batch, first, classes, told, scored, self._alone)
        if len(rows):
            slices = self._scoring.slices_of([batch.values[row] for row in rows.tolist()])
            self._scoring.add(first + rows, classes, scored, slices)

    def _observe(
        self,
        explanation: Any,
        batch: Batch,
        row: int,
        predicted: Prequential,
        classes: tuple[Any, ...],
        details: Sequence[dict[str, Any]],
        label: Any = None,
        held: int | None = None,
    ) -> None:
        """Show the prediction of a row of a batch: the first of `predicted`, with its details."""
        assert self._observer is not None
        P = predicted.probabilities
        one = Prequential(predicted.predictions[:1], None if P is None else P[:1])
        (output,) = predictions(batch, np.array([row]), one, classes, details[:1])
        name = self._scoring.slice_name(batch.values[row])
        self._observer.show(explanation, output, label, name, held)

    def renew(self, model: Learner, schema: Schema, kept: RegionGiver | None) -> None:
        """Predict by another model, which has its own columns and regions, from here on."""
        self.settle()
        self.model, self._n_ended = model, len(_ended(model))
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
            raise StateError("the checkpoint holds events that wait for labels, this run none")

    def to_json(self) -> dict[str, Any]:
        """Everything but the model, as JSON data; all events taken are settled before."""
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
            self.start_from(data, model)

    def start_from(self, data: Mapping[str, Any], model: Learner) -> None:
        """Go on with a model and the columns of its `to_json`, but not with what was counted.

        Raises `StateError` if the data does not fit.
        """
        try:
            self.model, schema, self._classes = model, data["schema"], None
            self._learned = self._taken, model.events_left
            self._n_ended = len(_ended(model))
            self._began = schema is not None
            if self._regions is not None and data["regions"] is not None:
                level = self._regions.level
                self._regions = type(self._regions).from_json(data["regions"], level)
            self.use(self._initial if schema is None else Schema.from_json(schema))
        except (KeyError, TypeError, BadRecord, InvalidInput) as error:
            raise StateError(f"the checkpoint does not fit this stream: {error}") from error


def _ended(model: Learner) -> tuple[str, ...]:
    """Return a sentence for each expert of a model that rests for good."""
    found: tuple[str, ...] = model.innermost.ended
    return found


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        _log.warning("%s", sentence)


class DelayedLabels(Protocol):
    """Labels that are not in the events, as `streamk.late.LateLabels` has them."""

    def joined(
        self, events: Source, label: str | int | None, model: Learner, *, learn: bool
    ) -> Source:
        """Return events and labels as one source; raise `InvalidInput` where that cannot be."""
        ...

    def trainer(self, model: Learner, source: Source, stream: Stream, **options: Any) -> Trainer:
        """Return the trainer for that source, whose `options` are as of `Trainer`."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint and the run that goes on from it must agree in."""
        ...
