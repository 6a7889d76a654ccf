"""Events that wait until a later one brings the label that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
_Label = str | bool | int | float | None
_Entries = list[tuple[int, int, int, Any]]
"""A heap: the place or time of an event, its number in the series, its slot, and its label."""
_Series = tuple[int, list[_Entries]]
"""Events that it has had, and those that wait, span by span."""


class Lead(NamedTuple):
    """So many events, or so much time, ahead."""

    size: int
    """Events, or milliseconds."""
    timed: bool


class Due(NamedTuple):
    """A held event with its label; its slot is free again."""

    slot: int
    before: Any
    """The label that was the last when the event was predicted; None where it had none."""
    span: int = 0
    """The number of the span that lies between."""


class Ahead:
    """Events that are held until one of the same series lies a span ahead of them.

    The label of the first one that does is theirs. One that comes more than twice a span of time
    ahead, after a gap, is not: what waited until then is dropped. With several spans an event is
    held once for each, in their order.

    Parameters
    ----------
    spans : sequence of Lead
    most : int
        Events that are held at once, for each of the spans. Of the series that was met longest ago
        the oldest one goes first.
    held : HeldEvents, optional
        Where the events are put by whoever predicts them.

    Examples
    --------
    >>> ahead = Ahead([Lead(2, timed=False)], most=100)
    >>> for label in "abc":
    ...     due = ahead.due("", 0, label)
    ...     _ = ahead.hold("", 0, label)
    >>> due, ahead.fates.joined, ahead.count().held
    ([Due(slot=0, before='a', span=0)], 1, 2)
    """

    def __init__(self, spans: Sequence[Lead], *, most: int, held: HeldEvents | None = None) -> None:
        self.fates = Fates()
        self._spans, self._most = tuple(spans), most * len(spans)
        self._held = held or HeldEvents(0.0)
        self._series: dict[str, _Series] = {}
        """By name, the last one met comes last."""
        self._n = 0

    @property
    def slots(self) -> list[int]:
        """The slots of the events that wait, series by series and span by span."""
        return [entry[2] for _, heaps in self._series.values() for heap in heaps for entry in heap]

    def due(self, series: str, time: int, label: Any) -> list[Due]:
        """Return the events whose label comes with the next event of a series; None if unknown."""
        self._drop_late(time)
        found = list[Due]()
        if series not in self._series:
            return found
        number, heaps = self._series[series]
        for k, (span, waiting) in enumerate(zip(self._spans, heaps, strict=True)):
            now = time if span.timed else number
            while waiting and waiting[0][0] <= now - span.size:
                at, _, slot, before = self._pop(waiting)
                if label is None or (span.timed and now - at >= 2 * span.size):
                    self.fates.missing += 1
                else:
                    self.fates.joined += 1
                    found.append(Due(slot, before, k))
        return found

    def _drop_late(self, time: int) -> None:
        """Drop what has waited too long in the series that was met longest ago, which may be over.

        That is one series with each event, so that one wrong time does not end them all.
        """
        if not self._series:
            return
        oldest, (_, heaps) = next(iter(self._series.items()))
        for span, waiting in zip(self._spans, heaps, strict=True):
            while span.timed and waiting and time - waiting[0][0] >= 2 * span.size:
                self._pop(waiting)
                self.fates.missing += 1
        if not any(heaps):
            del self._series[oldest]

    def _pop(self, waiting: _Entries) -> tuple[int, int, int, Any]:
        """Return the first that waits, which is held no more."""
        first = heappop(waiting)
        self._held.free(first[2])
        self._n -= 1
        return first

    def hold(self, series: str, time: int, label: Any) -> list[int]:
        """Take the next event of a series, after `due`; return the slots in which it waits."""
        number, heaps = self._series.pop(series, (0, [[] for _ in self._spans]))
        self._series[series] = number + 1, heaps
        slots = [self._held.take() for _ in self._spans]
        for span, waiting, slot in zip(self._spans, heaps, slots, strict=True):
            heappush(waiting, (time if span.timed else number, number, slot, label))
        self._n += len(slots)
        while self._n > self._most:
            self._drop()
        return slots

    def _drop(self) -> None:
        """Drop the oldest event of the series that was met longest ago."""
        oldest, (_, heaps) = next(iter(self._series.items()))
        for waiting in filter(None, heaps):
            self._pop(waiting)
            self.fates.overflow += 1
        if not any(heaps):
            del self._series[oldest]

    def settle(self) -> None:
        """Have the slots of events that were due used again: they are learned."""
        self._held.settle()

    # --- state ------------------------------------------------------------------------------------

    def count(self) -> Fates:
        """Return the fates, with what waits now."""
        self.fates.held = self._n
        return self.fates

    def to_json(self) -> dict[str, Any]:
        """Return the counts, as JSON data."""
        return {"fates": asdict(self.count())}

    def arrays(self) -> dict[str, Json]:
        """Return series and what waits of them, as JSON in an array of bytes.

        The slots are not among them: held events are numbered in their order.
        """
        rows = [
            (name, number, [[(at, n, label) for at, n, _, label in heap] for heap in heaps])
            for name, (number, heaps) in self._series.items()
        ]
        return {"series": np.frombuffer(msgspec.json.encode(rows), np.uint8)}

    def restore(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        check: Callable[[HeldRecords], None],
    ) -> int:
        """Go on where `to_json` and `arrays` were called; return how many events wait.

        They are in slots from 0 on. Raises `StateError` if the data is not its own.
        """
        del check
        kind: Any = list[tuple[str, int, list[list[tuple[int, int, _Label]]]]]
        slots = count()
        try:
            self.fates = Fates(**{name: int(n) for name, n in header["fates"].items()})
            rows = msgspec.json.decode(arrays["series"].tobytes(), type=kind)
        except (AttributeError, KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise StateError(
                f"the held events in the checkpoint cannot be read: {error!r}"
            ) from error
        self._series = {
            name: (number, [[(at, n, next(slots), y) for at, n, y in heap] for heap in heaps])
            for name, number, heaps in rows
        }
        self._n = len(self.slots)
        fits = all(len(heaps) == len(self._spans) for _, heaps in self._series.values())
        if not fits or len(self._series) < len(rows) or self._n > self._most:
            raise StateError("the held events in the checkpoint do not fit their horizon")
        return self._n
