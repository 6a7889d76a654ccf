"""The watch of a learner's errors, which tells when they rise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, taken, within

WINDOW = 256
"""Events whose mean error counts once."""
_FEWEST = 4
"""Windows from which on a deviation is known."""
_SLACK, _MOST, _ALARM = 0.5, 2.0, 4.0
"""Deviations by which a window may be above the mean, those that count at most, so that no single
window is an alarm, and the sum of those beyond the slack that is one."""
_TOTAL, _COUNT, _MEAN, _SQUARES, _RISE, _RUN = range(6)
"""Sum of errors at the end of the last window, windows, mean and sum of squares of their errors,
the cumulative sum, and windows since that was 0."""
_STORED = (Declared("watch", "float64", (6,), Domain(-1e300, 1e300)),)


class ErrorWatch:
    """Tells when the errors of a function rise, by a cumulative sum (Page 1954).

    It adds up by how many standard deviations the mean error of 256 events is above that of all
    windows before, 2 at most, less a half; a sum below 0 begins again at 0. A sum above 4 is an
    alarm, from the fifth window on.

    Examples
    --------
    >>> watch = ErrorWatch()
    >>> errors = np.array([0.10, 0.12, 0.08, 0.10, 0.11, 0.30, 0.40, 0.35])
    >>> [watch.add(float(total)) for total in 256.0 * errors.cumsum()]
    [False, False, False, False, False, False, False, True]
    >>> watch.rising
    1024
    """

    def __init__(self) -> None:
        self._known = np.zeros(6)

    def restart(self) -> None:
        """Forget all windows."""
        self._known[_COUNT:] = 0.0

    def go_on_from(self, total: float) -> None:
        """Take a sum of errors for that at the end of the last window."""
        self._known[_TOTAL] = total

    @property
    def rising(self) -> int:
        """Events since the cumulative sum was 0: those since errors began to rise."""
        return WINDOW * int(self._known[_RUN])

    def add(self, total: float, events: int = WINDOW) -> bool:
        """Take in the sum of errors at the end of a window; return whether there is an alarm.

        It is that of all errors since the sum that `go_on_from` took, or since the first event.
        """
        known = self._known
        error = (total - known[_TOTAL]) / events
        known[_TOTAL] = total
        if known[_COUNT] >= _FEWEST:
            deviation = math.sqrt(known[_SQUARES] / (known[_COUNT] - 1.0))
            above = error - known[_MEAN]
            by = above / deviation if deviation else 0.0  # of errors that were all equal
            known[_RISE] += (_MOST if above > _MOST * deviation else by) - _SLACK
        known[_RISE] = max(0.0, known[_RISE])
        known[_RUN] = known[_RUN] + 1.0 if known[_RISE] > 0.0 else 0.0
        known[_COUNT] += 1.0
        step = error - known[_MEAN]
        known[_MEAN] += step / known[_COUNT]
        known[_SQUARES] += step * (error - known[_MEAN])
        return bool(known[_RISE] > _ALARM)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return everything needed to go on exactly from here, by name."""
        return {"watch": self._known.copy()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], owner: str) -> None:
        """Take back what `arrays` gave; raise StateError if it does not fit."""
        found = taken(_STORED, arrays, {}, owner)[0]["watch"]
        counts = found[[_COUNT, _RUN]]
        within(counts, Domain(0.0, 2.0**53, whole=True), "watch", owner)
        within(found[[_TOTAL, _SQUARES, _RISE]], Domain(least=0.0), "watch", owner)
        self._known[:] = found
