"""Along a sequence of events and labels: predict and hold the ones, learn by the others, score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from connectors.base import Source
from connectors.errors import BadRecord
from streamk.declared import ANY, NON_NEGATIVE, Declared, count, taken
from streamk.encoding import BadEvent, Schema
from streamk.engine.alarms.alarms import Scored
from streamk.engine.alarms.covariates import Covariates
from streamk.engine.late.held import HeldEvents
from streamk.engine.late.join import Join
from streamk.engine.late.options import LateLabels
from streamk.engine.late.reading import LateReader, Taken
from streamk.engine.late.work import Followed, LateWork
from streamk.engine.order.batch import Batch
from streamk.engine.training.bad_events import complaint
from streamk.engine.training.details import Details
from streamk.engine.training.fates import Fates
from streamk.engine.training.names import NameCheck
from streamk.engine.training.outputs import predictions
from streamk.engine.training.slicing import beside_of
from streamk.engine.training.trainer import Trainer
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.learners.base import HoldsPredictions, Learner
from streamk.state import State

__all__ = ["LateTrainer"]

_TYPE, _FORMAT = "late-labels", 2
_SAID = (
    Declared("said_of", "int64", ("kept",), NON_NEGATIVE),
    Declared("said_by_parts", "float32", ("kept", "parts", "outputs"), ANY),
)
"""Predictions of held events by the parts of a learner; see `HoldsPredictions`."""


class LateTrainer(Trainer):
    """A trainer whose labels come later than the events, from a source of their own.

    Parameters
    ----------
    model, source, schema
        As of `Trainer`; the source is a `JoinedSource`, the schema has the label.
    late : LateLabels
    details, **options
        As of `Trainer`.
    """

    def __init__(
        self,
        model: Learner,
        source: Source,
        schema: Schema,
        *,
        late: LateLabels,
        details: Details | None = None,
        **options: Any,
    ) -> None:
        self._late = late
        self._job_schema = schema
        self._records = 0
        """Events and labels taken from the sequence and emitted."""
        self._labels_read = self._labels_bad = 0
        try:
            self._reader = LateReader(source, late, schema)
        except BadRecord as error:
            raise InvalidInput(f"the labels cannot be read: {error}") from error
        super().__init__(model, source, schema, details=details, **options)
        # The label is not in the events.
        self.names = NameCheck(replace(schema, label=None, label_type=None, classes=None))
        self._read_by(self._decoder.schema)
        self._work = self._new_work(0)

    def _new_work(self, number: int) -> LateWork:
        late = self._late
        join = Join(late.timeout_ms, late.held_events, self._reader.default)
        blank = np.nan if self._job_schema.absent == "missing" else 0.0
        held = HeldEvents(blank if self.model.takes_missing else 0.0)
        label = self._job_schema.label
        details, regions = self._details, self._regions
        return LateWork(self.model, join, held, number, label, details, regions)

    @property
    def _level(self) -> float | None:
        """Level of the regions, where there are any."""
        return None if self._regions is None else self._regions.level

    @property
    def fates(self) -> Fates:
        """The counts of the fates of events and labels."""
        return self._work.join.count()

    @property
    def schema(self) -> Schema | None:
        """The columns that the model has and the label; None before the first batch."""
        if not self._began:
            return None
        found = self._decoder.schema
        columns = found.columns[: len(self.model.columns or ())]
        owners = {found.owner(column) for column in columns}
        kinds = {name: kind for name, kind in found.kinds.items() if name in owners}
        job = self._job_schema
        return replace(job, columns=columns, kinds=kinds, mode=found.mode)

    def use(self, schema: Schema) -> None:
        """Read events by this schema from now on; neither key nor label is a column."""
        ignore = dict.fromkeys((*schema.ignore, self._late.key, schema.label))
        self._check_task(schema)
        self._job_schema = schema
        names = tuple(name for name in ignore if name is not None)
        super().use(replace(schema, label=None, label_type=None, classes=None, ignore=names))

    # --- events and labels ------------------------------------------------------------------------

    def take(self, batch: Batch) -> None:
        """Take the next events and labels apart and have them followed; emit those before.

        Raises
        ------
        EngineError
            As `Trainer.take`.
        """
        self._began = True
        try:
            some = self._reader.read(batch, self._decoder)
        except BadRecord as error:
            self.settle()
            raise EngineError(f"events {batch.span} cannot be read: {error}") from error
        if not self.model.takes_missing:
            some.X = np.nan_to_num(some.X)
        if self._slices is not None and self.metrics.slices is not None:
            order = sorted((x, row) for row, x in enumerate(some.rows) if x >= 0)
            values = self._slices.of([batch.values[row] for _, row in order])
            some.slices = self.metrics.slices.codes(values)
        refused = some.bad[0] if some.bad and self._raises else None
        whole = some.batch
        if refused is not None:
            some = some.before(refused.row)
        self._taken += len(batch)
        self._hand_over(len(batch), partial(self._follow, some), partial(self._write, some))
        if refused is not None:
            self.settle()
            raise EngineError(complaint(whole, refused))

    def _follow(self, taken: Taken) -> Followed:
        try:
            found = self._work.follow(taken)
        except InvalidInput as error:
            where = taken.batch.span
            raise EngineError(f"the model refuses an event {where}: {error}") from error
        self._note_learned(len(taken.batch))
        return found

    def _write(self, taken: Taken, followed: Callable[[], Followed]) -> None:
        """Write predictions and what cannot be used, and count and score."""
        found = followed()
        batch, bad = taken.batch, sorted([*taken.bad, *found.bad])
        first = self._records + 1
        self._records += len(batch)
        self._labels_read += sum(taken.is_label)
        self._labels_bad += sum(taken.is_label[event.row] for event in taken.bad)
        at = first + found.at
        self.drifts.add(at[n - 1] for n in found.drifts)
        self.bad.add(first + event.row for event in bad)
        if bad:
            self._bad_events.report(batch, bad, self.counts)
        self.counts.learned += len(found.labels)
        self.counts.unlabelled += len(found.rows) - len(found.labels)
        predicted = found.prequential.predictions
        self.counts.predicted += len(predicted) - predicted.tolist().count(None)
        if self._sink is not None and len(found.rows):
            outputs = predictions(
                batch, found.rows, found.prequential, found.classes, found.details
            )
            self._sink.write(outputs)
        if self.alarms is not None:
            rows, scored = (found.rows, found.prequential), found.scored
            late = Scored(found.at, scored, found.labels, found.measured, found.delays)
            at_x = np.array(taken.rows, np.intp)[found.rows]
            columns = Covariates(taken.X[at_x], taken.width[at_x], taken.columns)
            self.alarms.take(batch, first, found.classes, rows, late, columns)
        if len(at):
            answers, P = found.scored
            slices = None if self._slices is None else np.array(found.slices)
            beside = beside_of(found.measured, slices)
            if P is None:
                self.metrics.add_numbers(answers, found.labels, at, beside)
            else:
                said = answers.tolist()
                self.metrics.add_classes(P, said, found.classes, found.labels, at, beside)
        self._check_share(taken, bad)
        if found.bad and self._raises:
            raise EngineError(complaint(batch, found.bad[0]))

    def _check_share(self, taken: Taken, bad: list[BadEvent]) -> None:
        """Look at the share of bad ones among events and bad labels."""
        wrong = {event.row for event in bad}
        counted = [row for row, label in enumerate(taken.is_label) if not label or row in wrong]
        self.names.after(len(counted))
        places = [n for n, row in enumerate(counted) if row in wrong]
        self._bad_events.check(len(counted), places, self.counts)

    def end(self) -> None:
        """Settle, and raise `InvalidInput` if nothing could be learned, or too much is bad."""
        super().end()
        if self._labels_read and self._labels_bad == self._labels_read:
            raise InvalidInput(
                f"none of the {self._labels_read} labels can be used, the first record because:"
                f" {self._bad_events.why}; check the key, the label and the task"
            )

    # --- state ------------------------------------------------------------------------------------

    def held_state(self) -> State | None:
        """Return what is held of events until their labels come, and what their fates were."""
        work = self._work
        held = work.held.arrays(work.join.slots)
        arrays: dict[str, Any] = {**work.join.arrays(), **held}
        if isinstance(self.model, HoldsPredictions):
            arrays["said_of"], arrays["said_by_parts"] = self.model.held_predictions()
        header: dict[str, Any] = {
            "type": _TYPE,
            "format": _FORMAT,
            "fates": work.join.to_json(),
            "number": work.number,
            "records": self._records,
            "labels_read": self._labels_read,
            "labels_bad": self._labels_bad,
            "schema": self._decoder.schema.to_json(),
            "slice": None if self._slices is None else self._slices.name,
            "level": self._level,
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
        held.expect(_TYPE, format=_FORMAT)
        header, owner, model = held.header, "held events", self.model
        try:
            self._read_by(Schema.from_json(header.get("schema")))
        except BadRecord as error:
            raise _unreadable(error) from error
        columns = self._decoder.schema.columns
        known = model.columns or ()
        if columns[: len(known)] != known:
            raise _unreadable("their columns are not the model's")
        self._records = count(header, "records", owner)
        self._labels_read = count(header, "labels_read", owner)
        self._labels_bad = count(header, "labels_bad", owner)
        work = self._new_work(count(header, "number", owner))
        fates = header.get("fates")
        if not isinstance(fates, Mapping):
            raise _unreadable("their counts are missing")
        n = work.join.restore(fates, held.arrays)
        classes = len(model.classes) if model.is_classifier else None
        arrays = held.arrays
        if header["format"] == 1:  # of before there were regions and slices
            arrays = {**arrays, **dict.fromkeys(("threshold", "slice"), np.full(n, np.nan))}
        work.held.restore(n, arrays, columns=len(columns), classes=classes, numbers=work.number)
        slices = self.metrics.slices
        if slices is None or header.get("slice") != slices.column:
            work.held.slice[:] = np.nan
        elif not slices.fits(work.held.slice):
            raise _unreadable("their slices are none of the names")
        if self._level is None or header.get("level") != self._level:
            work.held.threshold[:] = np.nan  # regions of another level say nothing of these
        if isinstance(model, HoldsPredictions):
            sizes: dict[str, int] = {}
            found, _ = taken(_SAID, held.arrays, sizes, owner)
            model.restore_held_predictions(found["said_of"], found["said_by_parts"])
        self._work = work

    def start_from(self, data: Mapping[str, Any], model: Learner) -> None:
        """Go on with a model and its columns; nothing is held then.

        Raises `StateError` if the data does not fit.
        """
        super().start_from(data, model)
        self._work = self._new_work(0)


def _unreadable(reason: object) -> StateError:
    return StateError(f"the held events in the checkpoint cannot be read: {reason}")
