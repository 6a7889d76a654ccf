"""The loops of linear models of given coordinates, in twins like those of the package.

A model's coefficients W are (l, outputs), the coordinates of events Phi (n, l) and the labels y
(n,), all float64 and C-contiguous. A loss is its code, its parameter and whether labels are numbers
of classes, as of `loss_gradient`. Events are learned one after the other. Each twin's module
`coordinates` defines the functions of `BackendModule`.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from streamk import backends

Array = NDArray[Any]
Loss = tuple[int, float, bool]

FLATTEST = 1e-4
"""Curvature that a loss counts as having at least: a step divides by it."""


class BackendModule(Protocol):
    """The functions of a backend's module `coordinates`."""

    def outputs(self, Q: Array, W: Array, F: Array) -> None:
        """Write the outputs ``W' q`` of each row of Q (n, l) into F (n, outputs)."""
        ...

    def descend(
        self,
        Phi: Array,
        y: Array,
        W: Array,
        loss: Loss,
        decays: Array,
        rates: Array,
        Q: Array | None = None,
        F: Array | None = None,
    ) -> int:
        """Take a gradient step for each row: ``W = decay W - rate phi l'(W' phi, y)``.

        With Q and F, the row of F gets the `outputs` of the row of Q before.

        Returns
        -------
        int
            How many rows are learned: fewer than there are where a prediction overflows.
        """
        ...

    def newton(
        self,
        Phi: Array,
        y: Array,
        W: Array,
        T: Array,
        loss: Loss,
        forgetting: float,
        ridge: float,
        turn: int,
        pulls: int,
        Q: Array | None = None,
        F: Array | None = None,
    ) -> int:
        """Take a step of second order for each row: ``W -= A^-1 phi l'(W' phi, y)``.

        Q and F are as of `descend`.

        Before, A has become ``forgetting A + h phi phi'`` with h at least the curvature of the loss
        in the outputs; ``T' T`` is its inverse, T upper triangular. What A forgets of the ridge
        comes back, `pulls` coordinates a row in their turn, row `turn` having the next ones.

        Returns
        -------
        int
            As of `descend`.
        """
        ...

    def rotate(self, W: Array, first: int, cosines: Array, sines: Array) -> None:
        """Rotate rows `first` and the next of W, that and the next, and so on."""
        ...

    def triangular(self, S: Array) -> Array:
        """Return the upper triangular T with ``T' T = S S'`` of S (l, l + 1).

        S is 0 beyond the diagonal next to the main one.
        """
        ...


def select() -> BackendModule:
    """Return the compiled twin where numba is installed, else the one in NumPy."""
    found: BackendModule = backends.twin("coordinates")
    return found
