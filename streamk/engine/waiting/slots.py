"""Slots, which are taken, lent for a while, and given back."""

from __future__ import annotations

__all__ = ["Slots"]


class Slots:
    """Numbers from 0 on, as low as may be.

    A slot that is free may be taken again at once; one that is lent is not, until its loan ends.

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
    >>> sorted(slots.lend(2))
    [2, 3]
    """

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, used: int) -> None:
        """Begin anew, with so many that are taken."""
        self._used = used
        """Slots that were ever taken, and free ones below them."""
        self._free: list[int] = []
        self._lent: set[int] = set()
        self._spare: list[int] = []
        """Slots that were lent, and are lent again: what was free a moment ago is still read."""

    def take(self) -> int:
        """Return a slot that is free."""
        return self._free.pop() if self._free else self._new()

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
