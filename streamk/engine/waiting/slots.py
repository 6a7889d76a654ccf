"""Slots, which are taken, lent for a while, and given back."""

from __future__ import annotations

__all__ = ["Slots"]


class Slots:
    """Numbers from 0 on, as low as may be.

    A slot that is free may be taken again at once; it is lent to another only after `settle`, since
    what was in it may still be read until then. One that is lent is not taken before its loan ends.

    Examples
    --------
    >>> slots = Slots()
    >>> slots.take(), slots.take(), slots.lend(2)
    (0, 1, [2, 3])
    >>> slots.free(0), slots.free(2)
    (None, None)
    >>> slots.take(), slots.take()
    (0, 4)
    >>> slots.end([2, 3])
    >>> slots.free(0), sorted(slots.lend(2))
    (None, [2, 3])
    >>> slots.settle()
    >>> slots.lend(1)
    [0]
    """

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, used: int) -> None:
        """Begin anew, with so many that are taken."""
        self._used = used
        """Slots that were ever taken or lent."""
        self._free: list[int] = []
        """Free since the last `settle`."""
        self._spare: list[int] = []
        """Free, and nothing that was in them is read any more."""
        self._lent: set[int] = set()

    def take(self) -> int:
        """Return a slot that is free."""
        if self._free:
            return self._free.pop()
        return self._spare.pop() if self._spare else self._new()

    def _new(self) -> int:
        self._used += 1
        return self._used - 1

    def free(self, slot: int) -> None:
        """Give a slot back; of one that is lent, leave that to its end. -1 is none."""
        if slot >= 0 and slot not in self._lent:
            self._free.append(slot)

    def lend(self, n: int) -> list[int]:
        """Return so many slots that nobody is given before `end`."""
        lent = [self._spare.pop() if self._spare else self._new() for _ in range(n)]
        self._lent.update(lent)
        return lent

    def keep(self, slot: int) -> None:
        """Have a slot that was lent as one that was taken."""
        self._lent.discard(slot)

    def end(self, slots: list[int]) -> None:
        """End the loan of slots; those that are kept stay."""
        for slot in slots:
            if slot in self._lent:
                self._lent.remove(slot)
                self._spare.append(slot)

    def settle(self) -> None:
        """Have all that is free lent as well: nothing that was in it is read any more."""
        self._spare += self._free
        self._free = []
