"""The direct solver: normal equations whose regularization is chosen on the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, taken
from streamk.errors import StateError
from streamk.learners.eigenpro.normal_equations import NormalEquations

Numbers = NDArray[Any]


class DirectSolver:
    """Least squares on fixed centers for several regularizations.

    The first function is asked. It follows every block. The others, one for each regularization,
    stay from one factorization of the equations to the next, so that their errors in between can be
    compared; then the first becomes the best of them.

    Parameters
    ----------
    K : float64 array of shape (p, p)
        K(Z, Z).
    ridges : tuple of float
        Regularizations; of a single one there is the first function alone.
    n_outputs : int
    forgetting : float

    Attributes
    ----------
    coefficients : float64 array of shape (p, functions n_outputs)
    chosen : int
        The regularization of the first function.
    """

    def __init__(
        self, K: Numbers, *, ridges: tuple[float, ...], n_outputs: int, forgetting: float
    ) -> None:
        self.equations = NormalEquations(K, n_outputs=n_outputs, forgetting=forgetting)
        self.ridges = ridges
        self.chosen = len(ridges) // 2
        self.coefficients = np.zeros((len(K), len(self.functions) * n_outputs))

    @property
    def functions(self) -> tuple[float, ...]:
        """The regularization of each function."""
        return functions_of(self.ridges, self.chosen)

    @property
    def turn(self) -> int:
        """The number that `load` needs beside the arrays: the regularization chosen."""
        return self.chosen

    @property
    def nbytes(self) -> int:
        """Memory beside the centers, in bytes."""
        return self.equations.nbytes + self.coefficients.nbytes

    def update(self, constant: Numbers, errors: Numbers) -> None:
        """Bring the functions to the equations as they are.

        Parameters
        ----------
        constant : float64 array of shape (n_outputs,)
        errors : float64 array of shape (len(ridges),)
            Of each regularization, so far; empty where they are not known.
        """
        outputs = len(constant)
        if self.equations.due:
            if len(self.ridges) > 1 and errors.any():
                self.chosen = int(np.argmin(errors))
            A = self.equations.solve(self.ridges, constant, keep=self.chosen)
            answer = A[:, self.chosen * outputs : (self.chosen + 1) * outputs]
            self.coefficients = answer if len(self.ridges) == 1 else np.hstack([answer, A])
        else:
            answer = self.equations.refine(self.coefficients[:, :outputs], constant)
            self.coefficients[:, :outputs] = answer

    def grow(self, K: Numbers, B: Numbers) -> None:
        """Have more centers, as of `NormalEquations.grow`; no prediction changes."""
        self.equations.grow(K, B)
        self.coefficients = np.pad(self.coefficients, ((0, B.shape[1]), (0, 0)))

    def set_outputs(self, fitted: Callable[[Numbers], Numbers], outputs: int) -> None:
        """Have so many outputs: ``fitted`` of coefficients (n, outputs of all functions)."""
        self.coefficients = fitted(self.coefficients)
        old, many = self.equations, len(self.functions)

        def first(A: Numbers) -> Numbers:
            return fitted(np.tile(A, (1, many)))[:, :outputs]

        before = old.moments.shape[1]
        moments, targets = first(old.moments), first(old.targets[None])[0]
        more = slice(max(before, min(2, outputs)), None)  # no label was of these classes
        moments[:, more] = -old.sums[:, None]
        targets[more] = -old.weight
        old.set_outputs(moments, targets)

    def align(self, ordered: Callable[[Numbers], Numbers]) -> None:
        """Have the outputs in another order: ``ordered`` of numbers (n, outputs)."""
        sums = self.equations
        sums.set_outputs(ordered(sums.moments), ordered(sums.targets[None])[0])

    def join(self, other: DirectSolver, C: Numbers, share: float, constant: Numbers) -> None:
        """Add the equations of another one, as of `NormalEquations.join`.

        Parameters
        ----------
        other : DirectSolver
        C : float64 array of shape (other's p, p)
            K(theirs, Z).
        share : float
        constant : float64 array of shape (n_outputs,)
        """
        self.equations.join(other.equations, C, share)
        self.update(constant, np.zeros(0))

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        return {"coefficients": self.coefficients.copy(), **self.equations.arrays()}

    def load(self, arrays: Mapping[str, Numbers], turn: int, owner: str) -> None:
        """Take what `arrays` gave.

        Raises
        ------
        StateError
            If an array is missing, of another shape or out of its domain.
        """
        if turn >= len(self.ridges):
            raise StateError(f"'turn' of {owner} is {turn}, of {len(self.ridges)} regularizations")
        self.chosen = turn
        p, width = self.coefficients.shape
        declared = (Declared("coefficients", "float64", ("centers", "width")),)
        found, _ = taken(declared, arrays, {"centers": p, "width": width}, owner)
        self.coefficients = found["coefficients"].copy()
        self.equations.load(arrays, owner)
        if self.equations.ridge not in (0.0, *self.ridges):
            raise StateError(f"array 'weights' of {owner} has another regularization")


def functions_of(ridges: tuple[float, ...], chosen: int) -> tuple[float, ...]:
    """Return the regularization of each function, first that of the one that is asked."""
    return ridges if len(ridges) == 1 else (ridges[chosen], *ridges)
