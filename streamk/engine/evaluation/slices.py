"""Figures of progressive validation for each value of a column."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.encoding import shortened
from streamk.encoding.values import plain, text_of
from streamk.engine.evaluation.river_metrics import Rows
from streamk.errors import StateError

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
        there = self._measured(rows)
        counted = np.vstack([np.ones(there.shape[1]), there])
        # One after the other, so that the sums do not depend on the division into calls.
        self._sums = np.cumsum(np.column_stack([self._sums, counted]), axis=1)[:, -1]

    def whole(self) -> dict[str, float]:
        """Return the figures of all events; empty before the first region."""
        return self._figures(self._sums.tolist())

    def window(self, rows: Rows) -> dict[str, float]:
        """Return the figures of some events only."""
        there = self._measured(rows)
        return self._figures([there.shape[1], *there.sum(axis=1).tolist()])

    def _measured(self, rows: Rows) -> Floats:
        measured = np.array([rows[name] for name in self.COLUMNS])
        return measured[:, ~np.isnan(measured[0])]

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


MOST = 20
"""Values that have figures of their own: those that come first. All others are one."""
OTHERS, MISSING = "(others)", "(missing)"
_LONGEST = 60


class Slices:
    """Events of a job by the value of a column, and sums of their scores and of a baseline's.

    Parameters
    ----------
    column : str or int
        The field of the events.

    Examples
    --------
    >>> slices = Slices("town")
    >>> codes = slices.codes(["a", "b", "a", None])
    >>> scores = {"hit": np.array([1.0, 0, 0, 1]), "loss": np.ones(4), "no_change": np.zeros(4)}
    >>> slices.add({**scores, "slice": codes})
    >>> {name: (n, means) for name, n, means in slices.whole()}
    {'a': (2, [0.5, 1.0, 0.0]), 'b': (1, [0.0, 1.0, 0.0]), '(missing)': (1, [1.0, 1.0, 0.0])}
    """

    COLUMN = "slice"
    """Of the scored events: the number of the value, NaN of an event that has none."""

    def __init__(self, column: str | int) -> None:
        self.column = column
        self.names: list[str] = []
        """Values that have figures of their own, as text, by their numbers; `MOST` is all others.
        """
        self._numbers: dict[str, int] = {}
        self._sums: Floats = np.zeros((MOST + 1, 4))

    def codes(self, values: Sequence[Any]) -> Floats:
        """Return the numbers of values, float64 (n,); those that are new get theirs."""
        found = []
        for value in values:
            name = _text(value)
            code = self._numbers.get(name, MOST)
            if code == MOST and len(self.names) < MOST:
                code = self._numbers[name] = len(self.names)
                self.names.append(name)
            found.append(code)
        return np.array(found, np.float64)

    def name(self, value: Any) -> str:
        """Return the name under which the figures of a value are."""
        name = _text(value)
        return name if name in self._numbers else OTHERS

    def add(self, rows: Rows) -> None:
        """Take further scored events: their slice, and the scores, of which three come first."""
        codes, scores = rows[self.COLUMN], list(rows.values())[:3]
        there = codes == codes
        added = np.column_stack([np.ones(int(there.sum())), *(one[there] for one in scores)])
        # One after the other, so that the sums do not depend on the division into calls.
        np.add.at(self._sums, codes[there].astype(np.intp), added)

    def whole(self) -> list[tuple[str, int, list[float]]]:
        """Return of each value, with an event at least, its name, events and mean scores."""
        return self._means(self._sums)

    def window(self, rows: Rows) -> list[tuple[str, int, list[float]]]:
        """Return the same of some events only."""
        some = Slices(self.column)
        some.names = self.names
        some.add(rows)
        return self._means(some._sums)

    def _means(self, sums: Floats) -> list[tuple[str, int, list[float]]]:
        found = []
        for code, (n, *totals) in enumerate(sums.tolist()):
            if n:
                name = OTHERS if code == MOST else self.names[code]
                found.append((name, int(n), [total / n for total in totals]))
        return found

    def fits(self, codes: Floats) -> bool:
        """Return whether all these are numbers of values, or NaN."""
        known = (codes >= 0) & (codes < len(self.names)) & (codes == np.floor(codes))
        return bool((known | (codes == MOST) | np.isnan(codes)).all())

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"column": self.column, "names": list(self.names), "sums": self._sums.tolist()}

    def resume(self, saved: Mapping[str, Any] | None) -> None:
        """Go on where `to_json` was called; with None or of another column, from nothing.

        Raises `StateError` if the data is not its own.
        """
        try:
            if saved is None or saved["column"] != self.column:
                return
            names = [str(name) for name in saved["names"]]
            sums = np.array(saved["sums"], np.float64).reshape(MOST + 1, 4)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the slices cannot be read: {error!r}") from error
        used = np.flatnonzero(sums[:MOST, 0])
        fits = len(set(names)) == len(names) <= MOST and (used < len(names)).all()
        if not fits or not all(map(math.isfinite, sums.ravel().tolist())):
            raise StateError("the slices cannot be read: their numbers do not fit")
        self.names, self._sums = names, sums
        self._numbers = {name: n for n, name in enumerate(names)}


def _text(value: Any) -> str:
    """Return a value as text; 3 of JSON and "3" of CSV are one."""
    value = plain(value)
    if value is None:
        return MISSING
    text = text_of(value)
    return shortened(json.dumps(value, default=str) if text is None else text, _LONGEST)
