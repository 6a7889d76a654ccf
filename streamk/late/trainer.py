"""Along a sequence of events and labels: hold the ones until the others come."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.base import Source
from streamk.encoding import Schema
from streamk.engine.training.bad_events import check_all_counted
from streamk.engine.training.fields import NameCheck
from streamk.engine.training.learning import check_task
from streamk.engine.training.options import Stream, Watch
from streamk.engine.training.trainer import WATCH
from streamk.errors import InvalidInput
from streamk.late.held import HeldEvents
from streamk.late.holding import HoldingTrainer, unlabelled
from streamk.late.join import Join
from streamk.late.source import LateReader, Taken
from streamk.late.steps import BatchSteps, follow
from streamk.learners.common.base import Learner

if TYPE_CHECKING:
    from streamk.late import LateLabels

_log = logging.getLogger("streamk.engine")

_LABELS = 1000
"""Labels after which it is told that none has met its event."""


class LateTrainer(HoldingTrainer):
    """A trainer for labels that come later than the events, from another source.

    Its source is a `JoinedSource`.
    """

    TYPE = "late-labels"
    COUNTS = (*HoldingTrainer.COUNTS, "labels_read", "labels_bad")
    _held: Join
    _reader: LateReader

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
        self._labels_read = self._labels_bad = 0
        self._keys: dict[bool, str] = {}
        """A key of the events and one of the labels."""
        super().__init__(model, source, stream, watch=watch, **options)
        # The label is not in the events.
        self.names = NameCheck(unlabelled(self._job_schema), watch.slice)
        self._read_by(self._decoder.schema)

    def _reader_of(self, source: Source, schema: Schema) -> LateReader:
        return LateReader(source, self._late, schema)

    def _queue(self, held: HeldEvents) -> Join:
        late = self._late
        return Join(
            late.timeout_ms,
            late.held_events,
            self._reader.default,
            held=held,
            files=self._files,
            revisions=late.revisions,
        )

    def use(self, schema: Schema) -> None:
        """Read events by this schema from now on; neither key nor label is a column."""
        ignore = dict.fromkeys((*schema.ignore, self._late.key, schema.label))
        check_task(schema, self.model)
        self._job_schema = schema
        names = tuple(name for name in ignore if name is not None)
        super().use(replace(unlabelled(schema), ignore=names))

    def _follow(self, taken: Taken) -> BatchSteps:
        return follow(self._work, self._held, taken)

    def _count(self, taken: Taken, found: BatchSteps) -> None:
        del found
        if len(self._keys) < 2:
            for is_label, key in zip(taken.is_label, taken.keys, strict=True):
                if key is not None:
                    self._keys.setdefault(is_label, key)
        before = self._labels_good
        self._labels_read += sum(taken.is_label)
        self._labels_read -= sum(taken.is_label[row] for row in taken.tombstones)
        self._labels_bad += sum(taken.is_label[event.row] for event in taken.bad)
        if before < _LABELS <= self._labels_good and self._lacking is not None:
            _log.warning("%s", self._lacking)

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
        """Sentences about missing names, labels that are not classes and unmatched labels."""
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
