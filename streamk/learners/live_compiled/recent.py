"""The last events of a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecentEvents"]

Numbers = NDArray[Any]

_FIRST = 256
"""Events that there is room for at first."""


class RecentEvents:
    """The last events, at most so many, in their order.

    Parameters
    ----------
    most : int
    most_bytes : int
        Memory of the events, at most; two are kept in any case.

    Examples
    --------
    >>> recent = RecentEvents(3, most_bytes=1 << 20)
    >>> recent.add_columns(1)
    >>> recent.add(np.arange(5.0)[:, None])
    >>> recent.events[:, 0].tolist()
    [2.0, 3.0, 4.0]
    """

    def __init__(self, most: int, *, most_bytes: int) -> None:
        self._limits = most, most_bytes
        self._room = np.empty((0, 0))
        self._start = self._stop = 0

    @property
    def _most(self) -> int:
        most, most_bytes = self._limits
        return max(2, min(most, most_bytes // (8 * max(1, self._room.shape[1]))))

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._room.nbytes

    @property
    def events(self) -> Numbers:
        """The events (n, d), float64, not copied."""
        return self._room[self._start : self._stop]

    def add(self, X: Numbers) -> None:
        """Take in events (n, d)."""
        most = self._most
        X = X[-most:]
        if self._stop + len(X) > len(self._room):
            self._make_room(len(X))
        self._room[self._stop : self._stop + len(X)] = X
        self._stop += len(X)
        self._start = max(self._start, self._stop - most)

    def _make_room(self, more: int) -> None:
        """Move the events to the beginning of a room that holds so many more, and as many again."""
        kept = self.events
        size = max(_FIRST, min(2 * (len(kept) + more), self._most + self._most // 4 + more))
        room = np.empty((size, self._room.shape[1]))
        room[: len(kept)] = kept
        self._room, self._start, self._stop = room, 0, len(kept)

    def add_columns(self, n: int) -> None:
        """Append columns that were zero in all events so far."""
        self._room = np.pad(self.events, ((0, 0), (0, n)))
        self._stop = len(self._room)
        self._start = max(0, self._stop - self._most)  # wider events are fewer
