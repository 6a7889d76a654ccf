"""Events that wait until a later one brings the label that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.engine.training.bad_events import Fates
from streamk.errors import StateError
from streamk.late.held import HeldEvents, HeldRecords

Json = NDArray[np.uint8]
_Entries = list[tuple[int, int, int, Any]]
"""Of a series: the place or time of an event, its number in the series, its slot, and its label."""


class Due(NamedTuple):
    """A held event whose label has come; its slot is free then."""

    slot: int
    before: Any
    """The label that was the last when the event was predicted; None where it had none."""


class Ahead:
    """Events that are held until an event of the same series lies a span ahead of them.

    The label of the first one that does is theirs. One that comes more than twice the span ahead,
    after a gap, is not: what waited until then is dropped.

    Parameters
    ----------
    span : int
        Events of the series, or with `timed` milliseconds.
    timed : bool
    most : int
        Events that are held at once. The oldest of the series that was met longest ago goes first.
    held : HeldEvents, optional
        Where the events are put by whoever predicts them.

    Examples
    --------
    >>> ahead = Ahead(2, timed=False, most=100)
    >>> for label in "abc":
    ...     due = ahead.due("", 0, label)
    ...     _ = ahead.hold("", 0, label)
    >>> due, ahead.fates.joined, ahead.count().held
    ([Due(slot=0, before='a')], 1, 2)
    """

    def __init__(
        self, span: int, *, timed: bool, most: int, held: HeldEvents | None = None
    ) -> None:
        self.fates = Fates()
        self._span, self._timed, self._most = span, timed, most
        self._held = held or HeldEvents(0.0)
        self._series: dict[str, tuple[int, _Entries]] = {}
        """Events that each has had, and a heap of those that wait; the last one met comes last."""
        self._n = 0

    @property
    def slots(self) -> list[int]:
        """The slots of the events that wait, series by series."""
        return [entry[2] for _, entries in self._series.values() for entry in entries]

    def due(self, series: str, time: int, label: Any) -> list[Due]:
        """Return the events whose label the next event of a series has, or None: it is unknown."""
        number, entries = self._series.get(series, (0, []))
        now, found = time if self._timed else number, list[Due]()
        while entries and entries[0][0] <= now - self._span:
            at, _, slot, before = heappop(entries)
            self._n -= 1
            self._held.free(slot)
            if label is None or (self._timed and now - at >= 2 * self._span):
                self.fates.missing += 1
            else:
                self.fates.joined += 1
                found.append(Due(slot, before))
        return found

    def hold(self, series: str, time: int, label: Any) -> int:
        """Take the next event of a series, after `due`; return the slot in which it waits."""
        number, entries = self._series.pop(series, (0, []))
        slot = self._held.take()
        heappush(entries, (time if self._timed else number, number, slot, label))
        self._series[series] = number + 1, entries
        self._n += 1
        if self._n > self._most:
            oldest, (_, waiting) = next(iter(self._series.items()))
            self._held.free(heappop(waiting)[2])
            self._n -= 1
            self.fates.overflow += 1
            if not waiting:
                del self._series[oldest]
        return slot

    def settle(self) -> None:
        """Have the slots of events that were due used again: they are learned."""
        self._held.settle()

    # --- state ------------------------------------------------------------------------------------

    def count(self) -> Fates:
        """Return the fates, with what waits now."""
        self.fates.held = self._n
        return self.fates

    def to_json(self) -> dict[str, int]:
        """Return the counts, as JSON data."""
        return asdict(self.count())

    def files(self) -> dict[str, list[str]]:
        """Return the names of files: all is in memory."""
        return {}

    def arrays(self) -> dict[str, Json]:
        """Return series and what waits of them, as JSON in an array of bytes.

        The slots are not among them: held events are numbered in their order.
        """
        rows = [
            (name, number, [(at, n, label) for at, n, _, label in entries])
            for name, (number, entries) in self._series.items()
        ]
        return {"series": np.frombuffer(msgspec.json.encode(rows), np.uint8)}

    def restore(
        self,
        counts: Mapping[str, Any],
        files: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        check: Callable[[HeldRecords], None],
    ) -> int:
        """Go on where `to_json` and `arrays` were called; return how many events wait.

        They are in slots from 0 on. Raises `StateError` if the data is not its own.
        """
        del files, check
        kind: Any = list[tuple[str, int, list[tuple[int, int, str | bool | int | float | None]]]]
        slots = count()
        try:
            self.fates = Fates(**{name: int(n) for name, n in counts.items()})
            rows = msgspec.json.decode(arrays["series"].tobytes(), type=kind)
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise StateError(
                f"the held events in the checkpoint cannot be read: {error!r}"
            ) from error
        self._series = {
            name: (number, [(at, n, next(slots), label) for at, n, label in entries])
            for name, number, entries in rows
        }
        self._n = sum(len(entries) for _, entries in self._series.values())
        if len(self._series) < len(rows) or self._n > self._most:
            raise StateError("the held events in the checkpoint are too many, or a series is twice")
        return self._n
