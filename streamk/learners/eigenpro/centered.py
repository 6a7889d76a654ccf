"""Functions on common centers, and the solver that learns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.learners.common.outputs import bounded
from streamk.learners.eigenpro.blas import product
from streamk.learners.eigenpro.direct import DirectSolver, functions_of
from streamk.learners.eigenpro.placement import HostCenters, Placement
from streamk.learners.eigenpro.projected_gradient import ProjectedGradient
from streamk.learners.eigenpro.projection import ExactProjection, apart, unrepeated
from streamk.learners.kernel_ridge.on_centers import own_kernels

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Solving:
    """The way coefficients are learned.

    Attributes
    ----------
    direct : bool
        By normal equations; else by projected gradient steps.
    has_matrix : bool
        Whether a matrix of centers by centers is stored; without it projections are inexact.
    ridges : tuple of float
        Regularizations of normal equations.
    forgetting : float
    batch_size : int
    seed : int
    """

    direct: bool
    has_matrix: bool
    ridges: tuple[float, ...]
    forgetting: float
    batch_size: int
    seed: int

    @property
    def functions(self) -> int:
        """Functions that are learned side by side."""
        return len(functions_of(self.ridges, 0)) if self.direct else 2


class CenteredFunctions:
    """Functions ``sum of a_j k(x, z_j)`` on centers z_j, learned side by side.

    Parameters
    ----------
    kernel : Kernel
    solving : Solving
    n_outputs : int
        Of each function.
    placement : Placement
        Of the centers, on the host by default.

    Attributes
    ----------
    solver : DirectSolver or ProjectedGradient, or None
        None before there are centers.
    """

    def __init__(
        self,
        kernel: Kernel,
        solving: Solving,
        *,
        n_outputs: int,
        placement: Placement = HostCenters,
    ) -> None:
        self._kernel, self._solving, self.n_outputs = kernel, solving, n_outputs
        self._placement = placement
        self._centers = placement(kernel, 1, n_columns=0, n_outputs=self._stored)
        self.solver: DirectSolver | ProjectedGradient | None = None

    def __len__(self) -> int:
        return len(self._centers)

    @property
    def _stored(self) -> int:
        """Outputs of all functions."""
        return self._solving.functions * self.n_outputs

    @property
    def points(self) -> Numbers:
        """The centers, float32 (p, d)."""
        return self._centers.points

    @property
    def coefficients(self) -> Numbers:
        """The coefficients of the centers in all functions, float32 (p, functions n_outputs)."""
        return self._centers.coefficients(np.arange(len(self)))

    @property
    def n_temporary(self) -> int:
        """Events that are centers until the next projection."""
        return self.solver.n_temporary if isinstance(self.solver, ProjectedGradient) else 0

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._centers.nbytes + (0 if self.solver is None else self.solver.nbytes)

    def outputs(self, X: Numbers) -> Numbers:
        """Return the functions of events X (n, d), float64 (n, functions n_outputs)."""
        F = self._centers.outputs(X)
        if isinstance(self.solver, ProjectedGradient):
            self.solver.add_outputs(X, F)
        return F

    # Learning

    def equate(self, X: Numbers, T: Numbers) -> None:
        """Add events X (m, d) with targets T (m, n_outputs) to normal equations."""
        if isinstance(self.solver, DirectSolver):
            K = self._kernel.pairwise(X, self.points, dtype=np.float32)  # as it is predicted by
            self.solver.equations.add(K.astype(np.float64), T)

    def solve(self, constant: Numbers, errors: Numbers) -> None:
        """Bring the functions to their normal equations, as of `DirectSolver.update`."""
        if isinstance(self.solver, DirectSolver):
            self.solver.update(constant, errors)
            self._store()

    def recent_mean(self, constant: Numbers) -> Numbers:
        """Return the targets' mean by weight if all is to be solved anew, else `constant`."""
        solver = self.solver
        if isinstance(solver, DirectSolver) and solver.equations.due:
            return solver.equations.mean
        return constant

    def step(self, X: Numbers, A: Numbers, ridge: float) -> None:
        """Take a gradient step on a batch X (m, d).

        Parameters
        ----------
        X : float32 array of shape (m, d)
        A : float64 array of shape (m, n_outputs)
            Coefficients of the events by their own rows, ``a_i = -(g_i + sum over j < i of
            k(x_i, x_j) a_j) / (1 + ridge)``. They give the residual g_i before the batch.
        ridge : float
        """
        if isinstance(self.solver, ProjectedGradient):
            K = own_kernels(self._kernel, X, X)
            G = -((1.0 + ridge) * A + product(np.tril(K, -1), A))
            self._store(self.solver.learn(X, K, G))

    def step_again(self, X: Numbers, T: Numbers) -> None:
        """Take a gradient step on events X (m, d) with targets T (m, n_outputs) of the past."""
        if isinstance(self.solver, ProjectedGradient):
            G = self.outputs(X)[:, : self.n_outputs] - T
            self._store(self.solver.learn(X, own_kernels(self._kernel, X, X), G))

    def _store(self, slots: Numbers | None = None) -> None:
        """Predict by the coefficients that the solver has, of which some, or all, are others."""
        if self.solver is not None:
            slots = np.arange(len(self)) if slots is None else slots
            self._centers.set_coefficients(slots, bounded(self.solver.coefficients[slots]))

    # Centers

    def admit(self, Z: Numbers) -> None:
        """Add those of some points (n, d) that are apart from the span of the centers.

        Their coefficients are 0, so no function changes but for the projection of events that are
        centers until then.
        """
        solver, old = self.solver, self.points
        if solver is None:
            self.replace(Z)
            return
        K, B = None, np.zeros((len(old), len(Z)))
        if not self._solving.has_matrix:
            Z = unrepeated(np.concatenate([old, Z]))[len(old) :]
        else:
            K = self._kernel.pairwise(np.concatenate([old, Z]))
            p = len(old)
            B = ExactProjection(K[:p, :p]).solve(old, K[:p, p:], B, 0)
            some = apart(K[p:, p:] - K[p:, :p] @ B, float(K[0, 0]))
            every = np.append(np.arange(p), p + some)
            Z, B, K = Z[some], B[:, some], K[np.ix_(every, every)]
        if not len(Z):
            return
        if isinstance(solver, ProjectedGradient):
            solver.project()
        A = np.pad(solver.coefficients, ((0, len(Z)), (0, 0)))
        self.set_centers(np.concatenate([old, Z]), K, A)
        if isinstance(solver, DirectSolver) and K is not None:
            solver.grow(K, B)
            self.solver = solver

    def replace(self, Z: Numbers) -> None:
        """Have other centers; gradient steps go on from the projection on their span."""
        solver, before, K = self.solver, self.points, None
        if self._solving.has_matrix:
            K = self._kernel.pairwise(Z)
            some = apart(K)
            Z, K = Z[some], K[np.ix_(some, some)]
        else:
            Z = unrepeated(Z)
        if isinstance(solver, ProjectedGradient):
            solver.project()
        self.set_centers(Z, K)
        if isinstance(solver, ProjectedGradient) and isinstance(self.solver, ProjectedGradient):
            values = self._centers.values(before, solver.coefficients, dtype=np.float64)
            self.solver.begin_at(values)
            self._store()

    def set_centers(self, Z: Numbers, K: Numbers | None, A: Numbers | None = None) -> None:
        """Have centers Z (p, d) with K = K(Z, Z) and coefficients A (p, stored), 0 by default.

        They are apart from each other's span, and K is there if matrices are.
        """
        how = self._solving
        self._centers = self._placement(
            self._kernel, len(Z), n_columns=Z.shape[1], n_outputs=self._stored
        )
        A = np.zeros((len(Z), self._stored)) if A is None else A
        self._centers.append(Z, A)
        if K is not None and how.direct:
            self.solver = DirectSolver(
                K, ridges=how.ridges, n_outputs=self.n_outputs, forgetting=how.forgetting
            )
        else:
            self.solver = ProjectedGradient(
                self._kernel,
                Z,
                A,
                batch_size=how.batch_size,
                seed=how.seed,
                K=K,
                centers=self._centers,
                placement=self._placement,
            )

    # Columns, outputs, others

    def add_columns(self, count: int) -> None:
        """Append columns, in which the centers are zero."""
        self._centers.add_columns(count)
        if isinstance(self.solver, ProjectedGradient):
            self.solver.add_columns(self.points)

    def set_outputs(self, fitted: Callable[[Numbers], Numbers], n_outputs: int) -> None:
        """Have so many outputs: ``fitted`` of coefficients (n, outputs of all functions)."""
        self.n_outputs = n_outputs
        if self.solver is None:
            self._centers.set_outputs(np.zeros((0, self._stored)))
            return
        self.solver.set_outputs(fitted, n_outputs)
        self._centers.set_outputs(bounded(self.solver.coefficients))

    def join(
        self, other: CenteredFunctions, Z: Numbers, part: float, share: float, constant: Numbers
    ) -> None:
        """Take in the functions of others, by their equations or as a weighted mean.

        Parameters
        ----------
        other : CenteredFunctions
            With the outputs in the order here.
        Z : float32 array of shape (p, d)
            The other's centers, with the columns here.
        part : float
            Of the mean of gradient steps: the other's weight.
        share : float
            Part of the events in the other's equations that are not in those here.
        constant : float64 array of shape (n_outputs,)
        """
        theirs = other.solver
        if isinstance(theirs, DirectSolver) and isinstance(self.solver, DirectSolver):
            self.solver.join(theirs, self._kernel.pairwise(Z, self.points), share, constant)
        elif isinstance(theirs, ProjectedGradient) and isinstance(self.solver, ProjectedGradient):
            theirs.project()
            h = self._centers.values(Z, theirs.coefficients, dtype=np.float64)
            self.solver.average(h, part)
        self._store()

    # State

    @property
    def turn(self) -> int:
        """The number that `load` needs beside the arrays."""
        return 0 if self.solver is None else self.solver.turn

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        found = {"centers": self.points.copy()}
        return found if self.solver is None else {**found, **self.solver.arrays()}

    def load(self, Z: Numbers, arrays: Mapping[str, Numbers], turn: int, owner: str) -> None:
        """Take what `arrays` gave, of centers Z (p, d).

        Raises
        ------
        StateError
            If an array is missing, of another shape or out of its domain.
        """
        if len(unrepeated(Z)) < len(Z):
            raise StateError(f"array 'centers' of {owner} has repeated rows")
        K = self._kernel.pairwise(Z) if self._solving.has_matrix else None
        try:
            self.set_centers(Z.copy(), K)
        except np.linalg.LinAlgError:
            raise StateError(
                f"array 'centers' of {owner} has a center in the span of others"
            ) from None
        assert self.solver is not None
        self.solver.load(arrays, turn, owner)
        self._store()
