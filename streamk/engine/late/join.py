"""The join of events and labels by their keys, and the fates of those that find no other.

Nothing here predicts, learns or looks at a clock on the wall: events and labels come in the order
of the sequence with its clocks, and each gives the steps that `LateWork` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.training.fates import Fates, Revisions
from streamk.engine.waiting.held import HeldEvents, Records
from streamk.engine.waiting.queue import Entry, WaitingQueue
from streamk.errors import StateError

__all__ = ["Join", "Learn", "Predict", "Step"]

Label = Any
Json = NDArray[np.uint8]


class Predict(NamedTuple):
    """The next event is to be predicted; it is held in `slot`, or in none (-1)."""

    slot: int


class Learn(NamedTuple):
    """The event held in `slot` is to be learned with `label`; `again` if it was learned before.

    Unless its label may be revised, the slot is free then.
    """

    slot: int
    label: Label
    again: bool = False


Step = Predict | Learn
_UNHELD = Predict(-1)
_CHUNK = 4096
"""Events over their time that are learned at once, where they are on the disk."""


class Join:
    """Events that wait for their labels, labels that wait for their events, and keys that are over.

    Parameters
    ----------
    timeout : int, optional
        Milliseconds that either waits, and that a key is remembered afterwards.
    most : int
        Of each of the three at once; the oldest go first.
    default : label, optional
        The label of events whose time is over.
    held : HeldEvents, optional
        Where the events are put by whoever follows the steps.
    files : SegmentFiles, optional
        Where those go for which there is no room in memory.
    revisions : "ignore" or "learn", default "ignore"
        Whether an event is learned again when another label comes for it.

    Examples
    --------
    >>> join = Join(timeout=10, most=100)
    >>> join.event("a", 0), join.event("b", 1), join.label("a", True, 2)
    ([Predict(slot=0)], [Predict(slot=1)], [Learn(slot=0, label=True, again=False)])
    >>> list(join.due(20)), join.label("b", True, 20)
    ([], [])
    >>> join.fates.joined, join.fates.missing, join.fates.too_late
    (1, 1, 1)
    """

    def __init__(
        self,
        timeout: int | None,
        most: int,
        default: Label = None,
        *,
        held: HeldEvents | None = None,
        files: SegmentFiles | None = None,
        revisions: Revisions = "ignore",
    ) -> None:
        self.fates = Fates()
        self._timeout, self._most, self._default = timeout, most, default
        held = held or HeldEvents(0.0)
        self._slots, self._learns_again = held.slots, revisions == "learn"
        files = files or SegmentFiles()
        self._held = WaitingQueue(tuple[str, int], files, held)
        self._early = WaitingQueue(tuple[str, _Class, int], files)
        """Labels without an event yet, and the clock at which they came."""
        remembered = held if self._learns_again else None
        self._over = WaitingQueue(tuple[str, bool, _Class | None, int], files, remembered)
        """By key: is its label known, that label, and the clock at which it was over."""
        self._next = -(1 << 63)
        """The clock up to which nothing that waits is over its time."""

    @property
    def slots(self) -> list[int]:
        """The slots of the events in memory: those held, and those that may be learned again."""
        return [*self._held.slots, *self._over.slots]

    def begin(self, keys: Sequence[str], last: int) -> None:
        """Find on the disk what a batch needs: that of its keys, and what is over at its end.

        Parameters
        ----------
        keys : sequence of str
        last : int
            The highest clock.

        Raises
        ------
        StateError
            If a file is damaged.
        """
        due = None
        if self._timeout is not None and self._default is not None:
            due = last - self._timeout, _CHUNK
        self._held.look_up(keys, due)
        self._early.look_up(keys)
        self._over.look_up(keys)

    def end(self) -> None:
        """End a batch, all of whose steps were followed. Raises `EngineError` as files do."""
        for queue in (self._held, self._early, self._over):
            queue.seal()
        self._slots.settle()

    def event(self, key: str, clock: int) -> list[Step]:
        """Take an event, after what is `due`; returns what is to be done now, in this order."""
        if self._held.get(key) is not None or self._over.get(key) is not None:
            self.fates.duplicate_events += 1
            return [_UNHELD]
        if len(self._held) >= self._most:
            oldest, (slot, _) = self._held.pop_oldest()
            self._slots.free(slot)
            self.fates.overflow += 1
            self._close(oldest, (-1, False, None, clock))
        slot = self._slots.take()
        found = self._early.pop(key)
        if found is None:
            self._held.add(key, (slot, clock))
            return [Predict(slot)]
        self.fates.early += 1
        return [Predict(slot), self._answer(key, slot, found[1], clock)]

    def label(self, key: str, label: Label, clock: int) -> list[Step]:
        """Take a label, after what is `due`; returns what is to be done now."""
        held = self._held.pop(key)
        if held is not None:
            return [self._answer(key, held[0], label, clock)]
        over = self._over.get(key)
        known = over[1:] if over is not None else self._early.get(key)
        if over is not None and not over[1]:
            self.fates.too_late += 1
        elif known is not None:
            if type(known[1]) is type(label) and known[1] == label:
                self.fates.duplicates += 1
            elif over is not None and self._learns_again:
                return [self._revise(key, label, clock)]
            else:
                self.fates.conflicts += 1
        else:
            if len(self._early) >= self._most:
                self._early.pop_oldest()
                self.fates.unmatched += 1
            self._early.add(key, (-1, label, clock))
        return []

    def _answer(self, key: str, slot: int, label: Label, clock: int) -> Learn:
        self.fates.joined += 1
        return self._learn(key, slot, label, clock)

    def _revise(self, key: str, label: Label, clock: int) -> Learn:
        self.fates.revised += 1
        entry = self._over.pop(key)
        assert entry is not None
        return self._learn(key, entry[0], label, clock)._replace(again=True)

    def _learn(self, key: str, slot: int, label: Label, clock: int) -> Learn:
        """Have an event learned, and its key over."""
        if self._learns_again:
            self._slots.keep(slot)
            self._close(key, (slot, True, label, clock))
        else:
            self._close(key, (-1, True, label, clock))
            self._slots.free(slot)
        return Learn(slot, label)

    def _close(self, key: str, entry: Entry) -> None:
        if len(self._over) >= self._most:
            _, (slot, *_) = self._over.pop_oldest()
            self._slots.free(slot)
        self._over.add(key, entry)

    def due(self, clock: int) -> Iterator[tuple[list[Step], bool]]:
        """Yield what is to be done at a clock, before a record of it is taken.

        Where the second of a pair is true, the steps so far are followed to their end before the
        next is asked for.
        """
        if self._timeout is None or clock <= self._next:
            return
        before = clock - self._timeout
        has_default = self._default is not None
        while True:
            some, lent = self._held.pop_due(before, _CHUNK, recall=has_default)
            if not some:
                break
            if has_default:
                self.fates.defaulted += len(some)
                yield [self._by_default(key, entry[0], clock) for key, entry in some], bool(lent)
                self._slots.end(lent)
                continue
            self.fates.missing += len(some)
            for key, (slot, _) in some:
                self._slots.free(slot)
                self._close(key, (-1, False, None, clock))
        while some := self._early.pop_due(before, _CHUNK)[0]:
            self.fates.unmatched += len(some)
        while some := self._over.pop_due(before, _CHUNK)[0]:
            for _, (slot, *_) in some:
                self._slots.free(slot)
        oldest = (queue.clock() for queue in (self._held, self._early, self._over))
        clocks = [one for one in oldest if one is not None]
        self._next = min(clocks, default=clock) + self._timeout

    def _by_default(self, key: str, slot: int, clock: int) -> Learn:
        if self._learns_again:
            return self._learn(key, slot, self._default, clock)
        self._close(key, (-1, False, None, clock))
        self._slots.free(slot)
        return Learn(slot, self._default)

    def count(self) -> Fates:
        """Return the fates, with what waits now."""
        self.fates.held, self.fates.waiting = len(self._held), len(self._early)
        return self.fates

    # --- state ------------------------------------------------------------------------------------

    @property
    def _queues(self) -> dict[str, WaitingQueue]:
        return {"held": self._held, "early": self._early, "over": self._over}

    @property
    def nbytes(self) -> int:
        """Memory of what is on the disk, in bytes."""
        return sum(queue.nbytes for queue in self._queues.values())

    def to_json(self) -> dict[str, int]:
        """Return the counts, as JSON data."""
        return asdict(self.count())

    def files(self) -> dict[str, list[str]]:
        """Return the names of the files that hold what is not in memory, as JSON data."""
        return {name: queue.files() for name, queue in self._queues.items()}

    def arrays(self) -> dict[str, Json]:
        """Return keys, clocks and labels as JSON in arrays of bytes, and what waits of the files.

        The slots are not among them: held events are numbered in their order.
        """
        found = {}
        for name, queue in self._queues.items():
            found[name], found[f"{name}_live"] = queue.arrays()
        return found

    def restore(
        self,
        counts: Mapping[str, Any],
        files: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        changed: Callable[[Records], Records | None],
    ) -> int:
        """Go on where `to_json`, `files` and `arrays` were called.

        Parameters
        ----------
        counts, files, arrays : mapping
        changed : function
            As of `SegmentLog.restore`.

        Returns
        -------
        int
            How many events are in memory, in slots from 0 on.

        Raises
        ------
        StateError
            If the data is not its own.
        """
        try:
            self.fates = Fates(**{name: int(n) for name, n in counts.items()})
            numbers = count()
            for name, queue in self._queues.items():
                queue.restore(arrays[name], files[name], arrays[f"{name}_live"], changed, numbers)
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise StateError(
                f"the held events in the checkpoint cannot be read: {error!r}"
            ) from error
        if max(len(queue) for queue in self._queues.values()) > self._most:
            raise StateError("the held events in the checkpoint are too many")
        self._next = -(1 << 63)
        return next(numbers)


_Class = str | bool | int | float
