"""Upkeep of a pool as it learns: drift, banks that are inactive, and how large errors are."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.backends.banks import BANKS, WINDOW
from streamk.backends.pool_arrays import OPTIONAL_BANKS
from streamk.declared import NON_NEGATIVE, SHARES, Declared, Domain, taken, within
from streamk.learners.multi_kernel.expert_pool import ExpertPool, side_by_side
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

PERIOD = 32
"""Events between two reviews."""
ALARM = 6.0
"""Sum of the rises of the loss, in deviations, that is drift."""
TRIAL = 64.0
"""Reviews that a bank is active for at least."""
_SHORTEST = 64.0
"""Reviews for which a bank is inactive at least."""
_STORED = (
    Declared("drift", "float64", (5,), Domain(-1e200, 1e200)),
    Declared("trials", "float64", (OPTIONAL_BANKS + 1, 3), Domain(-1e200, 1e200)),
    Declared("alarms", "float64", (1,), Domain(0.0, 2.0**53, whole=True)),
)
_REMEMBERED = 64
"""Alarms whose events are remembered: more than there can be in what the engine learns at once."""


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
        for n, said in enumerate(scores):
            apart = spread.disagreement(said, weights)
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
        """Return the quantiles whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or its arrays do not fit.
        """
        state.expect(cls.TYPE)
        spread, found = loops.spread, cls()
        sizes = {"trackers": spread.TRACKERS, "levels": len(spread.LEVELS)}
        arrays, _ = taken(_DECLARED, state.arrays, sizes, "error quantiles")
        for name, array in arrays.items():
            found._arrays[name][...] = array
        return found


class Upkeep:
    """Restarts experts of a pool after drift, and deactivates those that are of no use.

    The reviews are compiled, see `streamk.backends.loops`.
    """

    def __init__(self) -> None:
        self._drift = np.zeros(5)
        self._trials = np.zeros((OPTIONAL_BANKS + 1, 3))
        self._restart_trials()
        self.alarms = 0
        """Drifts that were found."""
        self.alarmed: deque[int] = deque(maxlen=_REMEMBERED)
        """After how many events the last of them were found; not part of the state."""

    def plan(self, events: int) -> tuple[Any, ...]:
        """Return what the compiled loops need to review the pool after so many events."""
        return events % PERIOD, PERIOD, self._drift, self._trials, _limits()

    def review(self, pool: ExpertPool, events: int) -> None:
        """Look at the last `PERIOD` of so many events of a pool."""
        found = loops.reviews.review(pool.table, self._drift, self._trials, _limits())
        self.follow(pool, found, events)

    def join(self, other: Upkeep, share: float) -> None:
        """Take in a share of what another one has found of the same experts."""
        self._drift += share * (other._drift - self._drift)
        self._trials += share * (other._trials - self._trials)
        self.alarms = max(self.alarms, other.alarms)

    def follow(self, pool: ExpertPool, found: int, events: int) -> None:
        """Do what a review after so many events calls for."""
        reviews = loops.reviews
        if found == reviews.ALARM:
            self.alarms += 1
            self.alarmed.append(events)
            if not pool.arrays["ACTIVE"][BANKS.index(WINDOW)]:
                pool.set_window(0, 0)
            pool.restart()
            self._restart_trials()
        elif found == reviews.WINDOW_ACTIVATED:
            pool.set_window(0, 0)

    def _restart_trials(self) -> None:
        """Begin the trials of all banks anew."""
        self._trials[:-1] = 0.0, 0.0, _SHORTEST

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return everything needed to go on exactly from here."""
        return {
            "drift": self._drift.copy(),
            "trials": self._trials.copy(),
            "alarms": np.array([float(self.alarms)]),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `arrays` gave.

        Raises
        ------
        StateError
            If an array is missing or does not fit, naming it.
        """
        owner = "a pool of experts"
        found, _ = taken(_STORED, arrays, {}, owner)
        within(found["drift"][[0, 2]], NON_NEGATIVE, "drift", owner)  # a count, squares
        within(found["trials"][:-1, 1:], NON_NEGATIVE, "trials", owner)  # reviews, naps
        self._drift[...] = found["drift"]
        self._trials[...] = found["trials"]
        self.alarms = int(found["alarms"][0])


def _limits() -> tuple[float, float, float]:
    return ALARM, TRIAL, _SHORTEST
