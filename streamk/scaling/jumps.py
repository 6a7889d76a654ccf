"""When numbers to be predicted have become of another scale, or lie elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import count
from streamk.errors import StateError
from streamk.scaling.estimates import DECILES
from streamk.state import JSON

__all__ = ["BLOCK", "Jumps"]

BLOCK = 64
"""Labels after which is looked whether the scale has jumped."""
_JUMP = 8.0
"""Deviations that the median of a block has to lie from the mean, or that its own one has to have,
to be of a larger scale or another place. Two blocks in a row have to be so: the jump may lie in the
first."""
_SHRUNK, _PATIENCE = 1.0 / 32, 8
"""Deviations that a block has at most for being of a smaller scale, and how many such blocks in a
row there have to be: short runs of labels that resemble each other are common."""


@dataclass(frozen=True)
class Jumps:
    """Blocks in a row that were of a larger scale or another place, and of a smaller scale.

    Examples
    --------
    >>> block = np.arange(64.0)
    >>> once = Jumps().after(1e3 + block, 0.0, 1.0)
    >>> once, once.is_there, once.after(1e3 + block, 0.0, 1.0).is_there
    (Jumps(far=1, shrunk=0), False, True)
    """

    far: int = 0
    shrunk: int = 0

    @classmethod
    def from_header(cls, header: Mapping[str, Any], owner: str) -> Self:
        """Return the counts that a state has.

        Raises
        ------
        StateError
            If they are none, or a jump would have been there.
        """
        made = cls(count(header, "far", owner), count(header, "shrunk", owner))
        if made.far > 1 or made.shrunk >= _PATIENCE:
            raise StateError(
                f"{owner} needs 'far' below 2 and 'shrunk' below {_PATIENCE}; it is damaged or was "
                "changed by hand"
            )
        return made

    def to_header(self) -> dict[str, JSON]:
        """Return the counts as a state has them."""
        return {"far": self.far, "shrunk": self.shrunk}

    @property
    def is_there(self) -> bool:
        """Whether the scale has jumped."""
        return self.far == 2 or self.shrunk == _PATIENCE

    def after(self, block: NDArray[np.float64], mean: float, deviation: float) -> Jumps:
        """Return the counts after another block of `BLOCK` labels, by mean and deviation so far."""
        ordered = np.sort(block)
        first, median, last = (_between(ordered, level) for level in (0.1, 0.5, 0.9))
        own = (last - first) / DECILES
        shrunk = 0.0 < own < _SHRUNK * deviation
        far = max(abs(median - mean), own) > _JUMP * deviation > 0.0
        return Jumps(self.far + 1 if far else 0, self.shrunk + 1 if shrunk else 0)


def _between(ordered: NDArray[np.float64], level: float) -> float:
    """Return a quantile of numbers in order, between two of them if need be."""
    place = level * (len(ordered) - 1)
    here = int(place)
    low, high = ordered[here : here + 2].tolist()
    found: float = low + (place - here) * (high - low)
    return found
