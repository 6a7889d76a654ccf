"""A test whether numbers have become larger than those before, that may be looked at any time."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import Any, ClassVar

from streamk import options
from streamk.drift.draws import Draws
from streamk.errors import InvalidInput, StateError
from streamk.options import Option, Real, Whole

__all__ = ["RankTest"]

_POWERS = (0.3, 0.5, 0.7, 0.9)
_FIRST = 50
"""Numbers that only fill the reference sample."""
_FEW = 10
"""Equal numbers in the sample, or others, below which ties are broken at random. A mean over the
ties is fair in itself, but says how many there are. Where these few are fewer than their share of
the stream, each further one wins again and again: of errors in 0.1% of all events there would be an
alarm after 15,000 instead of 100,000."""


class RankTest:
    """Test whether numbers have become larger than the ones before them, after every number.

    Each number is ranked in a sample of earlier ones. A bet on high ranks multiplies its stake by a
    factor whose mean is 1 as long as the numbers are exchangeable, whatever their law (conformal
    martingales, Vovk et al. 2005, section 7.1; the factor is the power bet). A stake of 1 is laid
    after every number, so that a change is found whenever it comes (Shiryaev-Roberts, as Shin,
    Ramdas and Rinaldo 2023 have it). The sum of all stakes is the evidence. Where nothing changes
    and numbers are independent, it takes `run_length` numbers in the mean, at least, to reach
    `run_length`: that is proven where no two numbers are equal, since their ranks are independent.
    After that the next number begins a new run, which has forgotten all before.

    Of equal numbers the factor is the mean over their ranks, or that of a rank drawn at random
    where the sample has fewer than 10 of them, or fewer than 10 others. That is measured, not
    proven: errors with rates between 0.05% and 50% took between 1.1 and 1.9 times `run_length`.

    A number then enters the sample, and one of all, drawn at random, leaves it, as in
    `StreamingMMD`. A change that takes longer than `reference` numbers is not found; numbers that
    become smaller are no change.

    Parameters
    ----------
    run_length : float, default 100000
        Numbers until a false alarm, in the mean at least; 100 to 1e12.
    reference : int, default 1000
        Most numbers in the sample, 64 to 65536.
    seed : int, default 0
        0 to 2^64 - 1, of the numbers that leave the sample, and of ties.

    Attributes
    ----------
    evidence : float
        Sum of all stakes; at the last alarm it was above `run_length`.
    n : int
        Numbers taken in.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    References
    ----------
    Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a Random World, Springer.
    Shin, Ramdas and Rinaldo 2023, E-detectors, arXiv:2203.03532.

    Examples
    --------
    >>> import numpy as np
    >>> test, rng = RankTest(), np.random.default_rng(1)
    >>> wrong = rng.random(4000) < np.where(np.arange(4000) < 3000, 0.1, 0.3)
    >>> [n for n, one in enumerate(wrong.tolist()) if test.update(one)]
    [3059]
    """

    OPTIONS: ClassVar[dict[str, Option]] = {
        "run_length": Real(least=100.0, most=1e12),
        "reference": Whole(least=64, most=1 << 16),
        "seed": Whole(least=0, most=2**64 - 1),
    }

    def __init__(
        self, *, run_length: float = 100_000.0, reference: int = 1000, seed: int = 0
    ) -> None:
        self.run_length, self.reference, self.seed = float(run_length), reference, seed
        options.check(self.OPTIONS, self)
        self.n = 0
        self._draws = Draws(seed)
        self._begin()

    def _begin(self) -> None:
        self._stakes = [0.0] * len(_POWERS)
        self._sample: list[float] = []
        self._sorted: list[float] = []

    @property
    def evidence(self) -> float:
        """Sum of all stakes, a mean over several bets."""
        return sum(self._stakes) / len(_POWERS)

    @property
    def before(self) -> float:
        """Mean of the reference sample; NaN where it is empty."""
        return sum(self._sample) / len(self._sample) if self._sample else math.nan

    def update(self, number: float) -> bool:
        """Take in a number; return whether it is an alarm.

        Parameters
        ----------
        number : float

        Raises
        ------
        InvalidInput
            If it is NaN.
        """
        x = float(number)
        if math.isnan(x):
            raise InvalidInput("the number to be ranked is NaN")
        if self.evidence >= self.run_length:
            self._begin()
        n = len(self._sample)
        if n >= _FIRST:
            low, high = self._ranks(x)
            self._stakes = [
                (stake + 1.0) * (high**power - low**power) / (high - low)
                for stake, power in zip(self._stakes, _POWERS, strict=True)
            ]
        self._enter(x)
        self.n += 1
        return self.evidence >= self.run_length

    def _ranks(self, x: float) -> tuple[float, float]:
        """Return between which shares of the sample and x itself this one stands, from above."""
        n = len(self._sample)
        above, upto = n - bisect_right(self._sorted, x), n - bisect_left(self._sorted, x)
        ties = upto - above
        if ties and min(ties, n - ties) < _FEW:
            above = upto = above + int(self._draws.take(self.n, 1)[0, 2] * (ties + 1))
        return above / (n + 1), (upto + 1) / (n + 1)

    def _enter(self, x: float) -> None:
        n = len(self._sample)
        if n < self.reference:
            self._sample.append(x)
        else:
            leaves = int(self._draws.take(self.n, 1)[0, 1] * (n + 1))
            if leaves == n:
                return
            del self._sorted[bisect_left(self._sorted, self._sample[leaves])]
            self._sample[leaves] = x
        insort(self._sorted, x)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            **options.to_header(self.OPTIONS, self),
            "n": self.n,
            "stakes": list(self._stakes),
            "sample": list(self._sample),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RankTest:
        """Go on where `to_json` was called, bit for bit.

        Raises
        ------
        StateError
            If the data is not its own.
        """
        try:
            test = cls(**{name: data[name] for name in cls.OPTIONS})
            test.n = int(data["n"])
            test._stakes = [float(stake) for stake in data["stakes"]]
            test._sample = [float(x) for x in data["sample"]]
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            raise StateError(f"a rank test cannot be read: {error!r}") from error
        fits = len(test._stakes) == len(_POWERS) and len(test._sample) <= test.reference
        fits = fits and all(0.0 <= stake < math.inf for stake in test._stakes)
        if not fits or any(map(math.isnan, test._sample)):
            raise StateError("a rank test cannot be read: its numbers are out of their domain")
        if test.n < len(test._sample):
            raise StateError("a rank test cannot be read: it has more numbers than were taken in")
        test._sorted = sorted(test._sample)
        return test
