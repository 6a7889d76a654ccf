"""Online scaling of columns, so that one bandwidth fits streams of any unit."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from streamk import backends
from streamk.declared import FLAGS, NON_NEGATIVE, Declared, Domain, taken
from streamk.state import State

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
        *,
        before: bool = False,
        units: bool = False,
    ) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.float64] | None]:
        """Take in events one by one, and return each as it is scaled then.

        Parameters
        ----------
        X : float64 array of shape (n, d)
            NaN is missing.
        known : bool array of shape (n,)
            Which events are taken in; the others change nothing.
        dtype : numpy dtype
            Of scaled events.
        before : bool, default False
            Whether they are wanted as they are scaled before they are taken in, too.
        units : bool, default False
            Whether the means and factors before each are wanted.

        Returns
        -------
        after, before : arrays of shape (n, d)
        units : float64 array of shape (n, 2, d)
            The last two are None where they are not wanted.
        """
        after, factor = np.empty(X.shape, dtype), self._factors()
        ahead = np.empty(X.shape, dtype) if before else None
        unit = np.empty((len(X), 2, len(self))) if units else None
        statistics = (self._count, self._mean, self._squares, self._numeric)
        self._backend.rescale_each(X, known, statistics, factor, ahead, after, unit)
        return after, ahead, unit

    def invert(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what scales to Z."""
        return np.asarray(Z / self._factors() + self._mean)

    def varies(self) -> bool:
        """Return whether a column has held different values."""
        return bool(self._squares.any())

    def _factors(self) -> NDArray[np.float64]:
        if self._factor is None:
            self._factor = self._new_factors()
        return self._factor

    def _new_factors(self) -> NDArray[np.float64]:
        factor = np.empty(len(self))
        self._backend.spread(self._count, self._mean, self._squares, self._numeric, factor)
        return factor

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
        """Return the scale whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or its arrays do not fit.
        """
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
