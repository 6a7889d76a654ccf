"""The common part of tests of a rise: a sample of earlier numbers, and stakes on the next."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from streamk import options
from streamk.drift.draws import Draws
from streamk.errors import InvalidInput, StateError
from streamk.options import Option, Real, Whole

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
    become smaller are no change.

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

        Parameters
        ----------
        number : float

        Raises
        ------
        InvalidInput
            If it is NaN, or none that this test takes.
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

        Raises
        ------
        StateError
            If the data is not its own.
        """
        try:
            test = cls(**{name: data[name] for name in cls.OPTIONS})
            test.n = int(data["n"])
            test._begin([test._checked(float(x)) for x in data["sample"]])
            test._stakes = [float(stake) for stake in data["stakes"]]
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            raise StateError(f"a test of a rise cannot be read: {error!r}") from error
        fits = len(test._stakes) == len(POWERS) and len(test._sample) <= test.reference
        if not fits or not all(0.0 <= stake < math.inf for stake in test._stakes):
            raise StateError("a test of a rise cannot be read: its numbers are out of their domain")
        if test.n < len(test._sample):
            raise StateError("a test of a rise cannot be read: it has more numbers than came")
        return test
