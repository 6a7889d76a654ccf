"""The detectors that are compared, each as a function from a stream to its alarms.

River's take one number. Of events with several columns there is one for each column, with the same
options, and an alarm of any is one of all; the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.drift import alibi
from streamk.drift import StreamingMMD

Numbers = NDArray[np.float64]
Alarms = Callable[[Numbers, int], list[int]]
OURS = "MMDDrift"
SLOW = ("KSWIN", alibi.NAME)


def ours(X: Numbers, seed: int) -> list[int]:
    """Return the alarms of `streamk.adapters.river.MMDDrift` with its defaults."""
    found: list[int] = StreamingMMD(X.shape[1], seed=seed).update(X).tolist()
    return found


def of_river(make: Callable[[int], Any]) -> Alarms:
    """Return the alarms of a detector of River's, made by a seed, on each column."""

    def alarms(X: Numbers, seed: int) -> list[int]:
        found: set[int] = set()
        for column in X.T.tolist():
            detector = make(seed)
            for i, number in enumerate(column):
                detector.update(number)
                if detector.drift_detected:
                    found.add(i)
        return sorted(found)

    return alarms


def detectors() -> dict[str, Alarms]:
    """Return all detectors by their names, with the defaults of their authors.

    Those that are slow, `SLOW`, are the last.
    """
    from river import drift

    found: dict[str, Alarms] = {
        OURS: ours,
        "ADWIN": of_river(lambda _: drift.ADWIN()),
        "PageHinkley": of_river(lambda _: drift.PageHinkley()),
        "KSWIN": of_river(lambda seed: drift.KSWIN(seed=seed)),
    }
    if "STREAMK_ALIBI" in os.environ:
        found[alibi.NAME] = alibi.alarms
    return found
