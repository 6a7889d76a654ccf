"""The common part of tests of a rise: a sample of earlier numbers, and stakes on the next."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamk import options
from streamk.backends import TAG_EVENT, numbered_words
from streamk.declared import reading
from streamk.errors import InvalidInput
from streamk.options import Option, Real, Whole

_AHEAD = 1024
"""Events that are drawn for at once."""


class Draws:
    """Three uniform numbers in (0, 1) for each event, functions of seed and event number alone.

    Parameters
    ----------
    seed : int
        0 to 2^64 - 1.

    Examples
    --------
    >>> draws = Draws(7)
    >>> one, some = draws.take(1023, 1), draws.take(1020, 100)
    >>> some.shape, bool((one[0] == some[3]).all())
    ((4, 3), True)
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._first = -1
        self._drawn: NDArray[np.float64] = np.zeros((0, 3))

    def take(self, first: int, n: int) -> NDArray[np.float64]:
        """Return the numbers (n, 3) of events from `first` on, perhaps of fewer, at least of 1."""
        start = first % _AHEAD
        if first - start != self._first:
            self._first = first - start
            words = numbered_words(self._first, self._first + _AHEAD, TAG_EVENT, self._seed)
            self._drawn = (words[:, :3].astype(np.float64) + 0.5) * 2.0**-32
        return self._drawn[start : start + n]


POWERS = (0.3, 0.5, 0.7, 0.9)
"""Of the bets: a share of the sample is taken to be larger now, by this power of it."""
_FIRST = 50
"""Numbers that only fill the reference sample."""


class RiseTest(ABC):
    """Test whether numbers have become larger than the ones before them, after every number.

    A bet on large numbers multiplies its stake by a factor whose mean is 1 at most as long as
    nothing changes. A stake of 1 is laid after every number, so that a change is found whenever it
    comes (Shiryaev-Roberts, as Shin, Ramdas and Rinaldo 2023 have it). The sum of all stakes is
    the evidence, a mean over several bets. After an alarm the next number begins a new run, which
    has forgotten all before.

    A number then enters the sample, and one of all, drawn at random, leaves it, as in
    `StreamingMMD`. A change that takes longer than `reference` numbers is not found; numbers that
    become smaller are not a change.

    Parameters
    ----------
    run_length : float, default 100000
        Evidence that is an alarm; 100 to 1e12.
    reference : int, default 1000
        Most numbers in the sample, 64 to 65536.
    seed : int, default 0
        0 to 2^64 - 1, of the numbers that leave the sample, and of ties.

    Attributes
    ----------
    n : int
        Numbers taken in.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.
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
        self._begin([])

    def _begin(self, sample: list[float]) -> None:
        """Begin a run, or go on with a sample."""
        self._stakes = [0.0] * len(POWERS)
        self._sample = sample

    @property
    def evidence(self) -> float:
        """Sum of all stakes; at the last alarm it was above `run_length`."""
        return sum(self._stakes) / len(POWERS)

    @property
    def before(self) -> float:
        """Mean of the reference sample; NaN where it is empty."""
        return sum(self._sample) / len(self._sample) if self._sample else math.nan

    def update(self, number: float) -> bool:
        """Take in a number; return whether it is an alarm.

        Raises `InvalidInput` if it is NaN, or none that this test takes.

        Parameters
        ----------
        number : float
        """
        x = self._checked(float(number))
        if self.evidence >= self.run_length:
            self._begin([])
        if len(self._sample) >= _FIRST:
            self._stakes = [
                (stake + 1.0) * factor
                for stake, factor in zip(self._stakes, self._factors(x), strict=True)
            ]
        n = len(self._sample)
        if n < self.reference:
            self._sample.append(x)
            self._exchange(x, None)
        else:
            leaves = int(self._draws.take(self.n, 1)[0, 1] * (n + 1))
            if leaves < n:
                self._exchange(x, self._sample[leaves])
                self._sample[leaves] = x
        self.n += 1
        return self.evidence >= self.run_length

    def _checked(self, x: float) -> float:
        if math.isnan(x):
            raise InvalidInput("the number to be tested is NaN")
        return x

    @abstractmethod
    def _factors(self, x: float) -> Sequence[float]:
        """Return by what each bet multiplies its stake at a number."""

    @abstractmethod
    def _exchange(self, enters: float, leaves: float | None) -> None:
        """Note that a number enters the sample, and another leaves it, or none."""

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            **options.to_header(self.OPTIONS, self),
            "n": self.n,
            "stakes": list(self._stakes),
            "sample": list(self._sample),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Go on where `to_json` was called, bit for bit.

        Raises `StateError` if the data is not its own.
        """
        with reading("a test of a rise"):
            test = cls(**{name: data[name] for name in cls.OPTIONS})
            test.n = int(data["n"])
            test._begin([test._checked(float(x)) for x in data["sample"]])
            test._stakes = [float(stake) for stake in data["stakes"]]
            fits = all(0.0 <= stake < math.inf for stake in test._stakes)
            fits = fits and len(test._sample) <= min(test.n, test.reference)
            if not fits or len(test._stakes) != len(POWERS):
                raise ValueError("its numbers are out of their domain")
        return test


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
    each other are not evidence when they all rise a little, as do the probabilities that a model
    gives while it learns.

    The rate of false alarms is measured, not proven, see `docs/benchmarks/signals.md`: independent
    errors with rates between 0.05% and 97% took between 1.1 and 200 times `run_length` to an alarm,
    and probabilities raised none.

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
            raise InvalidInput(f"{x} is not a share: it must lie between 0 and 1")
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
