"""The result of decoding a number of raw events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamk.encoding.values import Name

__all__ = ["BadEvent", "Decoded"]


class BadEvent(NamedTuple):
    """An event that was not decoded: which of the values, the column, "kind: explanation"."""

    row: int
    column: Name | None
    reason: str

    @property
    def kind(self) -> str:
        """One of `streamk.encoding.values.BAD_KINDS`."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events in arrays, and those that could not be decoded.

    Attributes
    ----------
    X : float64 array (n_good, d)
        d counts the new columns too; may be a view of the source's own array: do not write to it.
    y : list (n_good,)
        Labels: str, int or bool for classes, float for quantities, None for "only predict".
    good : int64 array (n_good,)
        Index of each row in the values given.
    bad : list of BadEvent, by row
    growth : list of (row of X, columns with it)
        The events that brought columns, which none before them has.
    """

    X: npt.NDArray[np.float64]
    y: list[Any]
    good: npt.NDArray[np.int64]
    bad: list[BadEvent]
    growth: list[tuple[int, int]]
