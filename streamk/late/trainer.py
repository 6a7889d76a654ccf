"""Along a sequence of events and labels: predict and hold the ones, learn by the others, score."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from connectors.base import Source
from connectors.errors import BadRecord
from streamk.declared import count
from streamk.encoding import SAID, BadEvent, Schema
from streamk.engine.checkpoints.segment_files import SegmentFiles, is_name
from streamk.engine.order.partitions import Batch
from streamk.engine.training.bad_events import Fates, check_all_counted, complaint
from streamk.engine.training.beside import Scored
from streamk.engine.training.fields import NameCheck
from streamk.engine.training.learning import check_task
from streamk.engine.training.options import Stream, Watch
from streamk.engine.training.outputs import predictions
from streamk.engine.training.trainer import WATCH, Trainer
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.late.held import HeldEvents, HeldRecords, check_held, packed, unpacked
from streamk.late.join import QUEUES, Join
from streamk.late.source import LateReader, Taken
from streamk.late.steps import BatchSteps, HoldingModel, follow
from streamk.learners.common.base import Learner
from streamk.state import State

if TYPE_CHECKING:
    from streamk.late import LateLabels

_log = logging.getLogger("streamk.engine")

_LABELS = 1000
"""Labels after which it is told that none has met its event."""
_OWNER = "held events"
_TYPE = "late-labels"
_SAID = "said_"
"""Beginning of the names of arrays that are the learner's, see `Learner.holds_predictions`."""
_COUNTS = "records", "labels_read", "labels_bad", "labels_refused"


