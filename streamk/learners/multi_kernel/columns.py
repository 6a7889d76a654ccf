"""Columns of a stream that grow, and their running scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import LARGEST
from streamk.errors import InvalidInput
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import check_events
from streamk.learners.common.predictor import one_row
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import State

Floats = NDArray[np.float64]
_FLOAT64 = np.dtype(np.float64)


class ScaledColumns:
    """Names of columns that grow, None before the first, with keys and a running scale.

    Examples
    --------
    >>> columns = ScaledColumns(RunningQuantiles())
    >>> columns.add(["a", 7], columns.new_keys(["a", 7]))
    >>> columns.names, len(columns.scale)
    (('a', 7), 2)
    """

    def __init__(self, scale: RunningQuantiles) -> None:
        self.names: tuple[Column, ...] | None = None
        self.keys, self.scale = column_keys(()), scale

    def new_keys(self, names: Sequence[Column]) -> NDArray[np.uint64]:
        """Return the keys of columns to come; raise InvalidInput if one is there already."""
        keys = column_keys(names)
        twice = np.isin(keys, self.keys)
        if twice.any():
            raise InvalidInput(f"column {names[int(twice.argmax())]!r} is there already")
        return keys

    def add(self, names: Sequence[Column], keys: NDArray[np.uint64]) -> None:
        """Append columns with their keys."""
        self.keys = np.concatenate([self.keys, keys])
        self.names = (*(self.names or ()), *names)
        self.scale.add_columns(len(names))

    def scale_of(self, names: Sequence[Column]) -> RunningQuantiles:
        """Return a copy of the scale for these columns, also for such as are not there."""
        places = {name: place for place, name in enumerate(self.names or ())}
        return self.scale.select([places.get(name) for name in names])

    # Events

    def check(self, X: ArrayLike) -> Floats:
        """Return events (n, d) as the experts take them, or raise InvalidInput."""
        return check_events(X, _FLOAT64, self.names, missing=True)

    def event(self, x: ArrayLike, was_forecast_last: Callable[[Floats], bool]) -> Floats:
        """Return one event (d,) as the compiled loops take it, or raise InvalidInput.

        One that was forecast last need not be looked at again. A sum of squares is the
        fast way to see it otherwise; a NaN, which is missing, takes the last one.
        """
        if (
            type(x) is np.ndarray
            and x.dtype is _FLOAT64
            and x.shape == self.keys.shape
            and x.flags.carray
            and (
                was_forecast_last(x)
                or np.vdot(x, x) <= LARGEST**2
                or not (np.abs(x) > LARGEST).any()
            )
        ):
            return x
        return self.check(one_row(x)).ravel()

    @classmethod
    def from_state(cls, scale: State, names: Sequence[Column] | None) -> Self:
        """Return columns with the scale of a state; raise StateError or ValueError otherwise."""
        columns = cls(RunningQuantiles.from_state(scale))
        if names is not None:
            columns.names, columns.keys = tuple(names), column_keys(names)
        if len(columns.scale) != len(columns.keys):
            raise ValueError(f"{len(columns.scale)} columns have a scale")
        return columns
