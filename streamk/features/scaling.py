"""Online scaling of columns, so that one bandwidth fits streams of any unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import StateError
from streamk.state import State

_FAIR_COIN = 0.5
"""Deviation that a column of zeros and ones is given, however rare its ones are: divided by its
own, a rare one would outweigh all other columns."""


class RunningScale:
    """Running mean and deviation of each column, and the scaling that follows from them.

    A value becomes ``(x - mean) / deviation / sqrt(V)`` with V the sum of the variances of all
    columns in units of their deviations. The mean squared distance of two events is then 2, for
    any number of columns, so a kernel's bandwidth is relative to the spread of the stream. The
    deviation of a column that has held only 0 and 1 is taken as 1/2, and of a constant one as 1.
    A NaN is missing: it counts for nothing and becomes 0, the mean.

    Parameters
    ----------
    d : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> scale = RunningScale(1)
    >>> scale.update(np.array([[10.0], [30.0], [np.nan]]))
    >>> scale.transform(np.array([[30.0], [np.nan]]), np.dtype("float64"))
    array([[1.],
           [0.]])
    """

    TYPE = "running-scale"
    FORMAT = 1

    def __init__(self, d: int = 0) -> None:
        self._count = np.zeros(d)
        self._mean = np.zeros(d)
        self._squares = np.zeros(d)
        self._numeric = np.zeros(d, dtype=bool)
        self._factor: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self._mean)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return 3 * self._mean.nbytes + self._numeric.nbytes

    def update(self, X: NDArray[np.float64]) -> None:
        """Take in events X, float64 of shape (n, d); NaN is missing (Chan et al. 1979)."""
        if not len(X):
            return
        missing = np.isnan(X)
        if missing.any():
            known = ~missing
            count = known.sum(axis=0)
            mean = np.where(known, X, 0.0).sum(axis=0) / np.maximum(count, 1)
            deviations = np.where(known, X - mean, 0.0)
            numeric = (known & (X != 0.0) & (X != 1.0)).any(axis=0)
        else:
            count = np.full(X.shape[1], len(X))
            mean = X.mean(axis=0)
            deviations = X - mean
            numeric = ((X != 0.0) & (X != 1.0)).any(axis=0)
        self._combine(count, mean, (deviations * deviations).sum(axis=0))
        self._numeric |= numeric

    def _combine(self, count: Any, mean: Any, squares: Any) -> None:
        total = self._count + count
        shift = mean - self._mean
        share = count / np.maximum(total, 1.0)
        self._squares += squares + shift * shift * self._count * share
        self._mean += shift * share
        self._count = total
        self._factor = None

    def transform(self, X: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the events scaled, in the dtype wanted."""
        Z = (X - self._mean) * self._factors()
        missing = np.isnan(X)
        if missing.any():
            Z[missing] = 0.0
        with np.errstate(over="ignore"):  # the learner refuses what does not fit its dtype
            return Z.astype(dtype)

    def invert(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what scales to Z."""
        return np.asarray(Z / self._factors() + self._mean)

    def _factors(self) -> NDArray[np.float64]:
        if self._factor is None:
            self._factor = self._new_factors()
        return self._factor

    def _new_factors(self) -> NDArray[np.float64]:
        variance = self._squares / np.maximum(self._count, 1.0)
        deviation = np.sqrt(variance)
        # Rounding leaves a constant column a deviation of this order.
        varies = deviation > 1e-12 * np.abs(self._mean)
        variance, deviation = np.where(varies, variance, 0.0), np.where(varies, deviation, 1.0)
        deviation = np.where(self._numeric, deviation, _FAIR_COIN)
        spread = float((variance / (deviation * deviation)).sum())
        return np.asarray(1.0 / (deviation * np.sqrt(spread if spread > 0 else 1.0)))

    def add_columns(self, n: int) -> None:
        """Append n columns that were zero in all events so far."""
        events = self._count.max(initial=0.0)
        self._count = np.append(self._count, np.full(n, events))
        self._mean = np.append(self._mean, np.zeros(n))
        self._squares = np.append(self._squares, np.zeros(n))
        self._numeric = np.append(self._numeric, np.zeros(n, dtype=bool))
        self._factor = None

    def select(self, order: Sequence[int | None]) -> RunningScale:
        """Return a copy whose columns are those numbered; None is one that was always zero."""
        copy = RunningScale.from_state(self.state())
        copy.add_columns(1)
        numbers = [len(self) if number is None else number for number in order]
        for name, array in vars(copy).items():
            if array is not None:
                setattr(copy, name, array[numbers])
        return copy

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        arrays = {
            "count": self._count.copy(),
            "mean": self._mean.copy(),
            "squares": self._squares.copy(),
            "numeric": self._numeric.copy(),
        }
        return State({"type": self.TYPE, "format": self.FORMAT}, arrays)

    @classmethod
    def from_state(cls, state: State) -> RunningScale:
        """Return the scale whose state this is.

        Raises
        ------
        StateError
            If the state is something else's, of a newer format, or its arrays do not fit.
        """
        arrays = state.expect(cls.TYPE, format=cls.FORMAT).arrays
        scale = cls(len(arrays.get("count", ())))
        for name in ("count", "mean", "squares", "numeric"):
            own = getattr(scale, f"_{name}")
            if name not in arrays or arrays[name].shape != own.shape:
                raise StateError(f"array {name!r} of a running scale must have shape {own.shape}")
            setattr(scale, f"_{name}", arrays[name].astype(own.dtype))
        return scale
