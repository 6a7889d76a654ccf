"""Online scaling of columns, so that one bandwidth fits streams of any unit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from streamk import backends
from streamk.declared import FLAGS, NON_NEGATIVE, Declared, Domain, number, taken
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import JSON, State

_FLOAT64 = np.dtype(np.float64)


def is_plain_event(x: Any, shape: tuple[int, ...]) -> TypeGuard[NDArray[np.float64]]:
    """Return whether x is an array of that shape just as the compiled functions know it."""
    return type(x) is np.ndarray and x.dtype is _FLOAT64 and x.shape == shape and x.flags.carray


class RunningScale:
    """Running mean and deviation of each column, and the scaling that follows from them.

    A value becomes ``(x - mean) / deviation / sqrt(V)`` with V the sum of the variances of all
    columns in units of their deviations. The mean squared distance of two events is then 2, for
    any number of columns, so a kernel's bandwidth is relative to the spread of the stream. The
    deviation of a column that has held only 0 and 1 is taken as 1/2, and of a constant one as 1.
    A NaN is missing: it counts for nothing and becomes 0, the mean. What would be farther out than
    1e18 becomes that, with its sign.

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

    def __init__(self, d: int = 0) -> None:
        self._count = np.zeros(d)
        self._mean = np.zeros(d)
        self._squares = np.zeros(d)
        self._numeric = np.zeros(d, dtype=bool)
        self._factor: NDArray[np.float64] | None = None
        self._backend = backends.select()

    def __len__(self) -> int:
        return len(self._mean)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return 3 * self._mean.nbytes + self._numeric.nbytes

    def update(self, X: NDArray[np.float64]) -> None:
        """Take in events X, float64 of shape (n, d); NaN is missing (Chan et al. 1979)."""
        self._backend.measure(X, self._count, self._mean, self._squares, self._numeric)
        self._factor = None

    def transform(self, X: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the events scaled, in the dtype wanted."""
        Z = np.empty(X.shape, dtype)
        self._backend.rescale(X, self._mean, self._factors(), Z)
        return Z

    def transform_each(
        self,
        X: NDArray[np.float64],
        known: NDArray[np.bool_],
        dtype: np.dtype[Any],
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Take in events X (n, d) one by one, and return each as it is scaled then, in the dtype.

        Those that are not known (n,) change nothing. Also returns means and factors before each,
        float64 (n, 2, d).
        """
        after, factor = np.empty(X.shape, dtype), self._factors()
        units = np.empty((len(X), 2, len(self)))
        statistics = (self._count, self._mean, self._squares, self._numeric)
        self._backend.rescale_each(X, known, statistics, factor, after, units)
        return after, units

    def invert(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what scales to Z."""
        return np.asarray(Z / self._factors() + self._mean)

    def varies(self) -> bool:
        """Return whether a column has held different values."""
        return bool(self._squares.any())

    def _factors(self) -> NDArray[np.float64]:
        if self._factor is None:
            self._factor = np.empty(len(self))
            statistics = (self._count, self._mean, self._squares, self._numeric)
            self._backend.spread(*statistics, self._factor)
        return self._factor

    def copy(self) -> RunningScale:
        """Return an independent copy."""
        other = RunningScale(0)
        for name in _ARRAYS:
            setattr(other, f"_{name}", getattr(self, f"_{name}").copy())
        return other

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        arrays = {name: getattr(self, f"_{name}").copy() for name in _ARRAYS}
        return State({"type": self.TYPE}, arrays)

    @classmethod
    def from_state(cls, state: State) -> RunningScale:
        """Return the scale of a state, or raise StateError if it does not fit."""
        state.expect(cls.TYPE)
        found, _ = taken(_DECLARED, state.arrays, {}, "a running scale")
        scale = cls(0)
        for name, array in found.items():
            setattr(scale, f"_{name}", array.copy())
        return scale


_DECLARED = (
    Declared("count", "float64", ("columns",), NON_NEGATIVE),
    Declared("mean", "float64", ("columns",)),
    Declared("squares", "float64", ("columns",), Domain(least=0.0, infinite=True)),
    Declared("numeric", "bool", ("columns",), FLAGS),
)
"""Squares of numbers near the largest are infinite."""
_ARRAYS = tuple(each.name for each in _DECLARED)


_BOUND = 3.0
"""Scales from the center up to which values are as they are; farther ones are compressed."""
_BLOCK = 1 << 18
"""Values that are looked at together."""
_STRETCH = 0.05
"""Part of itself that the factor of all columns has to move by before it is replaced."""

_UNIT = Domain(least=1e-163, most=1e163)
"""Factors of all columns, one over the root of a variance that is a number above 0."""


class RobustScale:
    """Running quantiles of each column, and the scaling that follows from them.

    A value becomes ``z = (x - center) / scale`` by the median and the spread of the deciles, as
    `streamk.scaling.quantiles.RunningQuantiles` has them. A z beyond 3 becomes ``6 - 9 / |z|``
    with its sign: the order stays, and so does the slope at 3, but no value is farther out than 6.
    All columns are then multiplied by one factor, by which the mean squared distance of two events
    is 2, so a kernel's bandwidth is relative to the spread of the stream. A NaN is missing and
    becomes 0, the median.

    Like the quantiles, the factor is made anew after event 1, 2, 4, ... 8192 and then after every
    8192 events, of the same sample, and replaced where it differs by more than 5%.

    Examples
    --------
    >>> import numpy as np
    >>> scale = RobustScale(1)
    >>> scale.update(np.arange(65.0)[:, None])
    >>> scale.transform(np.array([[32.0], [np.nan], [1e9]]), np.dtype("float64")).round(1).tolist()
    [[0.0], [0.0], [6.1]]
    """

    TYPE = "robust-scale"

    def __init__(self, d: int = 0, *, seed: int = 0) -> None:
        self._quantiles = RunningQuantiles(d, seed=seed)
        self._backend = backends.select()
        self._unit = 1.0
        self._fit()

    def _fit(self) -> None:
        """Take over what the quantiles are."""
        self._factor = self._quantiles.inverse * self._unit
        self._bound = _BOUND * self._unit

    def _measure(self) -> None:
        """Find the factor of all columns out of the sample."""
        total, rows = 0.0, self._quantiles.sample
        width = max(1, _BLOCK // max(1, len(rows)))
        for first in range(0, len(self), width):
            some = slice(first, first + width)
            center, inverse = self._quantiles.center[some], self._quantiles.inverse[some]
            Z = np.nan_to_num((rows[:, some] - center) * inverse)
            total += float(_compressed(Z, _BOUND).var(axis=0).sum())
        unit = 1.0 / math.sqrt(total) if total > 0.0 else 1.0
        if abs(unit / self._unit - 1.0) > _STRETCH:
            self._unit = unit
        self._fit()

    def __len__(self) -> int:
        return len(self._quantiles)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._quantiles.nbytes + self._factor.nbytes

    def update(self, X: NDArray[np.float64]) -> None:
        """Take in events X, float64 of shape (n, d); NaN is missing."""
        start = 0
        while start < len(X):
            moment, stop = self._quantiles.moment, start + self._quantiles.until_change()
            self._quantiles.observe(X[start : start + 1])
            if self._quantiles.moment != moment:  # by the sample as it is at that moment
                self._measure()
            self._quantiles.observe(X[start + 1 : stop])
            start = stop

    def transform(self, X: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the events scaled, in the dtype wanted."""
        Z = np.empty(X.shape, dtype)
        self._backend.rescale(X, self._quantiles.center, self._factor, Z)
        return _compressed(Z, self._bound)

    def transform_each(
        self,
        X: NDArray[np.float64],
        known: NDArray[np.bool_],
        dtype: np.dtype[Any],
        *,
        before: bool = False,
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Take in events one by one, and return each as it is scaled then.

        As `RunningScale.transform_each`, but with events as they are scaled before they are taken
        in, where these are wanted.
        """
        after = np.empty(X.shape, dtype)
        ahead = np.empty(X.shape, dtype) if before else None
        rows, at, done = np.flatnonzero(known).tolist(), 0, 0
        while at < len(X):
            # None but the first event that is taken in changes anything.
            wanted = done + self._quantiles.until_change()
            first = rows[done] if done < len(rows) else len(X)
            stop = rows[wanted] if wanted < len(rows) else len(X)
            after[at:first] = self.transform(X[at:first], dtype)
            if ahead is not None:
                ahead[at : first + 1] = self.transform(X[at : first + 1], dtype)
            self.update(X[rows[done:wanted]])
            after[first:stop] = self.transform(X[first:stop], dtype)
            if ahead is not None:
                ahead[first + 1 : stop] = after[first + 1 : stop]
            at, done = stop, wanted
        return after, ahead

    def takes(self, x: Any) -> TypeGuard[NDArray[np.float64]]:
        """Return whether x is an array of one event just as the compiled functions know it."""
        return is_plain_event(x, self._factor.shape)

    def transform_one(self, x: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """Return an event scaled that `takes` lets through, None if a value is beyond 1e150."""
        z = np.empty(len(x), dtype)
        near = self._backend.rescale(x[None], self._quantiles.center, self._factor, z[None])
        return _compressed(z, self._bound) if near else None

    def add_columns(self, n: int) -> None:
        """Append n columns that were zero in all events so far."""
        self._quantiles.add_columns(n)
        self._fit()

    def undo(self, n: int) -> Callable[[], None]:
        """Return a function that undoes the taking in of the next n events or less."""
        quantiles, unit = self._quantiles.undo(n), self._unit

        def back() -> None:
            quantiles()
            self._unit = unit
            self._fit()

        return back

    def join(self, other: RobustScale, share: float, number: int) -> None:
        """Take in a share of the sample of another one of the same columns and seed.

        What is in use stays until the next estimates, see `RunningQuantiles.join`.
        """
        self._quantiles.join(other._quantiles, share, number)

    def select(self, order: Sequence[int | None]) -> RobustScale:
        """Return a copy whose columns are those numbered; None is one that was always zero."""
        other = copy.copy(self)
        other._quantiles = self._quantiles.select(order)
        other._fit()
        return other

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, JSON] = {"type": self.TYPE, "unit": self._unit}
        return State.nest({"quantiles": self._quantiles.state()}, header)

    @classmethod
    def from_state(cls, state: State) -> RobustScale:
        """Return the scale of a state, or raise StateError if it does not fit."""
        scale = cls()
        header = state.expect(cls.TYPE).header
        unit = number(header, "unit", "a robust scale", _UNIT)
        scale._quantiles = RunningQuantiles.from_state(state.child("quantiles"))
        scale._unit = unit
        scale._fit()
        return scale


def _compressed(Z: NDArray[Any], bound: float) -> NDArray[Any]:
    """Return an array whose values beyond a bound were compressed in place."""
    far = np.abs(Z) > bound
    if far.any():
        beyond = Z[far]
        Z[far] = np.copysign(2.0 * bound - bound * bound / np.abs(beyond), beyond)
    return Z
