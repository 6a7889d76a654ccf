"""Coverage of labels by the regions of predictions, and the sizes of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.engine.evaluation.river_metrics import Rows

__all__ = ["COVERAGE", "Coverage"]

COVERAGE = "coverage"
_COVERED, _SIZE = "covered", "size"

Floats = npt.NDArray[np.float64]


class Coverage:
    """Share of the labels that regions held, and the mean size of these.

    Parameters
    ----------
    size : str
        Name of the figure of the mean size.

    Examples
    --------
    >>> figures = Coverage("mean_width")
    >>> figures.add({"covered": np.array([1.0, 0.0]), "size": np.array([2.0, 3.0])})
    >>> figures.whole()
    {'coverage': 0.5, 'mean_width': 2.5}
    """

    COLUMNS = (_COVERED, _SIZE)
    """Of the scored events, NaN where there was no region."""

    def __init__(self, size: str) -> None:
        self.names = (COVERAGE, size)
        self.since = 0
        """Scored events before it began to count."""
        self._sums: Floats = np.zeros(3)

    def add(self, rows: Rows) -> None:
        """Take further scored events."""
        measured = np.array([rows[name] for name in self.COLUMNS])
        there = measured[:, ~np.isnan(measured[0])]
        counted = np.vstack([np.ones(there.shape[1]), there])
        # One after the other, so that the sums do not depend on the division into calls.
        self._sums = np.cumsum(np.column_stack([self._sums, counted]), axis=1)[:, -1]

    def whole(self) -> dict[str, float]:
        """Return the figures of all events; empty before the first region."""
        return self._figures(self._sums.tolist())

    def window(self, rows: Rows) -> dict[str, float]:
        """Return the figures of some events only."""
        measured = np.array([rows[name] for name in self.COLUMNS])
        there = measured[:, ~np.isnan(measured[0])]
        return self._figures([there.shape[1], *there.sum(axis=1).tolist()])

    def _figures(self, sums: Sequence[float]) -> dict[str, float]:
        n, *totals = sums
        if not n:
            return {}
        return {name: total / n for name, total in zip(self.names, totals, strict=True)}

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"size": self.names[1], "since": self.since, "sums": self._sums.tolist()}

    def resume(self, saved: Any, scored: int) -> None:
        """Go on where `to_json` was called, or with None begin after so many `scored` events.

        Raises `ValueError` if the data is not its own.
        """
        self.since = scored
        if saved is not None:
            self.since = int(saved["since"])
            self._sums = np.array(saved["sums"], np.float64).reshape(3)
            if not all(map(math.isfinite, saved["sums"])):
                raise ValueError("sums of a coverage are not finite")
