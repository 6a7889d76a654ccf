"""A scale of columns that stays as long as it will do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.declared import Declared, taken
from streamk.scaling.quantiles import CENTERS, DISTANCES, INVERSES, RunningQuantiles

_FAR, _NEAR = 1.0, 0.3
"""Scales that a center, and parts of itself that a scale or distance, has to move by before it is
replaced; and what two estimates from one stream may be apart by."""
_CLOSEST = 1e-3
"""Median distance at least."""
_NOTHING: tuple[bytes, NDArray[np.float64]] = (b"", np.zeros((1, 0)))


class HysteresisScaler:
    """A copy of running quantiles that follows them only where they have moved far.

    For learners that remember events in the scale in which these came, and know of no other. A
    column gets a new center and scale when the center has moved by more than a scale, or the scale
    to more than twice or less than half of what it was. Its arrays are those of `RunningQuantiles`.

    Examples
    --------
    >>> running, steady = RunningQuantiles(2), HysteresisScaler()
    >>> steady.take(running)
    >>> running.center[0], running.inverse[1] = 0.5, 0.4
    >>> steady.follow(running)
    >>> steady.center, steady.inverse
    (array([0., 0.]), array([1. , 0.4]))
    """

    def __init__(self) -> None:
        self.center: NDArray[np.float64] = np.zeros(0)
        self.inverse: NDArray[np.float64] = np.zeros(0)
        self.distance: NDArray[np.float64] = np.ones(1)
        self._last = _NOTHING
        """A single event, which is mostly predicted and then learned, and what it is scaled."""

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def transform(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return events scaled so that their median distance is the root of 2, 0 where missing.

        A single one may be the array that was returned before, and is not to be written to.
        """
        key = X.tobytes() if len(X) == 1 else b""
        if key and key == self._last[0]:
            return self._last[1]
        if X.shape[1] != len(self.center):
            raise ValueError(f"{X.shape[1]} columns for a scale of {len(self.center)}")
        Z, scale = np.array(X, np.float64, order="C"), math.sqrt(2.0) / float(self.distance[0])
        loops.scaling.standardize(Z, self.center, self.inverse, scale)
        if key:
            self._last = key, Z
        return Z

    def take(self, scale: RunningQuantiles) -> None:
        """Become a copy of a scale of the same columns."""
        self._last = _NOTHING
        self.center, self.inverse = scale.center.copy(), scale.inverse.copy()
        self.distance = np.array([max(scale.distance, _CLOSEST)])

    def follow(self, scale: RunningQuantiles) -> None:
        """Take over what has moved far in a scale of the same columns."""
        self._last = _NOTHING
        new = HysteresisScaler()
        new.take(scale)
        moved = self._apart(new, _FAR)
        self.center[moved], self.inverse[moved] = new.center[moved], new.inverse[moved]
        if self._distance_apart(new) > 1.0 + _FAR:
            self.distance = new.distance

    def add_columns(self, scale: RunningQuantiles) -> None:
        """Append the columns that a scale has besides."""
        self._last = _NOTHING
        known = len(self.center)
        self.center = np.append(self.center, scale.center[known:])
        self.inverse = np.append(self.inverse, scale.inverse[known:])

    def select(self, places: Sequence[int | None], default: HysteresisScaler) -> HysteresisScaler:
        """Return a copy whose columns are those numbered; None is that of a default."""
        new = default.copy()
        for here, there in enumerate(places):
            if there is not None:
                new.center[here], new.inverse[here] = self.center[there], self.inverse[there]
        new.distance = self.distance.copy()
        return new

    def copy(self) -> HysteresisScaler:
        """Return a copy."""
        new = HysteresisScaler()
        vars(new).update(self.arrays())
        return new

    def near(self, other: HysteresisScaler, columns: NDArray[np.bool_]) -> bool:
        """Return whether another is this one in some columns, but for the noise of estimates."""
        apart = self._apart(other, _NEAR) & columns
        return bool(not apart.any() and self._distance_apart(other) <= 1.0 + _NEAR)

    def _apart(self, other: HysteresisScaler, most: float) -> NDArray[np.bool_]:
        """Return which columns of another one are further apart than that."""
        ratio = self.inverse / other.inverse
        shifted = np.abs(other.center - self.center) * self.inverse > most
        return np.asarray(shifted | (np.maximum(ratio, 1.0 / ratio) > 1.0 + most))

    def _distance_apart(self, other: HysteresisScaler) -> float:
        ratio = float(other.distance[0] / self.distance[0])
        return max(ratio, 1.0 / ratio)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return copies of the arrays by name."""
        return {name: getattr(self, name).copy() for name in _ARRAYS}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `arrays` gave; raise StateError if an array is missing or does not fit."""
        self._last = _NOTHING
        for name, array in taken(_DECLARED, arrays, {}, "a steady scale")[0].items():
            setattr(self, name, array.copy())


_DECLARED = (
    Declared("center", "float64", ("columns",), CENTERS),
    Declared("inverse", "float64", ("columns",), INVERSES),
    Declared("distance", "float64", (1,), DISTANCES),
)
_ARRAYS = tuple(each.name for each in _DECLARED)