class LateTrainer(Trainer):
    """A trainer whose labels come later than the events, from a source of their own.

    Its source is a `JoinedSource`, and the stream has a label; all else is as of `Trainer`.
    """

    def __init__(
        self,
        model: Learner,
        source: Source,
        stream: Stream,
        *,
        late: LateLabels,
        watch: Watch = WATCH,
        **options: Any,
    ) -> None:
        self._late = late
        self._job_schema = schema = stream.schema_for(model)
        self._records = 0
        """Events and labels taken from the sequence and emitted."""
        self._labels_read = self._labels_bad = self._labels_refused = 0
        self._keys: dict[bool, str] = {}
        """A key of the events and one of the labels."""
        try:
            self._reader = LateReader(source, late, schema)
        except BadRecord as error:
            raise InvalidInput(f"the labels cannot be read: {error}") from error
        self._files = SegmentFiles()
        super().__init__(model, source, stream, watch=watch, **options)
        # The label is not in the events.
        unlabelled = replace(schema, label=None, label_type=None, classes=None)
        self.names = NameCheck(unlabelled, watch.slice)
        self._read_by(self._decoder.schema)
        self._begin()

    def _begin(self) -> None:
        """Hold nothing."""
        late, label = self._late, self._job_schema.label
        blank = np.nan if self._job_schema.absent == "missing" else 0.0
        held = HeldEvents(blank if self.model.takes_missing else 0.0)
        self._join = Join(
            late.timeout_ms,
            late.held_events,
            self._reader.default,
            held=held,
            files=self._files,
            revisions=late.revisions,
        )
        self._work = HoldingModel(
            self.model,
            held,
            label,
            self._details,
            self._regions,
            self._observer,
            self._event_fields,
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
        return self._join.count()

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

    def use(self, schema: Schema) -> None:
        """Read events by this schema from now on; neither key nor label is a column."""
        ignore = dict.fromkeys((*schema.ignore, self._late.key, schema.label))
        check_task(schema, self.model)
        self._job_schema = schema
        names = tuple(name for name in ignore if name is not None)
        super().use(replace(schema, label=None, label_type=None, classes=None, ignore=names))

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
        if self._scoring.slice is not None:
            order = sorted((x, row) for row, x in enumerate(some.rows) if x >= 0)
            some.slices = self._scoring.slices_of(batch.values, [row for _, row in order])
        refused = some.bad[0] if some.bad and self._raises else None
        whole = some.batch
        if refused is not None:
            some = some.before(refused.row)
        if len(self._keys) < 2:
            for is_label, key in zip(some.is_label, some.keys, strict=True):
                if key is not None:
                    self._keys.setdefault(is_label, key)
        learn = partial(follow, self._work, self._join, some)
        self._hand_over(some.batch, learn, partial(self._write, some))
        if refused is not None:
            self.drain()
            raise EngineError(complaint(whole, refused))

    def _write(self, taken: Taken, followed: Callable[[], BatchSteps]) -> None:
        """Write predictions and what cannot be used, and count and score."""
        found = followed()
        batch, bad = taken.batch, sorted([*taken.bad, *found.bad])
        first = self._records + 1
        self._records += len(batch)
        before = self._labels_good
        self._labels_read += sum(taken.is_label)
        self._labels_read -= sum(taken.is_label[row] for row in taken.tombstones)
        self._labels_bad += sum(taken.is_label[event.row] for event in taken.bad)
        self._labels_refused += len(found.bad)  # these have met their events, too
        if before < _LABELS <= self._labels_good and self._lacking is not None:
            _log.warning("%s", self._lacking)
        rows, at = np.array(found.rows, np.int64), np.array(found.at, np.int64)
        learned = first + at
        self.drifts.add(learned[n - 1] for n in found.drifts)
        self.bad.add(first + event.row for event in bad)
        if bad:
            self._bad_events.report(batch, bad, self.counts)
        self.counts.tombstones += len(taken.tombstones)
        self.counts.learned += len(found.labels)
        self.counts.unlabelled += len(found.rows) - (len(found.labels) - found.again)
        predicted = found.prequential.predictions
        self.counts.predicted += len(predicted) - predicted.tolist().count(None)
        if self._sink is not None and len(found.rows):
            outputs = predictions(batch, rows, found.prequential, found.classes, found.details)
            self._sink.write(outputs)
        self._observe_late(batch, found)
        scored = Scored(at, found.scored, found.labels, found.measured, found.delays)
        if self.alarms is not None:
            told = rows, found.prequential
            self.alarms.watch(batch, first, found.classes, told, scored, self._alone)
        slices = None if self._scoring.slice is None else np.array(found.slices)
        self._scoring.add(learned, found.classes, scored, slices)
        self._check_share(taken, bad)
        self._look(found.labels, bad)
        if found.bad and self._raises:
            raise EngineError(complaint(batch, found.bad[0]))

    def _observe_late(self, batch: Batch, found: BatchSteps) -> None:
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

    def check(self) -> None:
        """Drain, and raise `InvalidInput` if nothing could be learned, or too much is bad."""
        self.drain()
        lacking = self._lacking
        if lacking and self._labels_good and self._events and not self.fates.too_late:
            raise InvalidInput(lacking)
        super().check()
        fates = self.fates
        bad = self.counts.n_bad - self._labels_refused
        known = fates.events + fates.labels + bad + self.counts.tombstones
        check_all_counted(self._records, known, "of events and labels")
        if self._labels_read and not self._labels_good:
            raise InvalidInput(
                f"none of the {self._labels_read} labels can be used, the first record because:"
                f" {self._bad_events.why}; check the key, the label and the task"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about names that have not come, and labels that are no classes or met none."""
        lacking = self._lacking
        return super().notes if lacking is None else (*super().notes, lacking)

    @property
    def _labels_good(self) -> int:
        """Labels that could be used."""
        return self._labels_read - self._labels_bad

    @property
    def _events(self) -> int:
        """Events that wait for their labels or have waited in vain."""
        fates = self.fates
        return fates.held + fates.missing + fates.defaulted + fates.overflow

    @property
    def _lacking(self) -> str | None:
        """Say why no label has met its event; None if one has, or nothing has come."""
        fates, labels, events = self.fates, self._labels_good, self._events
        if fates.joined or fates.revised or not (labels or events):
            return None
        if not labels:
            return f"no label has come for any of {events:,} events"
        if not events:
            return f"no event has come for any of {labels:,} labels"
        told = f"none of the {labels:,} labels has met one of the {events:,} events"
        if fates.too_late:
            return f"{told}: {fates.too_late:,} came too late; give a longer timeout"
        of_events, of_labels = (self._keys.get(side, "unknown") for side in (False, True))
        return (
            f"{told} by the key {self._late.key!r}, which is {of_events!r} in an event and"
            f" {of_labels!r} in a label; give the field that is the same in both"
        )

    # --- state ------------------------------------------------------------------------------------

    @property
    def _scored_by(self) -> dict[str, Any]:
        """The column of slices and the level of regions, None without, as JSON data."""
        level = None if self._regions is None else self._regions.level
        return {"slice": self._scoring.slice, "level": level}

    def held_state(self) -> State | None:
        """Return what is held of events until their labels come, and what their fates were."""
        work, join = self._work, self._join
        arrays = {**join.arrays(), **packed(work.held.records(join.slots))}
        if work.model.holds_predictions:
            said = work.model.held_predictions()
            arrays |= {f"{_SAID}{name}": array for name, array in said.items()}
        header: dict[str, Any] = {
            "type": _TYPE,
            "fates": join.to_json(),
            "segments": join.files(),
            "number": work.number,
            "sliced_from": work.sliced_from,
            "regions_from": work.regions_from,
            **{name: getattr(self, f"_{name}") for name in _COUNTS},
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
                "the checkpoint holds no events, as one of a job with late labels does"
            )
        held.expect(_TYPE)
        header = held.header
        try:
            self._read_by(Schema.from_json(header.get("schema")))
        except BadRecord as error:
            raise _unreadable(error) from error
        columns, known = self._decoder.schema.columns, self.model.columns or ()
        if columns[: len(known)] != known:
            raise _unreadable("their columns are not the model's")
        for name in _COUNTS:
            setattr(self, f"_{name}", count(header, name, _OWNER))
        self._begin()
        self._restore_work(header, held.arrays, len(columns))

    def _restore_work(
        self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], columns: int
    ) -> None:
        """Hold what a state holds."""
        work, model, slices = self._work, self.model, self.metrics.slices
        work.number = count(header, "number", _OWNER)
        # Slices of another column, and thresholds of another level, are of no use to this run.
        since = {"slice": "sliced_from", "level": "regions_from"}
        for name, wanted in self._scored_by.items():
            same = header.get(name) == wanted
            setattr(work, since[name], count(header, since[name], _OWNER) if same else work.number)
        files: Any = header.get("segments")
        fates = header.get("fates")
        has_files = isinstance(files, Mapping) and all(
            isinstance(files.get(queue), list) and all(map(is_name, files[queue]))
            for queue in QUEUES
        )
        if not isinstance(fates, Mapping) or not has_files:
            raise _unreadable("their counts or files are missing")
        classes = len(model.classes) if model.is_classifier else None

        def check(records: HeldRecords) -> None:
            check_held(records, columns, classes, work.number)
            sliced = records["slice"][records["number"] >= work.sliced_from]
            if slices is not None and not slices.fits(sliced):
                raise _unreadable("their slices are none of the names")

        n = self._join.restore(fates, files, arrays, check)
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


def _unreadable(reason: object) -> StateError:
    """Return the error for a state that does not fit."""
    return StateError(f"the held events in the checkpoint cannot be read: {reason}")
