"""The loops of a function that is a sum of kernels of many centers, in twins like the package's.

``f(x) = sum over centers of a_j k(x, z_j)``. The centers lie in groups of `streamk.backends.GROUP`
slots: their points (groups, d, GROUP) with those of a group in the lanes of vectors, and their
coefficients (parts, slots, lanes) with the outputs in the lanes, so many parts as there are needed
for all outputs: GROUP lanes, or one where there are up to `FEW` outputs. Both are float32; where
there is no center or no output, they are 0. Each twin's module `centers` defines the functions of
`BackendModule`.

All arrays are C-contiguous. What is computed for a row is the same, bit for bit, whatever rows are
computed with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from streamk import backends
from streamk.backends.incremental import KernelNumbers

Array = NDArray[Any]

FEW = 7
"""Outputs of which each is summed up by itself: to have so many in lanes would take longer."""


class Functions(NamedTuple):
    """Functions of the same centers, learned side by side with a ridge each; all float64."""

    ridges: Array
    """(functions,)"""
    A: Array
    """Coefficients (centers, functions times outputs), those of a function side by side."""
    errors: Array
    """(functions,); the squared errors of events are added."""


class BackendModule(Protocol):
    """The functions of a backend's module `centers`."""

    def lay(self, points: Array, slots: Array, laid: Array) -> None:
        """Write points (n, d) into the slots (n,), of which group g has those from g GROUP on."""
        ...

    def expand(self, kernel: KernelNumbers, X: Array, laid: Array, A: Array, out: Array) -> None:
        """Write f of the rows of X (n, d), float32, into `out` (n, outputs), float64.

        A is the coefficients (parts, slots, lanes). Over the centers of some groups sums are in
        float32, and beyond in float64.
        """
        ...

    def add(self, K: Array, known: Array, A: Array, outputs: Array) -> None:
        """Add what other centers give: for row i of `outputs` the first ``known[i]`` of them.

        They have the rows of A (all, outputs), float64, and their kernels with event i are in row
        i of K (n, all), float64.
        """
        ...

    def follow(self, K: Array, Y: Array, functions: Functions, first: int, outputs: Array) -> None:
        """Learn events one after the other, each of them a center from then on.

        Event i gets row ``first + i`` of the coefficients, and has its kernels with the centers
        before it in K, as of `add`. `outputs` (n, functions times outputs) has what all others
        give, and gets the whole outputs before the event is learned:
        ``a_i = (y_i - f(x_i)) / (1 + ridge)`` with the rows of Y (n, outputs), for each function.
        """
        ...

    def add_one(self, kernel: KernelNumbers, x: Array, points: Array, A: Array, out: Array) -> None:
        """Do `add` of all centers (m, d) for a single event x (1, d), both float32."""
        ...

    def follow_one(
        self, kernel: KernelNumbers, points: Array, Y: Array, functions: Functions, out: Array
    ) -> None:
        """Do `follow` for a single event, the last of the points (m, d), float32."""
        ...


def select() -> BackendModule:
    """Return the compiled twin where numba is installed, else the one in NumPy."""
    found: BackendModule = backends.twin("centers")
    return found
