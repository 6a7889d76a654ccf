"""Joins events and labels by their keys, and counts those without a match.

Nothing here predicts, learns or looks at a clock on the wall: events and labels come in the order
of the sequence with its clocks, and each gives the steps that `Steps` follows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count, islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.engine.checkpoints.segment_files import SegmentFiles, is_name
from streamk.engine.training.bad_events import Fates, Revisions
from streamk.errors import StateError
from streamk.late.held import HeldEvents, HeldRecords
from streamk.late.segments import SEGMENT_ROWS, Found, SegmentLog

MEMORY = 64 << 20
"""Bytes of the young ones of a queue, about; beyond that the oldest go to the disk."""
_ENTRY_BYTES = 250
"""Of an entry in memory, with a key of some characters."""

Label = Any
_Class = str | bool | int | float
Json = NDArray[np.uint8]
Entry = tuple[Any, ...]
"""The slot of an event, -1 where there is none, what else is known, and the clock."""


class WaitingQueue:
    """Entries by their keys, the oldest first: the young in memory, those before on the disk.

    What is on the disk is found by `look_up` alone, for all keys of a batch; nothing goes there
    before `seal`. In a file an entry is of a `kind` of tuple: the key and all but the slot. Without
    `held` they have no slots.
    """

    def __init__(self, kind: Any, files: SegmentFiles, held: HeldEvents | None = None) -> None:
        self._kind, self._held = kind, held
        self._young: OrderedDict[str, Entry] = OrderedDict()
        self._log = SegmentLog(files, kind)
        self._found: dict[str, tuple[int, Entry]] = {}
        """Of keys of the batch that wait on the disk the rows, and the entries."""

    def __len__(self) -> int:
        return len(self._young) + len(self._log)

    @property
    def slots(self) -> list[int]:
        """The slots of the young ones that have one, the oldest first."""
        return [entry[0] for entry in self._young.values() if entry[0] >= 0]

    # --- one by one -------------------------------------------------------------------------------

    def get(self, key: str) -> Entry | None:
        """Return an entry; None if the key is missing."""
        entry = self._young.get(key)
        if entry is None and key in self._found:
            return self._found[key][1]
        return entry

    def pop(self, key: str) -> Entry | None:
        """Remove and return an entry, with its slot; None if the key is missing."""
        entry = self._young.pop(key, None)
        if entry is None and key in self._found:
            row, entry = self._found.pop(key)
            self._log.remove(row)
        return entry

    def add(self, key: str, entry: Entry) -> None:
        """Add an entry with a new key and a clock not below those of the others."""
        self._young[key] = entry

    def clock(self) -> int | None:
        """Return the clock of the oldest entry; None if the queue is empty."""
        found = self._log.oldest()
        if found is not None:
            return int(found.entry[-1])
        return next(iter(self._young.values()))[-1] if self._young else None

    def pop_oldest(self) -> tuple[str, Entry]:
        """Remove and return the oldest key and entry, mostly without a slot if it is on disk."""
        found = self._log.oldest()
        return self._young.popitem(last=False) if found is None else self._popped(found)

    def _popped(self, found: Found) -> tuple[str, Entry]:
        self._log.remove(found.row)
        _, entry = self._found.pop(found.key, (found.row, (-1, *found.entry[1:])))
        return found.key, entry

    def pop_due(
        self, before: int, most: int, *, recall: bool = False
    ) -> tuple[list[tuple[str, Entry]], bool]:
        """Remove and return the oldest entries with lower clocks, at most so many.

        With `recall` they are to have slots. The second of what is returned tells whether some were
        given slots that `look_up` had not given them.
        """
        if rows := self._log.due(before, most):
            missing = [one for one in rows if recall and one.key not in self._found]
            self._recall(missing)
            return [self._popped(one) for one in rows], bool(missing)
        due: list[tuple[str, Entry]] = []
        while self._young and len(due) < most and next(iter(self._young.values()))[-1] < before:
            due.append(self._young.popitem(last=False))
        return due, False

    # --- batches ----------------------------------------------------------------------------------

    def look_up(self, keys: Sequence[str], due: tuple[int, int] | None = None) -> None:
        """Find the keys of a batch on the disk, and have their events in slots until `seal`.

        `due` is a clock, and how many of the oldest before it are found too. Raises
        `StateError` if a file is damaged.
        """
        if not len(self._log):
            return
        found = self._log.find(keys)
        if due is not None:
            found |= {one.key: one for one in self._log.due(*due)}
        self._recall(list(found.values()))

    def _recall(self, found: list[Found]) -> None:
        """Have rows among those that are found, and their events in slots, if they have any."""
        slots, held = [-1] * len(found), self._held
        if held is not None:
            slots = [held.take() for _ in found]
            for kind in {one.type for one in found}:
                some = [
                    (slot, one) for slot, one in zip(slots, found, strict=True) if one.type == kind
                ]
                records = np.frombuffer(b"".join(one.record for _, one in some), kind)
                held.put_records([slot for slot, _ in some], records)
        for slot, one in zip(slots, found, strict=True):
            self._found[one.key] = one.row, (slot, *one.entry[1:])

    def seal(self) -> None:
        """Have the oldest on the disk where too many are in memory, after a batch.

        Raises `EngineError` if they cannot be written.
        """
        held, size = self._held, _ENTRY_BYTES
        if held is not None:
            size += held.events.itemsize
            for _, (slot, *_) in self._found.values():
                held.free(slot)
        self._found = {}
        while len(self._young) >= max(SEGMENT_ROWS, MEMORY // size) + SEGMENT_ROWS:
            some = list(islice(self._young.items(), SEGMENT_ROWS))
            slots = [entry[0] for _, entry in some]
            records = None if held is None else held.records(slots)
            self._log.append([(key, *entry[1:]) for key, entry in some], records)
            for key, entry in some:
                del self._young[key]
                if held is not None:
                    held.free(entry[0])

    # --- state ------------------------------------------------------------------------------------

    def files(self) -> list[str]:
        """Return the names of the files on the disk, in order."""
        return self._log.names()

    def arrays(self) -> tuple[Json, NDArray[np.uint8]]:
        """Return the young ones, without their slots, as JSON, and what waits on the disk."""
        rows = [(key, *entry[1:]) for key, entry in self._young.items()]
        return np.frombuffer(msgspec.json.encode(rows), np.uint8), self._log.live()

    def restore(
        self,
        young: NDArray[Any],
        names: Sequence[str],
        live: NDArray[Any],
        check: Callable[[HeldRecords], None],
        slots: Iterator[int],
    ) -> None:
        """Restore from `arrays` and `files`; `slots` gives the slots of entries that have one.

        Raises `StateError`, `ValueError`, `msgspec.MsgspecError` if it is not its own, and what
        `check` raises, see `check_held`.
        """
        if young.dtype != np.uint8 or young.ndim != 1:
            raise ValueError(f"an array of {young.dtype} is not JSON")
        kind: Any = list[self._kind]  # type: ignore[name-defined]
        rows = msgspec.json.decode(young.tobytes(), type=kind)
        has_slots = self._held is not None
        # Of a key that is over without a label there is no event, see `Join`.
        self._young = OrderedDict(
            (key, (next(slots) if has_slots and rest[0] is not False else -1, *rest))
            for key, *rest in rows
        )
        if len(self._young) < len(rows):
            raise StateError("a key occurs twice among the held events in the checkpoint")
        self._log.restore(names, live, check if has_slots else None)


class Predict(NamedTuple):
    """Predict the next event, and hold it in `slot`, or not at all (-1)."""

    slot: int


class Learn(NamedTuple):
    """Learn the event in `slot` with `label`; `again` if it was learned before.

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
        self._events, self._learns_again = held, revisions == "learn"
        files = files or SegmentFiles()
        self._held = WaitingQueue(tuple[str, int], files, held)
        self._early = WaitingQueue(tuple[str, _Class, int], files)
        """Labels without an event yet, and the clock at which they came."""
        remembered = held if self._learns_again else None
        self._over = WaitingQueue(tuple[str, bool, _Class | None, int], files, remembered)
        """By key: is its label known, that label, and the clock at which it was over."""
        self._queues = {"held": self._held, "early": self._early, "over": self._over}
        self._next = -(1 << 63)
        """The clock up to which nothing that waits is over its time."""

    @property
    def slots(self) -> list[int]:
        """The slots of the events in memory: held ones, and those that may be learned again."""
        return [*self._held.slots, *self._over.slots]

    def begin(self, keys: Sequence[str], last: int) -> None:
        """Read from disk the entries that a batch needs: those of its keys, and those it makes due.

        `last` is the highest clock. Raises `StateError` if a file is damaged.
        """
        due = None
        if self._timeout is not None and self._default is not None:
            due = last - self._timeout, _CHUNK
        self._held.look_up(keys, due)
        self._early.look_up(keys)
        self._over.look_up(keys)

    def end(self) -> None:
        """End a batch after all its steps. Raises `EngineError` if files fail."""
        for queue in self._queues.values():
            queue.seal()
        self.settle()

    def settle(self) -> None:
        """Have slots that are free used again, when all steps so far were followed to their end."""
        self._events.settle()

    def event(self, key: str, clock: int) -> list[Step]:
        """Take an event, after the steps of `due`; return the next steps, in order."""
        if self._held.get(key) is not None or self._over.get(key) is not None:
            self.fates.duplicate_events += 1
            return [_UNHELD]
        if len(self._held) >= self._most:
            oldest, (slot, _) = self._held.pop_oldest()
            self._events.free(slot)
            self.fates.overflow += 1
            self._close(oldest, (-1, False, None, clock))
        slot = self._events.take()
        found = self._early.pop(key)
        if found is None:
            self._held.add(key, (slot, clock))
            return [Predict(slot)]
        self.fates.early += 1
        self.fates.joined += 1
        return [Predict(slot), self._learn(key, slot, found[1], clock)]

    def label(self, key: str, label: Label, clock: int) -> list[Step]:
        """Take a label, after the steps of `due`; return the next steps."""
        held = self._held.pop(key)
        if held is not None:
            self.fates.joined += 1
            return [self._learn(key, held[0], label, clock)]
        over = self._over.get(key)
        known = over[1:] if over is not None else self._early.get(key)
        if over is not None and not over[1]:
            self.fates.too_late += 1
        elif known is not None:
            if type(known[1]) is type(label) and known[1] == label:
                self.fates.duplicates += 1
            elif over is not None and self._learns_again:
                self.fates.revised += 1
                self._over.pop(key)
                return [self._learn(key, over[0], label, clock)._replace(again=True)]
            else:
                self.fates.conflicts += 1
        else:
            if len(self._early) >= self._most:
                self._early.pop_oldest()
                self.fates.unmatched += 1
            self._early.add(key, (-1, label, clock))
        return []

    def _learn(self, key: str, slot: int, label: Label, clock: int) -> Learn:
        """Have an event learned, and its key over."""
        if self._learns_again:
            self._close(key, (slot, True, label, clock))
        else:
            self._close(key, (-1, True, label, clock))
            self._events.free(slot)
        return Learn(slot, label)

    def _close(self, key: str, entry: Entry) -> None:
        if len(self._over) >= self._most:
            _, (slot, *_) = self._over.pop_oldest()
            self._events.free(slot)
        self._over.add(key, entry)

    def due(self, clock: int) -> Iterator[tuple[list[Step], bool]]:
        """Yield the steps that are due at a clock, before a record of that time is taken.

        Where the second of a pair is true, the steps so far are followed to their end before the
        next is asked for, and `settle` is called.
        """
        if self._timeout is None or clock <= self._next:
            return
        before = clock - self._timeout
        has_default = self._default is not None
        while True:
            some, recalled = self._held.pop_due(before, _CHUNK, recall=has_default)
            if not some:
                break
            if has_default:
                self.fates.defaulted += len(some)
                yield [self._by_default(key, entry[0], clock) for key, entry in some], recalled
                continue
            self.fates.missing += len(some)
            for key, (slot, _) in some:
                self._events.free(slot)
                self._close(key, (-1, False, None, clock))
        while some := self._early.pop_due(before, _CHUNK)[0]:
            self.fates.unmatched += len(some)
        while some := self._over.pop_due(before, _CHUNK)[0]:
            for _, (slot, *_) in some:
                self._events.free(slot)
        oldest = (queue.clock() for queue in self._queues.values())
        clocks = [one for one in oldest if one is not None]
        self._next = min(clocks, default=clock) + self._timeout

    def _by_default(self, key: str, slot: int, clock: int) -> Learn:
        if self._learns_again:
            return self._learn(key, slot, self._default, clock)
        self._close(key, (-1, False, None, clock))
        self._events.free(slot)
        return Learn(slot, self._default)

    def count(self) -> Fates:
        """Return the fates, with what waits now."""
        self.fates.held, self.fates.waiting = len(self._held), len(self._early)
        return self.fates

    # --- state ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the counts, and the names of the files of entries on disk, as JSON data."""
        files = {name: queue.files() for name, queue in self._queues.items()}
        return {"fates": asdict(self.count()), "segments": files}

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
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        check: Callable[[HeldRecords], None],
    ) -> int:
        """Go on where `to_json` and `arrays` were called.

        Returns how many events are in memory, in slots from 0 on. Raises `StateError` if the data
        is not its own, or as `check` does, see `check_held`.
        """
        try:
            self.fates = Fates(**{name: int(n) for name, n in header["fates"].items()})
            files, numbers = header["segments"], count()
            for name, queue in self._queues.items():
                if not all(map(is_name, files[name])):
                    raise StateError("held events: their counts or files are missing")
                queue.restore(arrays[name], files[name], arrays[f"{name}_live"], check, numbers)
        except (AttributeError, KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise StateError(
                f"the held events in the checkpoint cannot be read: {error!r}"
            ) from error
        if max(len(queue) for queue in self._queues.values()) > self._most:
            raise StateError("the held events in the checkpoint are too many")
        self._next = -(1 << 63)
        return next(numbers)
