"""The join of events and labels by their keys, and the fates of those that find no other.

Nothing here predicts, learns or looks at a clock on the wall: events and labels come in the order
of the sequence with its clocks, and each gives the steps that `LateWork` takes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.engine.training.fates import Fates
from streamk.errors import StateError

__all__ = ["Join", "Learn", "Predict"]

Label = Any
Json = NDArray[np.uint8]


class Predict(NamedTuple):
    """The next event is to be predicted; it is held in `slot`, or in none (-1)."""

    slot: int


class Learn(NamedTuple):
    """The event held in `slot` is to be learned with `label`, and the slot is free then."""

    slot: int
    label: Label


Step = Predict | Learn
_UNHELD = Predict(-1)


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

    Examples
    --------
    >>> join = Join(timeout=10, most=100)
    >>> join.event("a", 0), join.event("b", 1), join.label("a", True, 2)
    ([Predict(slot=0)], [Predict(slot=1)], [Learn(slot=0, label=True)])
    >>> join.label("a", False, 3), join.label("b", True, 20)
    ([], [])
    >>> join.fates.joined, join.fates.conflicts, join.fates.missing, join.fates.too_late
    (1, 1, 1, 1)
    """

    def __init__(self, timeout: int | None, most: int, default: Label = None) -> None:
        self.fates = Fates()
        self._timeout, self._most, self._default = timeout, most, default
        self._held: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Slot and clock by key."""
        self._early: OrderedDict[str, tuple[Label, int]] = OrderedDict()
        """Labels without an event yet, and the clock at which they came."""
        self._over: OrderedDict[str, tuple[bool, Label, int]] = OrderedDict()
        """Whether the key's label came in time, that label, and the clock at which it was over."""
        self._free: list[int] = []
        self._slots = 0
        """Slots in use, and free ones below them."""
        self._next = -(1 << 63)
        """The clock up to which nothing that waits is over its time."""

    @property
    def slots(self) -> list[int]:
        """The slots of the events held, the oldest first."""
        return [slot for slot, _ in self._held.values()]

    def event(self, key: str, clock: int) -> list[Step]:
        """Take an event; returns what is to be done now, in this order."""
        steps = self._expire(clock) if clock > self._next else []
        if key in self._held or key in self._over:
            self.fates.duplicate_events += 1
            steps.append(_UNHELD)
            return steps
        if len(self._held) >= self._most:
            oldest, (slot, _) = self._held.popitem(last=False)
            self._free.append(slot)
            self.fates.overflow += 1
            self._close(oldest, False, None, clock)
        if self._free:
            slot = self._free.pop()
        else:
            slot, self._slots = self._slots, self._slots + 1
        steps.append(Predict(slot))
        found = self._early.pop(key, None)
        if found is None:
            self._held[key] = slot, clock
        else:
            self.fates.early += 1
            steps.append(self._answer(key, slot, found[0], clock))
        return steps

    def label(self, key: str, label: Label, clock: int) -> list[Step]:
        """Take a label; returns what is to be done now, in this order."""
        steps = self._expire(clock) if clock > self._next else []
        held = self._held.pop(key, None)
        if held is not None:
            steps.append(self._answer(key, held[0], label, clock))
            return steps
        over, early = self._over.get(key), self._early.get(key)
        if over is not None and not over[0]:
            self.fates.too_late += 1
        elif over is not None or early is not None:
            known = over[1] if over is not None else early[0] if early is not None else None
            if type(known) is type(label) and known == label:
                self.fates.duplicates += 1
            else:
                self.fates.conflicts += 1
        else:
            if len(self._early) >= self._most:
                self._early.popitem(last=False)
                self.fates.unmatched += 1
            self._early[key] = label, clock
        return steps

    def _answer(self, key: str, slot: int, label: Label, clock: int) -> Learn:
        self.fates.joined += 1
        self._close(key, True, label, clock)
        self._free.append(slot)
        return Learn(slot, label)

    def _close(self, key: str, answered: bool, label: Label, clock: int) -> None:
        if len(self._over) >= self._most:
            self._over.popitem(last=False)
        self._over[key] = answered, label, clock

    def _expire(self, clock: int) -> list[Step]:
        """Drop all whose time is over at a clock."""
        if self._timeout is None:
            return []
        steps: list[Step] = []
        before = clock - self._timeout
        while self._held:
            key, (slot, since) = next(iter(self._held.items()))
            if since >= before:
                break
            del self._held[key]
            self._free.append(slot)
            self._close(key, False, None, clock)
            if self._default is None:
                self.fates.missing += 1
            else:
                self.fates.defaulted += 1
                steps.append(Learn(slot, self._default))
        while self._early and next(iter(self._early.values()))[1] < before:
            self._early.popitem(last=False)
            self.fates.unmatched += 1
        while self._over and next(iter(self._over.values()))[2] < before:
            self._over.popitem(last=False)
        self._next = min(self._oldest(), default=clock) + self._timeout
        return steps

    def _oldest(self) -> Iterator[int]:
        """Yield the clocks of the oldest that wait."""
        for table in (self._held, self._early, self._over):
            for entry in table.values():
                yield entry[-1]
                break

    def count(self) -> Fates:
        """Return the fates, with what waits now."""
        self.fates.held, self.fates.waiting = len(self._held), len(self._early)
        return self.fates

    # --- state ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, int]:
        """Return the counts, as JSON data."""
        return asdict(self.count())

    def arrays(self) -> dict[str, Json]:
        """Return keys, clocks and labels as JSON in arrays of bytes.

        The slots are not among them: held events are numbered in their order.
        """
        return {
            "held": _packed([[key, clock] for key, (_, clock) in self._held.items()]),
            "early": _packed([[key, *entry] for key, entry in self._early.items()]),
            "over": _packed([[key, *entry] for key, entry in self._over.items()]),
        }

    def restore(self, counts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
        """Go on where `to_json` and `arrays` were called; returns how many events are held.

        Raises
        ------
        StateError
            If the data is not its own.
        """
        try:
            known = {field.name for field in fields(Fates)}
            self.fates = Fates(**{name: int(n) for name, n in counts.items() if name in known})
            held = _unpacked(arrays["held"], list[tuple[str, int]])
            early = _unpacked(arrays["early"], list[tuple[str, _Class, int]])
            over = _unpacked(arrays["over"], list[tuple[str, bool, _Class | None, int]])
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise StateError(
                f"the held events in the checkpoint cannot be read: {error!r}"
            ) from error
        self._held = OrderedDict((key, (n, clock)) for n, (key, clock) in enumerate(held))
        self._early = OrderedDict((key, (label, clock)) for key, label, clock in early)
        self._over = OrderedDict((key, (done, label, clock)) for key, done, label, clock in over)
        if len(self._held) < len(held) or max(map(len, (held, early, over))) > self._most:
            raise StateError("the held events in the checkpoint are too many, or twice there")
        self._free, self._slots, self._next = [], len(held), -(1 << 63)
        return len(held)


_Class = str | bool | int | float


def _packed(rows: list[list[Any]]) -> Json:
    return np.frombuffer(msgspec.json.encode(rows), np.uint8)


def _unpacked(data: NDArray[Any], kind: Any) -> Any:
    if data.dtype != np.uint8 or data.ndim != 1:
        raise ValueError(f"an array of {data.dtype} is no JSON")
    return msgspec.json.decode(data.tobytes(), type=kind)
