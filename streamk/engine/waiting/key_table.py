"""A table of 64-bit hashes in two arrays: 23 to 32 bytes a key, where a dict takes 200."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeyTable", "hashes_of"]

Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]

_LEAST = 1 << 12
"""Slots at least."""
_MOST_LOAD = 0.7
"""Of the slots, those that are in use at most; half of them after the table was made anew."""
_TAIL = 1 << 10
"""Slots beyond the last one that a hash leads to."""
_PIECE = 1 << 20
"""Slots that are sorted at once when the table is made anew."""
_HALF = np.uint64(32)


def hashes_of(keys: Sequence[str]) -> Hashes:
    """Return 64 bits of BLAKE2b of each key, equal on any machine and in any process."""
    digests = [blake2b(key.encode(), digest_size=8).digest() for key in keys]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64, copy=False)


class KeyTable:
    """Rows by the hashes of their keys, with open addressing and linear probing.

    Nothing is removed: rows that are there no more are left out when the table is made anew. Two
    keys may have one hash, so what is found is a candidate.

    Parameters
    ----------
    alive : function
        Of int64 rows (n,), tells which of them are still there.

    Examples
    --------
    >>> table = KeyTable(lambda rows: np.full(len(rows), True))
    >>> table.add(hashes_of(["a", "b"]), np.array([7, 8]))
    >>> table.find(hashes_of(["b", "c", "a"]))
    (array([0, 2]), array([8, 7]))
    """

    def __init__(self, alive: Callable[[Rows], NDArray[np.bool_]]) -> None:
        self._alive = alive
        self._allocate(_LEAST)

    def _allocate(self, slots: int) -> None:
        self._slots, self._used = slots, 0
        self._hashes: Hashes = np.zeros(slots + _TAIL, np.uint64)
        self._rows: Rows = np.full(slots + _TAIL, -1, np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self._hashes.nbytes + self._rows.nbytes

    def _home(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return where hashes belong: in the order of the hashes, so that a copy is by pieces."""
        return (((hashes >> _HALF) * np.uint64(self._slots)) >> _HALF).astype(np.int64)

    def find(self, hashes: Hashes) -> tuple[NDArray[np.int64], Rows]:
        """Return candidates for hashes (n,): places in 0 to n - 1, sorted, and rows."""
        at, asked = self._home(hashes), np.arange(len(hashes))
        places, rows = [], []
        while len(asked):
            found = self._rows[at]
            used = found >= 0
            at, asked, found = at[used], asked[used], found[used]
            same = self._hashes[at] == hashes[asked]
            places.append(asked[same])
            rows.append(found[same])
            at = at + 1
        if not places:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        where = np.concatenate(places)
        order = np.argsort(where, kind="stable")
        return where[order], np.concatenate(rows)[order]

    def add(self, hashes: Hashes, rows: Rows) -> None:
        """Add rows (n,), none of which is there, with the hashes of their keys."""
        if self._used + len(rows) > _MOST_LOAD * self._slots:
            self._make_anew(len(rows))
        self._used += len(rows)
        at = self._home(hashes)
        while len(rows):
            self._reach(int(at.max()))
            free = self._rows[at] < 0
            self._rows[at[free]] = rows[free]  # of several at one place the last stays
            done = self._rows[at] == rows
            self._hashes[at[done]] = hashes[done]
            at, hashes, rows = at[~done] + 1, hashes[~done], rows[~done]

    def _reach(self, slot: int) -> None:
        """Have a free slot after the one given."""
        if slot + 1 >= len(self._rows):
            self._hashes = np.concatenate([self._hashes, np.zeros(_TAIL, np.uint64)])
            self._rows = np.concatenate([self._rows, np.full(_TAIL, -1, np.int64)])

    def _make_anew(self, more: int) -> None:
        """Leave out rows that are there no more, and have room for so many more."""
        pieces = self._pieces(self._hashes, self._rows)
        live = sum(int(self._alive(rows).sum()) for _, rows in pieces)
        pieces = self._pieces(self._hashes, self._rows)
        self._allocate(max(_LEAST, 2 * (live + more)))
        next_free = 0
        for hashes, rows in pieces:
            there = self._alive(rows)
            hashes, rows = hashes[there], rows[there]
            if not len(rows):
                continue
            order = np.argsort(hashes, kind="stable")
            hashes, rows, n = hashes[order], rows[order], np.arange(len(order))
            # Each in its home, or right after the one before it.
            at = np.maximum.accumulate(np.maximum(self._home(hashes) - n, next_free)) + n
            next_free = int(at[-1]) + 1
            while next_free >= len(self._rows):
                self._reach(len(self._rows))
            self._hashes[at], self._rows[at] = hashes, rows
            self._used += len(rows)

    @staticmethod
    def _pieces(hashes: Hashes, rows: Rows) -> Iterator[tuple[Hashes, Rows]]:
        """Yield what is in the slots, so that all hashes of a piece are above those before it."""
        first = 0
        while first < len(rows):
            last = min(first + _PIECE, len(rows) - 1)
            last += int(np.argmax(rows[last:] < 0)) + 1  # a free slot, over which no hash has gone
            used = np.flatnonzero(rows[first:last] >= 0) + first
            yield hashes[used], rows[used]
            first = last
