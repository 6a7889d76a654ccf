"""Quantiles of what predictions miss by, of which intervals of numbers are made."""

from __future__ import annotations

from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import loops
from streamk.declared import NON_NEGATIVE, SHARES, Declared, Domain, taken
from streamk.errors import InvalidInput, shown
from streamk.learners.multi_kernel.expert_pool import side_by_side
from streamk.state import State

_FIRST_SIZE = 1.0
_STEPS = Domain(least=-1e15, most=1e15)
"""Bound of trackers, reached by steps of less than 1 each."""
_DECLARED = (
    Declared("tracked", "float64", ("trackers", "levels"), _STEPS),
    Declared("weights", "float64", ("trackers",), SHARES),
    Declared("correction", "float64", ("levels",), _STEPS),
    Declared("size", "float64", (1,), Domain(least=0.0, most=1e200)),
    Declared("count", "float64", (1,), NON_NEGATIVE),
)
_ARRAYS = tuple(each.name for each in _DECLARED)


def checked_levels(levels: ArrayLike) -> NDArray[np.float64]:
    """Return levels of quantiles as an array (m,), else raise InvalidInput.

    Examples
    --------
    >>> checked_levels(0.5)
    array([0.5])
    """
    found = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if found.ndim != 1 or not ((found > 0) & (found < 1)).all():
        raise InvalidInput(f"levels={shown(levels)} must lie between 0 and 1")
    return found


def ends(level: float) -> list[float]:
    """Return the levels of both ends of an interval, else raise InvalidInput.

    Examples
    --------
    >>> ends(0.5)
    [0.25, 0.75]
    """
    if not (isinstance(level, int | float) and 0 < level <= 0.99):
        raise InvalidInput(f"level={shown(level)} must lie between 0 and 0.99")
    return [(1 - level) / 2, (1 + level) / 2]


def wider(
    quantiles: NDArray[np.float64], errors: NDArray[np.float64], levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return quantiles (n, levels) that are at least as far out as those of errors of either sign.

    Examples
    --------
    >>> wider(np.array([[-1.0, 0.5, 9.0]]), np.array([1.0, -2.0, 3.0]), np.array([0.1, 0.5, 0.9]))
    array([[-2.5,  0.5,  9. ]])
    """
    found = np.quantile(np.concatenate([errors, -errors]), levels)
    further = np.where(levels < 0.5, np.minimum(quantiles, found), np.maximum(quantiles, found))
    return np.where(levels == 0.5, quantiles, further)


class ErrorQuantiles:
    """Running quantiles of a prediction's errors, wider where the experts disagree.

    Trackers of quantiles (steps of the pinball loss, as in Gibbs and Candes 2021) at several rates,
    in units of the mean error, of the experts' disagreement on the event and of both, are mixed by
    a fixed share. Everything is in units of the labels' scale.
    """

    TYPE = "error-quantiles"

    def __init__(self) -> None:
        spread = loops.spread
        normal = np.array([NormalDist().inv_cdf(level) for level in spread.LEVELS])
        # A normal error's mean size is 0.8 deviations.
        self._arrays = side_by_side(
            {
                "count": np.zeros(1),
                "size": np.full(1, _FIRST_SIZE),
                "tracked": np.tile(normal / 0.8, (spread.TRACKERS, 1)),
                "weights": np.full(spread.TRACKERS, 1.0 / spread.TRACKERS),
                "correction": np.zeros(len(spread.LEVELS)),
                "likely": np.zeros(spread.TRACKERS),
                "active": np.ones(spread.TRACKERS, dtype=bool),
                "room": np.zeros(len(spread.LEVELS)),
            }
        )

    def update(self, error: float, scores: NDArray[np.float32], weights: Any) -> None:
        """Learn from an error, label less prediction, and the scores (experts, 1) behind it."""
        loops.spread.learn(self.table, error, scores, weights)

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """Return the addresses for the compiled loops, which the first access compiles or loads."""
        arrays = [array.ctypes.data for array in self._arrays.values()]
        return np.array([loops.spread.take_in.address, *arrays], dtype=np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the state: a table holds addresses."""
        return self.from_state, (self.state(),)

    def quantiles(
        self, scores: NDArray[np.float32], weights: Any, levels: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return quantiles of the error, float64 (n, levels), from scores (n, experts, 1)."""
        spread, own = loops.spread, self._arrays
        learned = own["size"], own["tracked"], own["weights"], own["correction"]
        found, row = np.empty((len(scores), len(levels))), np.empty(len(spread.LEVELS))
        for n, one in enumerate(scores):
            apart = spread.disagreement(one, weights)
            spread.quantiles(apart, *learned, row)
            found[n] = np.interp(levels, spread.LEVELS, row)
        return found

    def rescale(self, factor: float) -> None:
        """Follow labels whose unit has become 1 / factor of what it was."""
        self._arrays["size"] *= factor

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        arrays = {name: self._arrays[name].copy() for name in _ARRAYS}
        return State({"type": self.TYPE}, arrays)

    @classmethod
    def from_state(cls, state: State) -> ErrorQuantiles:
        """Return the quantiles of a state, or raise StateError."""
        state.expect(cls.TYPE)
        spread, found = loops.spread, cls()
        sizes = {"trackers": spread.TRACKERS, "levels": len(spread.LEVELS)}
        arrays, _ = taken(_DECLARED, state.arrays, sizes, "error quantiles")
        for name, array in arrays.items():
            found._arrays[name][...] = array
        return found
