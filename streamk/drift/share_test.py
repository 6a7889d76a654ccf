"""A test whether a share, such as that of errors, has become larger than it was."""

from __future__ import annotations

from streamk.drift.rise import POWERS, RiseTest
from streamk.errors import InvalidInput

__all__ = ["ShareTest"]

_UNITS = 1 << 40
"""Parts of 1 that numbers are added up in: what has left a sum of whole numbers leaves no trace."""


class ShareTest(RiseTest):
    """Test whether a share has become larger, after every number from 0 to 1; see `RiseTest`.

    Of errors, which are 1 or 0, the sample has a share m, the new one counted and one more that is
    1. A bet that the share has become ``m ** power`` multiplies its stake by ``m ** power / m`` at
    an error, and by ``(1 - m ** power) / (1 - m)`` at none. The mean of the factor is 1 where m is
    the share, and less with the one more; without it, an error in 0.1% of all events was a false
    alarm after 50,000 instead of 100,000, because a sample of few errors often has too few.

    A number between, such as the probability of an error, has the factors' weighted geometric mean,
    which is less than their mean: its logarithm is what an error of that probability would give in
    the mean. So as much is needed for an alarm as of errors, and numbers which differ little from
    each other are no evidence when they all rise a little, as do the probabilities that a model
    gives while it learns.

    How often that is a false alarm is measured, not proven, see `docs/signals.md`: of independent
    errors with rates between 0.05% and 97% there were between 1.1 and 200 times `run_length` to an
    alarm, and of probabilities none.

    References
    ----------
    Shin, Ramdas and Rinaldo 2023, E-detectors, arXiv:2203.03532.

    Examples
    --------
    >>> import numpy as np
    >>> test, rng = ShareTest(), np.random.default_rng(1)
    >>> wrong = rng.random(4000) < np.where(np.arange(4000) < 3000, 0.1, 0.3)
    >>> [n for n, one in enumerate(wrong.tolist()) if test.update(one)]
    [3063]
    """

    def _begin(self, sample: list[float]) -> None:
        super()._begin(sample)
        self._sum = sum(map(_units, sample))

    def _checked(self, x: float) -> float:
        x = super()._checked(x)
        if not 0.0 <= x <= 1.0:
            raise InvalidInput(f"{x} is no share: it must be from 0 to 1")
        return x

    def _factors(self, x: float) -> list[float]:
        share = (self._sum + _units(x) + _UNITS) / ((len(self._sample) + 2) * _UNITS)
        if share == 1.0:  # nothing but errors
            return [1.0] * len(POWERS)
        larger = [share**power for power in POWERS]
        return [(one / share) ** x * ((1.0 - one) / (1.0 - share)) ** (1.0 - x) for one in larger]

    def _exchange(self, enters: float, leaves: float | None) -> None:
        self._sum += _units(enters) - (0 if leaves is None else _units(leaves))


def _units(x: float) -> int:
    return int(x * _UNITS)
