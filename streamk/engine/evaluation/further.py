"""Figures beside the scores: of the regions of predictions, and of each value of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.engine.evaluation.coverage import Coverage
from streamk.engine.evaluation.river_metrics import Rows
from streamk.engine.evaluation.slices import Slices

__all__ = ["Further"]

Floats = npt.NDArray[np.float64]


class Further:
    """Coverage and slices of a job, as far as there are any.

    Parameters
    ----------
    region : str, optional
        Where predictions have regions, the name of the figure of their mean size.
    column : str or int, optional
        The column whose values have figures of their own.

    Attributes
    ----------
    columns : tuple of str
        Of the scored events.
    names : tuple of str
        Of the figures of all events.

    Examples
    --------
    >>> Further("mean_width", "town").columns
    ('covered', 'size', 'slice')
    """

    def __init__(self, region: str | None, column: str | int | None) -> None:
        self.coverage = None if region is None else Coverage(region)
        self.slices = None if column is None else Slices(column)
        self.names: tuple[str, ...] = () if self.coverage is None else self.coverage.names
        self.columns: tuple[str, ...] = () if self.coverage is None else self.coverage.COLUMNS
        if self.slices is not None:
            self.columns += (self.slices.COLUMN,)

    def rows(self, given: Rows | None, n: int) -> list[Floats]:
        """Return the columns of n events, NaN where there is nothing of them."""
        nothing = np.full(n, np.nan)
        return [(given or {}).get(name, nothing) for name in self.columns]

    def add(self, rows: Rows) -> None:
        """Take further scored events, whose scores are the first columns."""
        if self.coverage is not None:
            self.coverage.add(rows)
        if self.slices is not None:
            self.slices.add(rows)

    def whole(self) -> dict[str, float]:
        """Return the figures of all events; empty before the first region."""
        return {} if self.coverage is None else self.coverage.whole()

    def window(self, rows: Rows) -> dict[str, float]:
        """Return the figures of some events only."""
        return {} if self.coverage is None else self.coverage.window(rows)

    def since(self) -> dict[str, int]:
        """Return after how many scored events each figure began to count."""
        return {} if self.coverage is None else dict.fromkeys(self.names, self.coverage.since)

    def by_slice(
        self, last: Rows, figures: Callable[[Floats], dict[str, float]]
    ) -> dict[str, dict[str, Any]]:
        """Return the figures of each value of the column, by its name.

        Parameters
        ----------
        last : mapping of str to float64 array
            The last events.
        figures : function
            From the means of the two scores to the figures.
        """
        if self.slices is None:
            return {}
        window = {
            name: {"events": n, **figures(np.array(means))}
            for name, n, means in self.slices.window(last)
        }
        return {
            name: {"events": n, **figures(np.array(means)), "window": window.get(name, {})}
            for name, n, means in self.slices.whole()
        }

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            "coverage": None if self.coverage is None else self.coverage.to_json(),
            "slices": None if self.slices is None else self.slices.to_json(),
        }

    @staticmethod
    def wanted(data: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the region and the column of `to_json`, with which a new one may be made."""
        coverage, slices = data["coverage"] or {}, data["slices"] or {}
        return coverage.get("size"), slices.get("column")

    def resume(self, data: Mapping[str, Any], scored: int, last: dict[str, Floats]) -> None:
        """Go on where `to_json` was called, after so many scored events.

        Figures that were not there begin anew. `last` has the last events, by column; slices of
        another column are taken out of them.

        Raises
        ------
        StateError, ValueError
            If the data is not its own.
        """
        if self.coverage is not None:
            self.coverage.resume(data["coverage"], scored)
        if self.slices is None:
            return
        codes = last[self.slices.COLUMN]
        if self.wanted(data)[1] != self.slices.column:
            codes[:] = np.nan
        self.slices.resume(data["slices"])
        if not self.slices.fits(codes):
            raise ValueError("slices of the last events are none of the names")
