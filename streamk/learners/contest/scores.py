"""Figures of progressive validation of one model among several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import NON_NEGATIVE, Declared, count, taken
from streamk.state import State

__all__ = ["Scores"]

_TYPE = "scores"
_OWNER = "scores of a model"
_ARRAYS = (
    Declared("sums", "float64", (2,), NON_NEGATIVE),
    Declared("last", "float64", (2, "rows"), NON_NEGATIVE),
)

Floats = NDArray[np.float64]


class Scores:
    """Means of the two scores of each event, over all events and over the last ones.

    Parameters
    ----------
    classification : bool
    window : int
        Events that count as the last ones.

    Examples
    --------
    >>> scores = Scores(classification=False, window=2)
    >>> scores.add(np.array([[3.0, 9.0], [1.0, 1.0], [1.0, 1.0]]))
    >>> scores.figures()["window"]
    {'mae': 1.0, 'rmse': 1.0}
    """

    def __init__(self, *, classification: bool, window: int) -> None:
        self.names = ("accuracy", "log_loss") if classification else ("mae", "rmse")
        self.window = window
        self.events = 0
        self._sums: Floats = np.zeros(2)
        self._last: Floats = np.zeros((2, 0))

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._sums.nbytes + self._last.nbytes

    def add(self, scores: Floats) -> None:
        """Add the scores of further events, (n, 2): `score_classes` or `score_numbers`."""
        self.events += len(scores)
        # One after the other, so that the sums do not depend on the division into calls.
        self._sums = np.cumsum(np.vstack([self._sums, scores]), axis=0)[-1]
        self._last = np.hstack([self._last, scores.T])[:, -self.window :]

    def figures(self) -> dict[str, Any]:
        """Return how many ``events`` were scored, and their figures, ``whole`` and ``window``."""
        if not self.events:
            return {"events": 0, "whole": {}, "window": {}}
        # Summed anew each time: figures must not depend on what has left the window.
        means = {"whole": self._sums / self.events, "window": self._last.mean(axis=1)}
        return {"events": self.events} | {of: self._named(mean) for of, mean in means.items()}

    def _named(self, means: Floats) -> dict[str, float]:
        first, second = means.tolist()
        second = math.sqrt(second) if self.names[1] == "rmse" else second
        return dict(zip(self.names, (first, second), strict=True))

    def state(self) -> State:
        """Return everything needed to go on."""
        header: Any = {"type": _TYPE, "events": self.events}
        return State(header, {"sums": self._sums.copy(), "last": self._last.copy()})

    def restore(self, state: State) -> None:
        """Go on with what `state` gave. Raises `StateError` if it does not fit."""
        header: Mapping[str, Any] = state.expect(_TYPE).header
        arrays, _ = taken(_ARRAYS, state.arrays, {}, _OWNER)
        self.events = count(header, "events", _OWNER)
        self._sums = arrays["sums"].copy()
        self._last = arrays["last"][:, -self.window :].copy()
