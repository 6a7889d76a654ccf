"""What is looked at every now and then: whether the stream has changed, and who is of use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import StateError
from streamk.learners.drift import PageHinkley
from streamk.learners.expert_pool import BANKS, WINDOW, ExpertPool
from streamk.learners.sleeping import Sleeping

PERIOD = 32
"""Events between two reviews."""


class Upkeep:
    """Starts experts of a pool anew after drift, and sends idle ones to sleep."""

    def __init__(self) -> None:
        self._drift, self._sleeping = PageHinkley(), Sleeping(len(BANKS))
        self.alarms = 0
        """Drifts that were found."""

    def review(self, pool: ExpertPool) -> None:
        """Look at the last `PERIOD` events of a pool."""
        gains, loss = pool.balance()
        awake = pool.arrays["AWAKE"]
        window = BANKS.index(WINDOW)
        if self._drift.update(loss):
            self.alarms += 1
            if not awake[window]:
                pool.forget_window()
            pool.restart()
            self._sleeping.wake()
        elif window in self._sleeping.review(gains, loss, awake):
            pool.forget_window()

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return everything needed to go on exactly from here."""
        return {
            "drift": self._drift.values.copy(),
            "sleeping": self._sleeping.values.copy(),
            "alarms": np.array([float(self.alarms)]),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `arrays` gave.

        Raises
        ------
        StateError
            If an array is missing or does not fit.
        """
        for name, own in self.arrays().items():
            if name not in arrays or arrays[name].shape != own.shape:
                raise StateError(f"array {name!r} of a pool of experts must have shape {own.shape}")
        self._drift.values[...] = arrays["drift"]
        self._sleeping.values[...] = arrays["sleeping"]
        self.alarms = int(arrays["alarms"][0])
