"""Scales of columns that are known before the events that they scale, and then stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.backends import FAIR_COIN, OUTERMOST, Backend
from streamk.declared import Declared, number, taken
from streamk.scaling.quantiles import CENTERS, DISTANCES, INVERSES, RunningQuantiles
from streamk.state import JSON, State

_OWNER = "a scale of a two-sample test"
_DECLARED = (
    Declared("center", "float64", ("columns",), CENTERS),
    Declared("inverse", "float64", ("columns",), INVERSES),
)


class FirstScale:
    """Median and spread of each column in the first events, and the events' distance.

    They are those of `streamk.scaling.quantiles.RunningQuantiles`, and stay: a test that is to be
    exact may not scale an event by later ones.

    Parameters
    ----------
    rows : float64 array of shape (n, d)
        The first events; NaN is missing.

    Attributes
    ----------
    distance : float
        Median distance of two scaled events.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk import backends
    >>> scale = FirstScale(np.arange(64.0)[:, None])
    >>> scale.transform(np.array([[31.5], [np.nan], [1e9]]), backends.select()).ravel().tolist()
    [0.0, 0.0, 8.0]
    """

    TYPE = "first-scale"

    def __init__(self, rows: NDArray[np.float64]) -> None:
        quantiles = RunningQuantiles(rows.shape[1])
        quantiles.observe(rows)
        self._center, self._inverse = quantiles.center.copy(), quantiles.inverse.copy()
        self.distance = quantiles.distance

    def __len__(self) -> int:
        return len(self._center)

    def transform(self, X: NDArray[np.float64], backend: Backend) -> NDArray[np.float32]:
        """Return events (n, d) scaled, between -8 and 8, and 0 where a value is missing."""
        Z = np.empty(X.shape, np.float32)
        backend.rescale(X, self._center, self._inverse, Z)
        np.minimum(np.maximum(Z, -OUTERMOST, out=Z), OUTERMOST, out=Z)
        return Z

    def add_columns(self, n: int) -> None:
        """Append n columns that were zero in all events so far, scaled as zeros and ones."""
        self._center = np.append(self._center, np.zeros(n))
        self._inverse = np.append(self._inverse, np.full(n, 1.0 / FAIR_COIN))

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "distance": self.distance,
        }
        return State(header, {"center": self._center.copy(), "inverse": self._inverse.copy()})

    @classmethod
    def from_state(cls, state: State, columns: int) -> FirstScale:
        """Return the scale of so many columns whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or its parts do not fit.
        """
        header = state.expect(cls.TYPE).header
        arrays, _ = taken(_DECLARED, state.arrays, {"columns": columns}, _OWNER)
        scale = cls(np.zeros((0, columns)))
        scale.distance = number(header, "distance", _OWNER, DISTANCES)
        scale._center, scale._inverse = arrays["center"].copy(), arrays["inverse"].copy()
        return scale
