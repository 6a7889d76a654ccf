"""A batch of the sequence taken apart into events and labels, and what is wrong with some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.base import Source
from streamk.encoding import (
    BadEvent,
    Decoded,
    Decoder,
    FieldReader,
    LabelReader,
    Rejected,
    Schema,
    key_of,
)
from streamk.engine.late.options import LateLabels
from streamk.engine.late.source import EVENTS, LABELS
from streamk.engine.late.steps.taken import Taken
from streamk.engine.order.batch import Batch
from streamk.engine.order.clocks import NEVER
from streamk.engine.training.bad_events import tombstones_apart

__all__ = ["LateReader"]


class LateReader:
    """Reads keys of events and labels, and labels.

    Parameters
    ----------
    events : Source
        Of the job.
    late : LateLabels
    schema : Schema
        Of the job, with the label.
    """

    def __init__(self, events: Source, late: LateLabels, schema: Schema) -> None:
        self._late, self._label = late, schema.label
        labels = late.source
        self._event_keys = FieldReader.of_source(events, (late.key,))
        names = (late.key,) if schema.label is None else (late.key, schema.label)
        self._cells = FieldReader.of_source(labels, names)
        self._as_label = LabelReader(schema).one
        self.default = self._as_label(late.default)

    def read(self, batch: Batch, decoder: Decoder) -> Taken:
        """Take a batch apart. Raises `BadRecord` as decoders do."""
        is_label = np.array([name.startswith(LABELS) for name in batch.names], bool)[batch.codes]
        plain = [name.removeprefix(LABELS).removeprefix(EVENTS) for name in batch.names]
        n, known = len(batch), len(decoder.schema.columns)
        at_events = np.flatnonzero(~is_label).tolist()
        events = [batch.values[row] for row in at_events]
        decoded = decoder.decode(events)
        rows, keys, labels = [-1] * n, _nothing(n), _nothing(n)
        for i, row in enumerate(decoded.good.tolist()):
            rows[at_events[row]] = i
        bad = {at_events[e.row]: e._replace(row=at_events[e.row]) for e in decoded.bad}
        self._read_keys(events, at_events, keys, bad)
        at_labels = np.flatnonzero(is_label).tolist()
        self._read_labels([batch.values[row] for row in at_labels], at_labels, keys, labels, bad)
        if self._late.time is not None:
            for row in np.flatnonzero(batch.timestamps == NEVER).tolist():
                reason = f"time missing: {self._late.time!r} holds no time"
                bad.setdefault(row, BadEvent(row, self._late.time, reason))
        for row in bad:
            keys[row] = None
        times = np.where(batch.timestamps == NEVER, np.maximum(batch.clocks, 0), batch.timestamps)
        return Taken(
            replace(batch, names=plain, timestamps=times),
            is_label.tolist(),
            keys,
            labels,
            rows,
            [events[row] for row in decoded.good.tolist()],
            decoded.X,
            _widths(decoded, known),
            decoder.schema,
            *tombstones_apart([bad[row] for row in sorted(bad)], batch.values),
        )

    def _read_keys(
        self,
        values: Sequence[Any],
        places: list[int],
        keys: list[str | None],
        bad: dict[int, BadEvent],
    ) -> None:
        for row, cells in zip(places, self._event_keys.many(values), strict=True):
            if row in bad:
                continue
            try:
                keys[row] = key_of(_taken(cells)[0], self._late.key)
            except Rejected as rejection:
                bad[row] = BadEvent(row, rejection.column, rejection.reason)

    def _read_labels(
        self,
        values: Sequence[Any],
        places: list[int],
        keys: list[str | None],
        labels: list[Any],
        bad: dict[int, BadEvent],
    ) -> None:
        name = self._label
        for row, cells in zip(places, self._cells.many(values), strict=True):
            try:
                key, label = _taken(cells)
                keys[row], labels[row] = key_of(key, self._late.key), self._as_label(label)
                if labels[row] is None:
                    raise Rejected("label missing", f"the record of a label has no {name!r}", name)
            except Rejected as rejection:
                bad[row] = BadEvent(row, rejection.column, rejection.reason)


def _nothing(n: int) -> list[Any]:
    return [None] * n


def _taken(cells: tuple[Any, ...] | Rejected) -> tuple[Any, ...]:
    """Return the fields of a record, or raise what is wrong with it."""
    if isinstance(cells, Rejected):
        raise cells
    return cells


def _widths(decoded: Decoded, known: int) -> NDArray[np.int64]:
    """Return how many columns there were at each good event."""
    width = np.full(len(decoded.X), known, np.int64)
    for row, columns in decoded.growth:
        width[row:] = columns
    return width
