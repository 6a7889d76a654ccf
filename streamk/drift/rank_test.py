"""A test whether numbers have become larger than those before, by their ranks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from streamk.drift.rise import POWERS, RiseTest

__all__ = ["RankTest"]


class RankTest(RiseTest):
    """Test whether numbers of any law have become larger, after every number; see `RiseTest`.

    Each number is ranked in the sample of earlier ones, equal ones in an order that is drawn. A bet
    on high ranks multiplies its stake by a factor whose mean is 1 as long as the numbers are
    exchangeable, whatever their law (conformal martingales, Vovk et al. 2005, section 7.1; the
    factor is the power bet). Then it takes `run_length` numbers in the mean, at least, to an alarm:
    that is proven, since the ranks are independent.

    Of numbers that are mostly equal, such as errors of classes, ranks say little: `ShareTest` is
    for these.

    References
    ----------
    Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a Random World, Springer.
    Shin, Ramdas and Rinaldo 2023, E-detectors, arXiv:2203.03532.

    Examples
    --------
    >>> import numpy as np
    >>> test, rng = RankTest(), np.random.default_rng(1)
    >>> far = np.abs(rng.normal(size=4000)) * np.where(np.arange(4000) < 3000, 1.0, 2.0)
    >>> [n for n, one in enumerate(far.tolist()) if test.update(one)]
    [3020]
    """

    def _begin(self, sample: list[float]) -> None:
        super()._begin(sample)
        self._sorted = sorted(sample)

    def _factors(self, x: float) -> list[float]:
        n = len(self._sorted)
        above, upto = n - bisect_right(self._sorted, x), n - bisect_left(self._sorted, x)
        if upto > above:
            above += int(self._draws.take(self.n, 1)[0, 2] * (upto - above + 1))
        low, high = above / (n + 1), (above + 1) / (n + 1)
        return [(high**power - low**power) / (high - low) for power in POWERS]

    def _exchange(self, enters: float, leaves: float | None) -> None:
        if leaves is not None:
            del self._sorted[bisect_left(self._sorted, leaves)]
        insort(self._sorted, enters)
