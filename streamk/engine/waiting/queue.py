"""Entries by their keys, the oldest first: the young in memory, those before them on the disk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.waiting.held import HeldEvents, Records
from streamk.engine.waiting.segment_log import SEGMENT_ROWS, SegmentLog
from streamk.errors import StateError

__all__ = ["MEMORY", "WaitingQueue"]

MEMORY = 64 << 20
"""Bytes of the young ones of a queue, about; beyond that the oldest go to the disk."""
_ENTRY_BYTES = 250
"""Of an entry in memory, with a key of some characters."""

Entry = tuple[Any, ...]
"""The slot of an event, -1 where there is none, what else is known, and the clock."""


class WaitingQueue:
    """Entries by key.

    What is on the disk is found by `look_up` alone, for all keys of a batch; nothing goes there
    before `seal`.

    Parameters
    ----------
    kind : type
        Of an entry in a file: a tuple of the key and all but the slot.
    files : SegmentFiles
    held : HeldEvents, optional
        Where entries have their slots; by default they have none.
    """

    def __init__(self, kind: Any, files: SegmentFiles, held: HeldEvents | None = None) -> None:
        self._kind, self._held = kind, held
        self._young: OrderedDict[str, Entry] = OrderedDict()
        self._log = SegmentLog(files, kind)
        self._found: dict[str, tuple[int, Entry]] = {}
        """Of keys of the batch the rows on the disk, and the entries."""
        self._lent: list[int] = []

    def __len__(self) -> int:
        return len(self._young) + len(self._log)

    @property
    def slots(self) -> list[int]:
        """The slots of the young ones that have one, the oldest first."""
        return [entry[0] for entry in self._young.values() if entry[0] >= 0]

    @property
    def nbytes(self) -> int:
        """Memory of what is on the disk, in bytes."""
        return self._log.nbytes

    # --- one by one -------------------------------------------------------------------------------

    def get(self, key: str) -> Entry | None:
        """Return an entry, None where there is none."""
        entry = self._young.get(key)
        if entry is None and self._found and key in self._found:
            row, entry = self._found[key]
            return entry if self._log.is_alive(row) else None
        return entry

    def pop(self, key: str) -> Entry | None:
        """Remove and return an entry, None where there is none."""
        entry = self._young.pop(key, None)
        if entry is None and self._found and self.get(key) is not None:
            row, entry = self._found.pop(key)
            self._log.remove(row)
        return entry

    def add(self, key: str, entry: Entry) -> None:
        """Add an entry whose key is not there, and whose clock is not below the others'."""
        self._young[key] = entry

    def clock(self) -> int | None:
        """Return the clock of the oldest entry; None where there is none."""
        found = self._log.oldest() if len(self._log) else None
        if found is not None:
            return int(found.entry[-1])
        return next(iter(self._young.values()))[-1] if self._young else None

    def pop_oldest(self) -> tuple[str, Entry]:
        """Remove and return the oldest key and entry, without a slot if that is on the disk."""
        found = self._log.oldest() if len(self._log) else None
        if found is None:
            return self._young.popitem(last=False)
        self._log.remove(found.row)
        key, *rest = found.entry
        return key, (-1, *rest)

    def pop_due(
        self, before: int, most: int, *, recall: bool = False
    ) -> tuple[list[tuple[str, Entry]], list[int]]:
        """Remove and return the oldest whose clocks are lower, so many at most.

        Parameters
        ----------
        before, most : int
        recall : bool, default False
            They are to have slots.

        Returns
        -------
        list of (str, entry)
        list of int
            Slots that were lent for them; those of `look_up` are not among these.
        """
        due: list[tuple[str, Entry]] = []
        rows = self._log.due(before, most) if len(self._log) else []
        if rows:
            missing = [one for one in rows if recall and one.entry[0] not in self._found]
            lent = self._recall([one.row for one in missing])
            anew = dict(zip((one.entry[0] for one in missing), lent, strict=True))
            for row, (key, *rest) in rows:
                self._log.remove(row)
                slot = anew[key] if key in anew else self._found[key][1][0] if recall else -1
                due.append((key, (slot, *rest)))
            return due, lent
        while self._young and len(due) < most and next(iter(self._young.values()))[-1] < before:
            due.append(self._young.popitem(last=False))
        return due, []

    # --- batches ----------------------------------------------------------------------------------

    def look_up(self, keys: Sequence[str], due: tuple[int, int] | None = None) -> None:
        """Find the keys of a batch on the disk, and have their events in slots until `seal`.

        Parameters
        ----------
        keys : sequence of str
        due : (int, int), optional
            A clock, and how many of the oldest before it are to be found too.

        Raises
        ------
        StateError
            If a file is damaged.
        """
        if not len(self._log):
            return
        found = self._log.find(keys)
        if due is not None:
            found |= {one.entry[0]: one for one in self._log.due(*due)}
        self._lent = self._recall([one.row for one in found.values()])
        slots = self._lent or [-1] * len(found)
        self._found = {
            key: (one.row, (slot, *one.entry[1:]))
            for slot, (key, one) in zip(slots, found.items(), strict=True)
        }

    def _recall(self, rows: list[int]) -> list[int]:
        """Return slots that are lent to events on the disk; none where entries have none."""
        if self._held is None or not rows:
            return []
        slots = np.array(self._held.slots.lend(len(rows)))
        for places, records in self._log.records(rows):
            self._held.put_records(slots[places], records)
        found: list[int] = slots.tolist()
        return found

    def seal(self) -> None:
        """Have the oldest on the disk where too many are in memory, after a batch.

        Raises
        ------
        EngineError
            If they cannot be written.
        """
        self._found = {}
        held, self._lent, lent = self._held, [], self._lent
        size = _ENTRY_BYTES
        if held is not None:
            held.slots.end(lent)
            size += held.record_bytes
        while len(self._young) >= max(SEGMENT_ROWS, MEMORY // size) + SEGMENT_ROWS:
            some = list(islice(self._young.items(), SEGMENT_ROWS))
            slots = [entry[0] for _, entry in some]
            records = None if held is None else held.records(slots)
            self._log.append([(key, *entry[1:]) for key, entry in some], records)
            for key, _ in some:
                del self._young[key]
            if held is not None:
                for slot in slots:
                    held.slots.free(slot)

    # --- state ------------------------------------------------------------------------------------

    def files(self) -> list[str]:
        """Return the names of the files on the disk, in order."""
        return self._log.names()

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the young ones, without their slots, as JSON, and what waits on the disk."""
        rows = [(key, *entry[1:]) for key, entry in self._young.items()]
        return np.frombuffer(msgspec.json.encode(rows), np.uint8), self._log.live()

    def restore(
        self,
        young: NDArray[Any],
        names: Sequence[str],
        live: NDArray[Any],
        changed: Callable[[Records], Records | None],
        slots: Iterator[int],
    ) -> None:
        """Go on with what `arrays` and `files` gave.

        Parameters
        ----------
        young : uint8 array
        names : sequence of str
        live : uint8 array
        changed : function
            As of `SegmentLog.restore`.
        slots : iterator of int
            Gives the slots of those that have one.

        Raises
        ------
        StateError, ValueError, msgspec.MsgspecError
            If it is not its own.
        """
        if young.dtype != np.uint8 or young.ndim != 1:
            raise ValueError(f"an array of {young.dtype} is no JSON")
        kind: Any = list[self._kind]  # type: ignore[name-defined]
        rows = msgspec.json.decode(young.tobytes(), type=kind)
        has_slots = self._held is not None
        # Of a key that is over without a label there is no event, see `Join`.
        self._young = OrderedDict(
            (key, (next(slots) if has_slots and rest[0] is not False else -1, *rest))
            for key, *rest in rows
        )
        if len(self._young) < len(rows):
            raise StateError("a key is twice among the held events in the checkpoint")
        self._log.restore(names, live, changed if has_slots else None)
