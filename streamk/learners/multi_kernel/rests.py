"""Which external experts rest, where the mixture is as good without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, taken
from streamk.errors import StateError

STRETCH = 1_024
"""Events between two reviews."""
_TRIAL = 4
"""Reviews that an expert is active for at least."""
_SHORTEST, _LONGEST = 8, 64
"""Reviews for which it rests, at least and at most."""
_MEMORY = 0.5
"""Factor of what was known of its worth at each review."""
_FREE, _ACTIVE, _RESTS = range(3)
"""An expert that cannot rest, one that is active, and one that rests."""


class Rests:
    """Decides at each review which of several experts rest until another one.

    An expert that was active for four reviews goes on if it was worth its time, the last reviews
    counting most. Else it rests, for 8 reviews at first and twice as many each time, up to 64, and
    is then active for four again. Once it was worth its time the next rest is a short one.

    Parameters
    ----------
    can_rest : sequence of bool

    Examples
    --------
    >>> rests = Rests([True, False])
    >>> [rests.review(np.array([-1.0, -1.0])) for _ in range(12)][3::8]
    [[0], [0]]
    >>> rests.active
    [True, True]
    """

    def __init__(self, can_rest: list[bool]) -> None:
        self._known = np.zeros((len(can_rest), 4))
        """Kind, reviews since it last changed, next rest and worth of each expert."""
        self._known[:, 0] = np.where(can_rest, _ACTIVE, _FREE)
        self._known[:, 2] = _SHORTEST

    @property
    def active(self) -> list[bool]:
        """Which experts do not rest."""
        return [bool(found != _RESTS) for found in self._known[:, 0]]

    def review(self, worth: NDArray[np.float64]) -> list[int]:
        """Take in what each was worth (n,) since the last review; return those that change."""
        changed = []
        for place, known in enumerate(self._known):
            known[1] += 1.0
            if known[0] == _ACTIVE:
                known[3] = _MEMORY * known[3] + worth[place]
                if known[1] >= _TRIAL and known[3] > 0.0:
                    known[2] = _SHORTEST
                elif known[1] >= _TRIAL:
                    known[:2] = _RESTS, 0.0
                    changed.append(place)
            elif known[0] == _RESTS and known[1] >= known[2]:
                known[:] = _ACTIVE, 0.0, min(2.0 * known[2], _LONGEST), 0.0
                changed.append(place)
        return changed

    def begin(self) -> None:
        """Have all be active, as at the beginning."""
        some = self._known[:, 0] != _FREE
        self._known[some] = _ACTIVE, 0.0, _SHORTEST, 0.0

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return everything needed to go on exactly from here, by name."""
        return {"rests": self._known.copy()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], owner: str) -> None:
        """Take what `arrays` gave. Raises `StateError` if it does not fit."""
        one = Declared("rests", "float64", (len(self._known), 4), Domain(-1e12, 1e12))
        found = taken((one,), arrays, {}, owner)[0]["rests"]
        kinds, mine = found[:, 0], self._known[:, 0]
        fits = np.isin(kinds, (_FREE, _ACTIVE, _RESTS)) & ((kinds == _FREE) == (mine == _FREE))
        if not fits.all() or (found[:, 1:3] < 0.0).any():
            raise StateError(f"array 'rests' of {owner} does not fit its learners")
        self._known = found.copy()
