"""The first events of external experts, kept while they may have to be learned anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.declared import Declared, Domain, taken
from streamk.errors import StateError

MOST = 512
"""Events that are learned anew when the scale changes among them."""

_EVENTS = Domain(-LARGEST, LARGEST, missing=True)
_ARRAYS = ("events", "numbers")


class EarlyEvents:
    """Raw events and their labels in a pool's terms, up to the first 512.

    Attributes
    ----------
    are_kept : bool
        Whether they are still among the first.
    events : float64 array of shape (n, d)
    numbers : float64 array of shape (n,)
    """

    def __init__(self) -> None:
        self.are_kept = True
        self.events: NDArray[np.float64] = np.zeros((0, 0))
        self.numbers: NDArray[np.float64] = np.zeros(0)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.events.nbytes + self.numbers.nbytes

    def keep(self, events: NDArray[np.float64], numbers: NDArray[np.float64]) -> None:
        """Keep events while they are among the first."""
        if self.are_kept:
            room = MOST - len(self)
            self.events = np.vstack([self.events, events[:room]])
            self.numbers = np.append(self.numbers, numbers[:room])
            if len(self) == MOST:
                self.end()

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self.events = np.pad(self.events, ((0, 0), (0, count)))

    def shift_labels(self, factor: float, shift: float) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        self.numbers = self.numbers * factor + shift

    def clear(self) -> None:
        """Forget those so far."""
        self.events, self.numbers = self.events[:0].copy(), self.numbers[:0].copy()

    def end(self) -> None:
        """Keep none, from now on."""
        self.are_kept = False
        self.clear()

    # State

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of a state, copies."""
        return {name: getattr(self, name).copy() for name in _ARRAYS}

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        columns: int,
        numbers: Domain,
        owner: str,
        *,
        are_kept: bool,
    ) -> None:
        """Take events of so many columns, with labels of a domain, out of a state.

        Raises
        ------
        StateError
            If they do not fit, or are too many.
        """
        declared = (
            Declared("events", "float64", ("early", "columns"), _EVENTS),
            Declared("numbers", "float64", ("early",), numbers),
        )
        found, sizes = taken(declared, arrays, {"columns": columns}, owner)
        if sizes["early"] >= (MOST if are_kept else 1):
            raise StateError(f"arrays 'events' and 'numbers' of {owner} have too many events")
        self.are_kept = are_kept
        self.events, self.numbers = (found[name].copy() for name in _ARRAYS)
