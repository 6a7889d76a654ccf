"""The compiled loops of a live mixture, which numba alone has."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Protocol

from numpy.typing import NDArray

from streamk.backends.live_mixture import LiveMixture

Array = NDArray[Any]


class Loops(Protocol):
    """The compiled loops."""

    def follow_classes(
        self, mixture: LiveMixture, Z: Array, given: Array, y: Array, out: Array
    ) -> None:
        """Predict each event in turn, then learn its class where there is one.

        Parameters
        ----------
        mixture : LiveMixture
            Brought up to date.
        Z : float64 array of shape (n, d)
            Scaled events.
        given : float64 array of shape (n, K)
            Scores of the given expert, whose logarithmic probabilities are these and a constant.
        y : int64 array of shape (n,)
            Numbers of the classes, -1 for none.
        out : float64 array of shape (n, K)
            Probabilities are written here.
        """
        ...

    def follow_numbers(
        self, mixture: LiveMixture, Z: Array, given: Array, y: Array, out: Array
    ) -> None:
        """Predict each event in turn, then learn its number where it is not NaN; see above."""
        ...


@cache
def loops() -> Loops:
    """Return the compiled loops."""
    found: Any = importlib.import_module("streamk.backends.numba_backend.live_mixture")
    compiled: Loops = found
    return compiled
