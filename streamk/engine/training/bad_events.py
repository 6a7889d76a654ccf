"""Counts of events by their fate, and the events that cannot be used, at most so many."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from connectors.base import Sink
from streamk.encoding import TOMBSTONE, BadEvent
from streamk.engine.order.partitions import Batch
from streamk.engine.training.beside import LONGEST_VALUE, MOST_ROWS, Watcher
from streamk.engine.training.outputs import dead_letter
from streamk.errors import EngineError

Revisions: TypeAlias = Literal["ignore", "learn"]
"""The fate of a label that contradicts the one before."""


@dataclass
class Fates:
    """Counts of the fates of events and labels.

    Attributes
    ----------
    joined : int
        Labels that met their event, which was scored and learned.
    early : int
        Those of them that came before the event.
    defaulted : int
        Events learned with the default label, since theirs had not come in time.
    missing : int
        Events dropped unlearned, since their label had not come in time.
    overflow : int
        Events dropped unlearned, since too many others were held.
    forgotten : int
        Held events of which what experts said had no room (`pending_bytes`): they are learned as if
        they were predicted when their label comes.
    duplicate_events : int
        Events whose key had come before: predicted, and neither held nor learned.
    duplicates : int
        Labels that said again what was known.
    conflicts : int
        Labels that contradicted the first one, which stays.
    revised : int
        Labels that contradicted the one before, where such are learned.
    too_late : int
        Labels of events that were held no more.
    unmatched : int
        Labels dropped, since their event had not come in time or too many others waited.
    held, waiting : int
        Events and labels that wait for each other now.
    """

    joined: int = 0
    early: int = 0
    defaulted: int = 0
    missing: int = 0
    overflow: int = 0
    forgotten: int = 0
    duplicate_events: int = 0
    duplicates: int = 0
    conflicts: int = 0
    revised: int = 0
    too_late: int = 0
    unmatched: int = 0
    held: int = 0
    waiting: int = 0

    @property
    def events(self) -> int:
        """All events that could be used."""
        learned = self.joined + self.defaulted
        return learned + self.missing + self.overflow + self.duplicate_events + self.held

    @property
    def labels(self) -> int:
        """All labels that could be used."""
        known = self.duplicates + self.conflicts + self.revised
        return self.joined + known + self.too_late + self.unmatched + self.waiting


OnError = Literal["raise", "skip", "dead-letter"]

_log = logging.getLogger("streamk.engine")

_BEFORE_JUDGING = 1000
"""Events before the share of those that cannot be used is looked at."""


@dataclass
class Counts:
    """Numbers of events by what became of them.

    Attributes
    ----------
    learned, predicted : int
    unlabelled : int
        Events that were not learned: without a label, or all where the model only predicts.
    bad : dict of kind to int
        Events that could not be used, by kind (`streamk.encoding.BAD_KINDS`).
    tombstones : int
        Records that tell of a deletion, which are not events.
    """

    learned: int
    predicted: int
    unlabelled: int
    bad: dict[str, int]
    tombstones: int = 0

    @property
    def n_bad(self) -> int:
        """Events that could not be used."""
        return sum(self.bad.values())

    @property
    def events(self) -> int:
        """All events."""
        return self.learned + self.unlabelled + sum(self.bad.values())

    @property
    def records(self) -> int:
        """All records."""
        return self.learned + self.unlabelled + sum(self.bad.values()) + self.tombstones


class BadEvents:
    """Reports events that cannot be used, and ends the run where they are too many.

    Parameters
    ----------
    dead_letters : Sink, optional
        Where they are written.
    max_share : float
        Largest share of all events that they may be.
    observer : Watcher, optional
        Gets them, too.
    """

    def __init__(
        self, dead_letters: Sink | None, max_share: float, observer: Watcher | None = None
    ) -> None:
        self._dead_letters, self._max_share = dead_letters, max_share
        self._observer = observer
        self._first_reason: str | None = None

    @property
    def why(self) -> str:
        """The reason why the first event could not be used."""
        return self._first_reason or "of what the run before has told"

    def report(self, batch: Batch, bad: Sequence[BadEvent], counts: Counts) -> None:
        """Count events of a batch that cannot be used, and write them where that is wanted.

        The first one of a kind is a warning.
        """
        for event in bad:
            if event.kind not in counts.bad:
                partition, offset = batch.position(event.row)
                _log.warning(
                    "the event at %s offset %d cannot be used: %s; further ones of this kind are "
                    "only counted",
                    *(partition, offset, event.reason),
                )
                counts.bad[event.kind] = 0
            counts.bad[event.kind] += 1
        self._first_reason = self._first_reason or bad[0].reason
        if self._observer is not None:
            last = [dead_letter(batch, event, LONGEST_VALUE) for event in bad[-MOST_ROWS:]]
            self._observer.refused([letter.value for letter in last])
        if self._dead_letters is not None:
            self._dead_letters.write([dead_letter(batch, event) for event in bad])

    def check(self, records: Sequence[int], bad: Set[int], counts: Counts) -> None:
        """Raise `EngineError` if after any of the last events too many were unusable.

        The last events are given by their rows, the unusable ones of them by the rows `bad`;
        `counts` is of all events so far.
        """
        n, events = len(records), counts.events
        before = events - n
        if not bad and not before < _BEFORE_JUDGING <= events:
            return
        places = [place for place, row in enumerate(records) if row in bad]
        bad_before = counts.n_bad - len(places)
        for place in sorted({*places, _BEFORE_JUDGING - 1 - before}):
            if 0 <= place < n and before + place + 1 >= _BEFORE_JUDGING:
                n_bad = bad_before + bisect_right(places, place)
                self.check_share(n_bad, before + place + 1, counts)

    def check_share(self, bad: int, n: int, counts: Counts) -> None:
        """Raise `EngineError` if so many of n events are unusable that they are too many."""
        if bad > self._max_share * n:
            kinds = ", ".join(f"{kind} {many}" for kind, many in counts.bad.items())
            raise EngineError(
                f"{bad} of {n} events cannot be used ({kinds}), more than the allowed share of "
                f"{self._max_share:g}; the first because: {self.why}"
            )


def tombstones_apart(
    bad: Sequence[BadEvent], values: Sequence[Any]
) -> tuple[list[BadEvent], set[int]]:
    """Split bad events into those that are bad and rows that tell of a deletion, no events.

    A record without a value tells of a deletion, too.
    """
    rows = {one.row for one in bad if one.kind == TOMBSTONE or values[one.row] is None}
    return [one for one in bad if one.row not in rows], rows


def check_all_counted(records: int, counted: int, where: str | Batch) -> None:
    """Raise `EngineError` unless all records are counted once, whatever became of them."""
    if counted != records:
        where = where if isinstance(where, str) else where.span
        raise EngineError(
            f"{counted:,} of {records:,} records {where} were counted, which is a bug in streamk: "
            "please report it, with the records. A resumed run begins at the last checkpoint"
        )


def complaint(batch: Batch, event: BadEvent) -> str:
    """Return the message about an event that ends a run."""
    partition, offset = batch.position(event.row)
    return (
        f"the event at {partition} offset {offset} cannot be used: {event.reason};"
        ' to go on without such events choose on_error="skip" (--on-error skip) or'
        ' "dead-letter"'
    )
