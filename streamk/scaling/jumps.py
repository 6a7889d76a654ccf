"""Changes of the numbers to be predicted to another scale or level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import count, number
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
_TWICE = 2
_SHRUNK, _PATIENCE = 1.0 / 32, 8
"""Deviations that a block has at most for being of a smaller scale, and how many such blocks in a
row there have to be: short runs of labels that resemble each other are common."""
_LONGER = 4
"""Factor of these numbers after each jump, but for labels where none were before. Labels that come
and go, by day and night, else jump for ever, and the scale never spans both."""
_MOST_LONGER = 6
"""Jumps after which the factor stays: a sample has forgotten sooner."""


@dataclass(frozen=True)
class Jumps:
    """Blocks in a row that were of a larger scale or another place, and of a smaller scale.

    Attributes
    ----------
    far : int
        Blocks in a row; one that is where no labels were before counts as `patience` of them.
    shrunk : int
    found : int
        Jumps that there were.
    known : float, float, optional
        Between which labels were then: before a jump and after it.

    Examples
    --------
    >>> block = np.arange(64.0)
    >>> once = Jumps().after(1e3 + block, 0.0, 1.0)
    >>> once, once.is_there, once.after(1e3 + block, 0.0, 1.0).is_there
    (Jumps(far=1, shrunk=0, found=0, known=None), False, True)
    """

    far: int = 0
    shrunk: int = 0
    found: int = 0
    known: tuple[float, float] | None = None

    @classmethod
    def from_header(cls, header: Mapping[str, Any], owner: str) -> Self:
        """Return the counts that a state has.

        Raises
        ------
        StateError
            If they are none, or a jump would have been there.
        """
        found = count(header, "found", owner)
        known = None
        if found:
            known = number(header, "lowest", owner), number(header, "highest", owner)
        made = cls(count(header, "far", owner), count(header, "shrunk", owner), found, known)
        if made.is_there or (known is not None and known[0] > known[1]):
            raise StateError(
                f"{owner} has found a jump and not followed it, or knows no labels; it is damaged "
                "or was changed by hand"
            )
        return made

    def to_header(self) -> dict[str, JSON]:
        """Return the counts as a state has them."""
        header: dict[str, JSON] = {"far": self.far, "shrunk": self.shrunk, "found": self.found}
        if self.known is not None:
            header["lowest"], header["highest"] = self.known
        return header

    @property
    def patience(self) -> int:
        """Factor of the blocks that a jump takes, 1 for the first one."""
        return int(_LONGER ** min(self.found, _MOST_LONGER))

    @property
    def is_there(self) -> bool:
        """True if the scale has jumped."""
        patience = self.patience
        return self.far >= _TWICE * patience or self.shrunk >= _PATIENCE * patience

    def followed(self, *places: tuple[float, float]) -> Jumps:
        """Return what is known after a jump between two places, each a mean and a deviation."""
        known = self
        for place in places:
            known = Jumps(found=self.found + 1, known=known._known_and(*place))
        return known

    def after(self, block: NDArray[np.float64], mean: float, deviation: float) -> Jumps:
        """Return the counts after another block of `BLOCK` labels, by mean and deviation so far."""
        ordered = np.sort(block)
        first, median, last = (_between(ordered, level) for level in (0.1, 0.5, 0.9))
        own = (last - first) / DECILES
        shrunk = 0.0 < own < _SHRUNK * deviation
        far = max(abs(median - mean), own) > _JUMP * deviation > 0.0
        low, high = self._known_and(mean, deviation)
        has_met = low <= median <= high and own <= high - low
        blocks = 1 if has_met else self.patience
        return replace(
            self, far=self.far + blocks if far else 0, shrunk=self.shrunk + 1 if shrunk else 0
        )

    def _known_and(self, mean: float, deviation: float) -> tuple[float, float]:
        """Return the range of where labels were, and are by mean and deviation."""
        reach = _JUMP * deviation
        low, high = self.known or (mean, mean)
        return min(low, mean - reach), max(high, mean + reach)


def _between(ordered: NDArray[np.float64], level: float) -> float:
    """Return a quantile of numbers in order, between two of them if need be."""
    place = level * (len(ordered) - 1)
    here = int(place)
    low, high = ordered[here : here + 2].tolist()
    found: float = low + (place - here) * (high - low)
    return found
