"""Random numbers of each event: for its role, the event that leaves the sample, and ties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.backends import TAG_EVENT, philox

_AHEAD = 1024
"""Events that are drawn for at once."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class Draws:
    """Three uniform numbers in (0, 1) for each event, functions of seed and event number alone.

    Parameters
    ----------
    seed : int
        0 to 2^64 - 1.

    Examples
    --------
    >>> draws = Draws(7)
    >>> one, some = draws.take(1023, 1), draws.take(1020, 100)
    >>> some.shape, bool((one[0] == some[3]).all())
    ((4, 3), True)
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._first = -1
        self._drawn: NDArray[np.float64] = np.zeros((0, 3))

    def take(self, first: int, n: int) -> NDArray[np.float64]:
        """Return the numbers (n, 3) of events from `first` on, perhaps of fewer, at least of 1."""
        start = first % _AHEAD
        if first - start != self._first:
            self._first = first - start
            counter = np.zeros((_AHEAD, 4), np.uint64)
            numbers = np.arange(self._first, self._first + _AHEAD, dtype=np.uint64)
            counter[:, 0], counter[:, 1] = numbers & _LOW, TAG_EVENT
            counter[:, 2] = numbers >> _HALF
            words = philox(counter, self._seed)[:, :3].astype(np.float64)
            self._drawn = (words + 0.5) * 2.0**-32
        return self._drawn[start : start + n]
