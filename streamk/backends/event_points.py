"""The map of events to the points of a feature machine, in twins like the package's.

Each twin's module `event_points` defines the functions of `BackendModule`. All arrays are
C-contiguous. What is computed for a row is the same, bit for bit, whatever rows are computed with
it, and the same in both twins.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamk import backends
from streamk.backends import OUTERMOST

Array = NDArray[Any]


class ColumnMap(NamedTuple):
    """A scale of columns: ``(x - means) factors``, x by ranks or as it is, float64 (d,)."""

    medians: Array
    """Stand for NaN."""
    means: Array
    factors: Array
    values: Array
    """Of all columns, one after the other: ascending numbers between which ranks are interpolated,
    float64 (knots,)."""
    ranks: Array
    """Of these, float64 (knots,)."""
    ends: Array
    """The end of each column's knots, int64 (d,). A column without any stays as it is."""


class BackendModule(Protocol):
    """The functions of a backend's module `event_points`."""

    def scale(self, X: Array, columns: ColumnMap, most: float) -> None:
        """Put events X (n, d), float64, on a scale, bounded by `most`."""
        ...

    def bound(self, P: Array, factors: Array, most: float, out: Array) -> None:
        """Write P (n, d), float64, times factors (d,), bounded by `most`, into `out`, float32."""
        ...

    def leaves(self, products: Array, thresholds: Array, children: Array, out: Array) -> None:
        """Write the leaves of points into `out`, int64 (n,), by their products with directions.

        A point goes to the first child of a split, from the first split on, where its product
        (n, splits) is not above the threshold, else to the second. Children (splits, 2) are splits,
        or ``-1 - leaf``.
        """
        ...

    def leaf(
        self, point: Array, directions: Array, thresholds: Array, children: Array, out: Array
    ) -> None:
        """Do `leaves` for a single point (1, d), with its products in float64.

        Point and directions (splits, d) are float32.
        """
        ...

    def standardize(self, X: Array, center: Array, inverse: Array, scale: float) -> None:
        """Turn X (n, d) into ``(x - center) inverse``, within `OUTERMOST`, times the scale.

        NaN becomes 0. All arrays are float64, center and inverse (d,).
        """
        ...


@cache
def select() -> BackendModule:
    """Return the compiled twin where numba is installed, else the one in NumPy."""
    found: BackendModule = backends.twin("event_points")
    return found


def standardized(X: Array, center: Array, inverse: Array) -> Array:
    """Return ``(X - center) inverse`` of events X (n, d), within bounds, 0 for missing values.

    Examples
    --------
    >>> standardized(np.array([[3.0, np.nan], [1e9, -0.5]]), np.zeros(2), np.ones(2))
    array([[ 3. ,  0. ],
           [ 8. , -0.5]])
    """
    Z = np.minimum(np.maximum((X - center) * inverse, -OUTERMOST), OUTERMOST)
    return np.where(np.isnan(Z), 0.0, Z)
