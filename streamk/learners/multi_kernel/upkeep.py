"""Upkeep of a pool as it learns: drift, and banks that are inactive."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.backends.banks import BANKS, WINDOW
from streamk.backends.pool_arrays import FLAGGED_BANKS
from streamk.declared import NON_NEGATIVE, Declared, Domain, taken, within
from streamk.learners.multi_kernel.expert_pool import ExpertPool

REVIEW_EVERY = 32
"""Events between two reviews of the pool."""
ALARM = 6.0
"""Sum of the rises of the loss, in deviations, that is drift."""
TRIAL = 64.0
"""Reviews that a bank is active for at least."""
_SHORTEST = 64.0
"""Reviews for which a bank is inactive at least."""
_STORED = (
    Declared("drift", "float64", (5,), Domain(-1e200, 1e200)),
    Declared("trials", "float64", (FLAGGED_BANKS + 1, 3), Domain(-1e200, 1e200)),
    Declared("alarms", "float64", (1,), Domain(0.0, 2.0**53, whole=True)),
)
_REMEMBERED = 64
"""Alarms whose events are remembered: more than there can be in what the engine learns at once."""


class Upkeep:
    """Restarts experts of a pool after drift, and deactivates useless ones.

    The reviews are compiled, see `streamk.backends.loops`.
    """

    def __init__(self) -> None:
        self._drift = np.zeros(5)
        self._trials = np.zeros((FLAGGED_BANKS + 1, 3))
        self._restart_trials()
        self.alarms = 0
        """Drifts that were found."""
        self.alarmed: deque[int] = deque(maxlen=_REMEMBERED)
        """After how many events the last of them were found; not part of the state."""

    def arguments(self, events: int) -> tuple[Any, ...]:
        """Return those of `event.predict_then_learn` for reviews, after so many events."""
        return (
            events % REVIEW_EVERY,
            REVIEW_EVERY,
            self._drift,
            self._trials,
            (ALARM, TRIAL, _SHORTEST),
        )

    def review(self, pool: ExpertPool, events: int) -> None:
        """Look at the last `REVIEW_EVERY` of so many events of a pool."""
        found = loops.reviews.review(
            pool.table, self._drift, self._trials, (ALARM, TRIAL, _SHORTEST)
        )
        self.act_on(found, pool, events)

    def join(self, other: Upkeep, share: float) -> None:
        """Take in a share of what another one has found of the same experts."""
        self._drift += share * (other._drift - self._drift)
        self._trials += share * (other._trials - self._trials)
        self.alarms = max(self.alarms, other.alarms)

    def act_on(self, found: int, pool: ExpertPool, events: int) -> None:
        """Do what a review after so many events has found to be due."""
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
        """Take back what `arrays` gave; raise StateError, naming an array that does not fit."""
        owner = "a pool of experts"
        found, _ = taken(_STORED, arrays, {}, owner)
        within(found["drift"][[0, 2]], NON_NEGATIVE, "drift", owner)  # a count, squares
        within(found["trials"][:-1, 1:], NON_NEGATIVE, "trials", owner)  # reviews, naps
        self._drift[...] = found["drift"]
        self._trials[...] = found["trials"]
        self.alarms = int(found["alarms"][0])
