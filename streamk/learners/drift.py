"""When a learner has become worse than it was: a test on its own losses."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_DRIFT = 0.2
"""Deviations by which losses may rise without counting."""
_ALARM = 6.0
"""Sum of the rises, in deviations, that is an alarm."""
_HIGHEST = 4.0
"""Deviations that a single value counts for at most."""
_FEWEST = 8
"""Values before the first alarm, whose mean and deviation others are judged by."""


class PageHinkley:
    """The Page-Hinkley test (Page 1954; Hinkley 1971) for a rise of the mean, in deviations.

    It adds up how far values lie above their mean since the last alarm, less a fifth of a
    deviation each. The alarm comes when the sum has risen by 6 from its least. After an alarm it
    begins anew.

    Examples
    --------
    >>> test = PageHinkley()
    >>> any(test.update(1.0 + 0.1 * (n % 3)) for n in range(100))
    False
    >>> any(test.update(2.0 + 0.1 * (n % 3)) for n in range(10))
    True
    """

    def __init__(self) -> None:
        self.values: NDArray[np.float64] = np.zeros(5)
        """Count, mean, sum of squared deviations, the sum and its least: all of its state."""

    def update(self, value: float) -> bool:
        """Take in a value; return whether it sets off the alarm."""
        count, mean, squares, total, least = self.values.tolist()
        if count >= _FEWEST:
            deviation = math.sqrt(squares / (count - 1.0)) + 1e-9 * abs(mean) + 1e-300
            total += min((value - mean) / deviation, _HIGHEST) - _DRIFT
            least = min(least, total)
            if total - least > _ALARM:
                self.values[:] = 0.0
                return True
        count += 1.0
        change = value - mean
        mean += change / count
        squares += change * (value - mean)
        self.values[:] = count, mean, squares, total, least
        return False
