"""Margins of classes to probabilities and errors, in twins like the package's.

Of two classes there may be one margin f, which stands for (-f, f); else there is one for each
class. Each twin's module `margins` defines the functions of `BackendModule`. All arrays are float64
and C-contiguous. What is computed for a row is the same, bit for bit, whatever rows are computed
with it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

from numpy.typing import NDArray

from streamk import backends

Array = NDArray[Any]


class BackendModule(Protocol):
    """The functions of a backend's module `margins`."""

    def probabilities(self, F: Array, factor: float, most: float, P: Array) -> None:
        """Write ``softmax(factor f)`` of margins (n, outputs) within `most` into P (n, classes)."""
        ...

    def slopes(self, F: Array, classes: Array, factor: float, most: float, sums: Array) -> None:
        """Add slope and curvature of the log loss, by the factor, to the sums (2,).

        Event by event; margins (n, outputs) within `most`, classes (n,).
        """
        ...

    def missed(
        self, F: Array, y: Array, classes: bool, furthest: float, most: float, total: float
    ) -> float:
        """Return the total with the errors of outputs (n, outputs) added, event by event.

        Of classes, whose targets are 1 and -1, an event's is the sum of squares of its margins'
        errors up to `furthest`, of numbers that of absolute errors; up to `most`.
        """
        ...


@cache
def select() -> BackendModule:
    """Return the compiled twin where numba is installed, else the one in NumPy."""
    found: BackendModule = backends.twin("margins")
    return found
