"""Events that are held until their labels come: predict and hold, learn and score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from connectors.base import Output, Source
from connectors.errors import BadRecord
from streamk.declared import count
from streamk.encoding import SAID, BadEvent, Schema
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.order.partitions import Batch
from streamk.engine.training.bad_events import Fates, complaint
from streamk.engine.training.beside import Scored
from streamk.engine.training.learning import some_of
from streamk.engine.training.options import Stream
from streamk.engine.training.outputs import predictions
from streamk.engine.training.trainer import Trainer
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.late.held import HeldEvents, HeldRecords, check_held, packed, unpacked
from streamk.late.source import RecordReader, Taken
from streamk.late.steps import BatchSteps, HoldingModel
from streamk.learners.common.base import Learner
from streamk.state import State

_OWNER = "held events"
_SAID = "said_"
"""Beginning of the names of arrays that are the learner's, see `Learner.holds_predictions`."""


class Waiting(Protocol):
    """Knows which held event a label is of, as `streamk.late.join.Join` does."""

    @property
    def slots(self) -> list[int]:
        """The slots of the events in memory, in the order in which they are saved."""

    def count(self) -> Fates:
        """Return the fates of events and labels."""

    def to_json(self) -> dict[str, Any]:
        """Return the counts, "fates", and everything else but arrays, as JSON data."""

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of the waiting events."""

    def restore(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        check: Callable[[HeldRecords], None],
    ) -> int:
        """Go on where the two were called; return the number of events in memory."""


class HoldingTrainer(Trainer):
    """A trainer that holds events until their labels come.

    The stream has a label; all else is as of `Trainer`.
    """

    TYPE: ClassVar[str]
    """That of the state of what is held."""
    COUNTS: ClassVar[tuple[str, ...]] = ("records", "labels_refused")
    _reader: RecordReader
    _held: Waiting
    _work: HoldingModel
    _horizons: int = 1
    """Times that each event is held, under consecutive numbers."""

    def __init__(self, model: Learner, source: Source, stream: Stream, **options: Any) -> None:
        self._job_schema = schema = stream.schema_for(model)
        try:
            self._reader = self._reader_of(source, schema)
        except BadRecord as error:
            raise InvalidInput(f"the labels cannot be read: {error}") from error
        self._records = self._labels_refused = 0
        """Records taken from the sequence and emitted, and labels that would be a class too many.
        """
        self._files = SegmentFiles()
        super().__init__(model, source, stream, **options)
        self._begin()

    @abstractmethod
    def _reader_of(self, source: Source, schema: Schema) -> RecordReader:
        """Return the reader of the job's records. Raises `BadRecord` if they cannot be read."""

    @abstractmethod
    def _queue(self, held: HeldEvents) -> Waiting:
        """Return what is to know of the events that are `held`, of which there are none yet."""

    @abstractmethod
    def _follow(self, taken: Taken) -> BatchSteps:
        """Predict, hold and learn what a batch brings."""

    def _begin(self) -> None:
        """Hold nothing."""
        blank = np.nan if self._job_schema.absent == "missing" else 0.0
        held = HeldEvents(blank if self.model.takes_missing else 0.0)
        self._held = self._queue(held)
        self._work = HoldingModel(
            self.model,
            held,
            self._reader.label,
            self._details,
            () if self._regions is None else (self._regions, *self._regions.others),
            self._observer,
            self._event_fields,
            self._horizons,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """As `Trainer.notes`, and a sentence where what experts said of events had no room."""
        n, notes = self.fates.forgotten, super().notes
        if not n:
            return notes
        told = f"predictions of the experts for {n:,} events were dropped before the label came,"
        return (
            *notes,
            (
                f"{told} so weights did not learn from them; raise pending_bytes (--set "
                "pending_bytes=N)"
            ),
        )

    def hold_in(self, files: SegmentFiles) -> None:
        """Have events that do not fit into memory in files of a store, before any is held."""
        self._files = files
        self._begin()

    def close(self) -> None:
        """As `Trainer.close`; temporary files are removed."""
        super().close()
        self._files.close()

    @property
    def fates(self) -> Fates:
        """The counts of the fates of events and labels."""
        return self._held.count()

    @property
    def schema(self) -> Schema | None:
        """The columns that the model has and the label; None before the first batch."""
        if not self._began:
            return None
        found = self._decoder.schema
        columns = found.columns[: len(self.model.columns or ())]
        owners = {found.owner(column) for column in columns}
        owners.update(name for name, kind in found.kinds.items() if kind in SAID)
        kinds = {name: kind for name, kind in found.kinds.items() if name in owners}
        job = self._job_schema
        return replace(job, columns=columns, kinds=kinds, mode=found.mode)

    # --- events and labels ------------------------------------------------------------------------

    def process(self, batch: Batch) -> None:
        """Take the next events and labels apart and have them followed; emit those before.

        Raises `EngineError` as `Trainer.process`.
        """
        self._began = True
        try:
            some = self._reader.read(batch, self._decoder)
        except BadRecord as error:
            self.drain()
            raise EngineError(f"events {batch.span} cannot be read: {error}") from error
        if not self.model.takes_missing:
            some.X = np.nan_to_num(some.X)
        if self._scoring.slice is not None and self._horizons == 1:
            order = sorted((x, row) for row, x in enumerate(some.rows) if x >= 0)
            some.slices = self._scoring.slices_of(batch.values, [row for _, row in order])
        refused = some.bad[0] if some.bad and self._raises else None
        whole = some.batch
        if refused is not None:
            some = some.before(refused.row)
        self._hand_over(some.batch, partial(self._follow, some), partial(self._write, some))
        if refused is not None:
            self.drain()
            raise EngineError(complaint(whole, refused))

    def _write(self, taken: Taken, followed: Callable[[], BatchSteps]) -> None:
        """Write predictions and what cannot be used, and count and score."""
        found = followed()
        batch, bad = taken.batch, sorted([*taken.bad, *found.bad])
        first = self._records + 1
        self._records += len(batch)
        self._labels_refused += len(found.bad)
        rows, at = np.array(found.rows, np.int64), np.array(found.at, np.int64)
        horizons = np.array(found.numbers, np.int64) % self._horizons
        learned, once = first + at, horizons == 0
        self.drifts.add(learned[once][n - 1] for n in found.drifts)
        self.bad.add(first + event.row for event in bad)
        if bad:
            self._bad_events.report(batch, bad, self.counts)
        self.counts.tombstones += len(taken.tombstones)
        self.counts.learned += int(once.sum())
        asked = slice(None, None, self._horizons)
        self.counts.unlabelled += len(rows[asked]) - (int(once.sum()) - found.again)
        self._count(taken, found)
        self.fates.forgotten += found.dropped
        predicted = found.prequential.predictions[asked]
        self.counts.predicted += len(predicted) - predicted.tolist().count(None)
        if self._sink is not None and len(found.rows):
            outputs = predictions(batch, rows, found.prequential, found.classes, found.details)
            self._sink.write(self._together(outputs))
        self._observe_steps(batch, found)
        scored = Scored(
            at, found.scored, found.labels, found.measured, found.delays, found.unchanged
        )
        if self.alarms is not None:
            told = rows[asked], some_of(found.prequential, asked)
            self.alarms.watch(batch, first, found.classes, told, scored, self._alone)
        slices = None
        if self._scoring.slice is not None:
            slices = np.array(found.slices) if self._horizons == 1 else horizons.astype(np.float64)
        self._scoring.add(learned, found.classes, scored, slices)
        self._check_share(taken, bad)
        self._look(found.labels, bad)
        if found.bad and self._raises:
            raise EngineError(complaint(batch, found.bad[0]))

    @abstractmethod
    def _count(self, taken: Taken, found: BatchSteps) -> None:
        """Count what a batch had, beside what all trainers count."""

    def _together(self, outputs: list[Output]) -> list[Output]:
        """Return the outputs of each event as one."""
        return outputs

    def _observe_steps(self, batch: Batch, found: BatchSteps) -> None:
        """Show the prediction that was explained, and the labels of those before."""
        if self._observer is None:
            return
        if found.explained is not None:
            place, number, explanation = found.explained
            told = found.prequential, found.classes, found.details
            self._observe(explanation, batch, found.rows[place], place, told, held=number)
        self._observer.label(found.numbers, found.labels)

    def _check_share(self, taken: Taken, bad: list[BadEvent]) -> None:
        """Look at the share of bad ones among events and bad labels."""
        wrong, no_events = {event.row for event in bad}, taken.tombstones
        counted = [
            row
            for row, label in enumerate(taken.is_label)
            if row in wrong or not (label or row in no_events)
        ]
        self.names.after(len(counted))
        self._bad_events.check(counted, wrong, self.counts)

    # --- state ------------------------------------------------------------------------------------

    @property
    def _scored_by(self) -> dict[str, Any]:
        """The column of slices and the level of regions, None without, as JSON data."""
        level = None if self._regions is None else self._regions.level
        return {"slice": self._scoring.slice, "level": level}

    def held_state(self) -> State | None:
        """Return the state of the held events, and the counts of their fates."""
        work, held = self._work, self._held
        arrays = {**held.arrays(), **packed(work.held.records(held.slots))}
        if work.model.holds_predictions:
            said = work.model.held_predictions()
            arrays |= {f"{_SAID}{name}": array for name, array in said.items()}
        header: dict[str, Any] = {
            "type": self.TYPE,
            **held.to_json(),
            "number": work.number,
            "sliced_from": work.sliced_from,
            "regions_from": work.regions_from,
            **{name: getattr(self, f"_{name}") for name in self.COUNTS},
            "schema": self._decoder.schema.to_json(),
            **self._scored_by,
        }
        return State(header, arrays)

    def restore_held(self, held: State | None) -> None:
        """Go on with what `held_state` gave, after `restore`.

        Raises `StateError` if it does not fit.
        """
        if held is None:
            raise StateError(
                "the checkpoint holds no waiting events: it is not from a job with late labels"
            )
        held.expect(self.TYPE)
        header = held.header
        try:
            self._read_by(Schema.from_json(header.get("schema")))
        except BadRecord as error:
            raise _unreadable(error) from error
        columns, known = self._decoder.schema.columns, self.model.columns or ()
        if columns[: len(known)] != known:
            raise _unreadable("their columns are not the model's")
        for name in self.COUNTS:
            setattr(self, f"_{name}", count(header, name, _OWNER))
        self._begin()
        self._restore_work(header, held.arrays, len(columns))

    def _restore_work(
        self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], columns: int
    ) -> None:
        """Hold what a state holds."""
        work, model, slices = self._work, self.model, self.metrics.slices
        work.number = count(header, "number", _OWNER)
        # Slices of another column, and thresholds of another level, do not apply to this run.
        since = {"slice": "sliced_from", "level": "regions_from"}
        for name, wanted in self._scored_by.items():
            same = header.get(name) == wanted
            setattr(work, since[name], count(header, since[name], _OWNER) if same else work.number)
        classes = len(model.classes) if model.is_classifier else None

        def check(records: HeldRecords) -> None:
            check_held(records, columns, classes, work.number)
            sliced = records["slice"][records["number"] >= work.sliced_from]
            if slices is not None and not slices.fits(sliced):
                raise _unreadable("their slices are none of the names")

        n = self._held.restore(header, arrays, check)
        records = unpacked(dict(arrays), _OWNER)
        if len(records) != n:
            raise _unreadable("there are other events than keys")
        check(records)
        for _ in range(n):
            work.held.take()
        work.held.put_records(range(n), records)
        if model.holds_predictions:
            said = {n.removeprefix(_SAID): a for n, a in arrays.items() if n.startswith(_SAID)}
            model.restore_held_predictions(said)

    def use_model(self, data: Mapping[str, Any], model: Learner) -> None:
        """Go on with a model and its columns; nothing is held then.

        Raises `StateError` if the data does not fit.
        """
        super().use_model(data, model)
        self._begin()


def unlabelled(schema: Schema) -> Schema:
    """Return a schema of the same events, in which no field is the label."""
    return replace(schema, label=None, label_type=None, classes=None)


def _unreadable(reason: object) -> StateError:
    """Return the error for a state that does not fit."""
    return StateError(f"the held events in the checkpoint cannot be read: {reason}")
