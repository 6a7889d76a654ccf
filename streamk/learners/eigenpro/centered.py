"""Functions on common centers, and the solver that learns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, taken
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Kernel
from streamk.learners.centers import RIDGES, own_kernels
from streamk.learners.common.classes import bounded
from streamk.learners.eigenpro.direct import DirectSolver, factor_of, functions_of, product, solved
from streamk.learners.eigenpro.projection import (
    EPOCHS,
    apart,
    interpolated,
    preconditioned,
    unrepeated,
)
from streamk.learners.eigenpro.selection import SHARE, WITH_FACTOR
from streamk.learners.eigenpro.shards import HostCenters, PlacedCenters, Placement

Numbers = NDArray[Any]

_TAIL = 8
"""The average of projected functions goes back over so much of them: the last 1/8 counts most."""


class ProjectedGradient:
    """The function on centers Z that EigenPro 3 learns (Abedsoltan, Belkin and Pandit 2023).

    A step on a mini-batch X of residuals ``G = f(X) - T`` is ``f <- f - eta P{k(., X) G}`` with the
    preconditioner P, and f is projected onto the span of the kernels of Z (Algorithm 2). Until
    enough batches are there for that, their events are temporary centers (Abedsoltan, Ma, Pandit
    and Belkin 2024), so that a projection costs no more than the batches do.

    The preconditioner's sample is a random part of the centers. So its part of a step lies in their
    span, and the projection commutes with the preconditioner: in the norm in which the
    steps are contractions, it is orthogonal and cannot undo them.

    It begins with coefficients A (p, 2 n_outputs). K(Z, Z) is factorized for exact projections,
    which takes 8 p^2 bytes; without it they are inexact. `centers` are Z, where it is kept.

    Attributes
    ----------
    coefficients : float64 array of shape (p, 2 n_outputs)
        Of the function of the last projection, and of an average of those so far: where labels are
        noisy it is better.
    """

    def __init__(
        self,
        kernel: Kernel,
        Z: Numbers,
        A: Numbers,
        *,
        batch_size: int,
        seed: int,
        K: Numbers | None,
        centers: PlacedCenters,
        placement: Placement = HostCenters,
    ) -> None:
        self._kernel, self._Z, self._m, self._placement = kernel, Z, batch_size, placement
        self._centers, self._seed = centers, seed
        self._sample, self.preconditioner = preconditioned(
            kernel, Z, batch_size=batch_size, seed=seed
        )
        self._factor: Numbers | None = None
        outputs, pairs = A.shape[1] // 2, len(Z) / 2
        if K is not None:
            self._factor = factor_of(K)
            pairs = len(Z) * outputs / (Z.shape[1] + outputs)
        self.project_every = max(1, round(pairs / batch_size))
        """Batches that are projected together."""
        self.coefficients = A.copy()
        self.turn = 0
        """Projections so far: the number that `load` needs beside the arrays."""
        self._begin(outputs)

    def _begin(self, n_outputs: int) -> None:
        """Go on with no step since the last projection."""
        sizes = {"n_columns": self._Z.shape[1], "n_outputs": n_outputs}
        self._temporary = self._placement(self._kernel, self.project_every * self._m, **sizes)
        self._corrections = np.zeros((len(self._sample), n_outputs))

    @property
    def nbytes(self) -> int:
        """Memory beside the centers, in bytes."""
        own = self.coefficients.nbytes + self._corrections.nbytes + self._temporary.nbytes
        return own + (0 if self._factor is None else self._factor.nbytes)

    @property
    def n_temporary(self) -> int:
        """Temporary centers."""
        return len(self._temporary)

    def add_outputs(self, X: Numbers, F: Numbers) -> None:
        """Add what temporary centers give for events X (n, d) to outputs F (n, 2 n_outputs)."""
        if len(self._temporary):
            F[:, : self._temporary.n_outputs] += self._temporary.outputs(X)

    def learn(self, X: Numbers, K: Numbers, G: Numbers) -> Numbers:
        """Take a step on events X (m, d) by K(X, X) and outputs less targets G (m, n_outputs).

        Returns the centers whose coefficients are others now, int64.
        """
        outputs = G.shape[1]
        K_sample = own_kernels(self._kernel, X, self._Z[self._sample])
        step = self.preconditioner.step_size(K, K_sample)
        self._temporary.add(X, -step * G)
        correction = step * self.preconditioner.corrected(K_sample, G)
        self.coefficients[self._sample, :outputs] += correction
        self._corrections += correction
        if len(self._temporary) > self._temporary.capacity - self._m:
            self.project()
            return np.arange(len(self._Z))
        return self._sample

    def project(self) -> None:
        """Bring temporary centers to the span of the others.

        What the preconditioner took from them is a guess at their projection: with it, the error of
        an inexact one is a part of the preconditioned step, not of the much longer plain one.
        """
        if not len(self._temporary):
            return
        temporary, A = self._temporary, self.coefficients
        outputs = temporary.n_outputs
        W = temporary.coefficients(np.arange(len(temporary)))
        h = self._centers.values(temporary.points, W)
        start = np.zeros_like(h)
        start[self._sample] = -self._corrections
        A[:, :outputs] += self.projected(h, start)
        self.turn += 1
        part = _TAIL / (self.turn + _TAIL - 1)
        A[:, outputs:] += part * (A[:, :outputs] - A[:, outputs:])
        self._begin(outputs)

    def projected(self, h: Numbers, start: Numbers) -> Numbers:
        """Return theta (p, outputs) of ``K(Z, Z) theta = h``, float64, of which `start` is a guess.

        It is exact by the factor (Algorithm 1), else some passes of EigenPro 2.0 over the centers
        (Algorithm 3).
        """
        if self._factor is not None:
            return solved(self._factor, h)
        sequence = np.random.SeedSequence([self._seed, self.turn])
        random = np.random.Generator(np.random.Philox(sequence))
        orders = (random.permutation(len(self._Z)) for _ in range(EPOCHS))
        some = self._sample, self.preconditioner, start, h, orders
        expand = self._centers.with_coefficients
        return interpolated(self._kernel, self._Z, *some, batch_size=self._m, expand=expand)

    def average(self, h: Numbers, part: float) -> None:
        """Go over to functions of the values h (p, 2 n_outputs) at the centers, by a part."""
        self.project()
        theirs = self.projected(h, np.zeros_like(h))
        self.coefficients = (1.0 - part) * self.coefficients + part * theirs

    def add_columns(self, Z: Numbers) -> None:
        """Have centers Z (p, d) with more columns, in which all so far were zero."""
        self._temporary.add_columns(Z.shape[1] - self._Z.shape[1])
        self._Z = Z

    def set_outputs(self, fitted: Callable[[Numbers], Numbers], outputs: int) -> None:
        """Have so many outputs: ``fitted`` of coefficients (n, outputs of all functions)."""
        W = self._temporary.coefficients(np.arange(len(self._temporary)))
        self._temporary.set_outputs(fitted(np.tile(W, (1, 2)))[:, :outputs])
        self._corrections = fitted(np.tile(self._corrections, (1, 2)))[:, :outputs]
        self.coefficients = fitted(self.coefficients)

    def align(self, ordered: Callable[[Numbers], Numbers]) -> None:
        """Have the outputs in another order: ``ordered`` of coefficients (n, all outputs)."""
        self.project()
        self.coefficients = ordered(self.coefficients)

    # State

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        every = np.arange(len(self._temporary))
        return {
            "coefficients": self.coefficients.copy(),
            "temporary": self._temporary.points.copy(),
            "temporary_coefficients": self._temporary.coefficients(every).copy(),
            "corrections": self._corrections.copy(),
        }

    def load(self, arrays: Mapping[str, Numbers], turn: int, owner: str) -> None:
        """Take what `arrays` gave, or raise StateError if it does not fit."""
        outputs = self._temporary.n_outputs
        sizes = {
            "centers": len(self._Z),
            "columns": self._Z.shape[1],
            "outputs": outputs,
            "width": 2 * outputs,
            "sample": len(self._sample),
        }
        found, sizes = taken(_DECLARED, arrays, sizes, owner)
        many = sizes["temporary"]
        if many > self._temporary.capacity - self._m:
            raise StateError(f"array 'temporary' of {owner} has {many} events")
        self.coefficients = found["coefficients"].copy()
        W = found["temporary_coefficients"]
        self._temporary.add(found["temporary"], W)
        self._corrections = found["corrections"].copy()
        self.turn = turn


_DECLARED = (
    Declared("coefficients", "float64", ("centers", "width")),
    Declared("temporary", "float32", ("temporary", "columns")),
    Declared("temporary_coefficients", "float32", ("temporary", "outputs")),
    Declared("corrections", "float64", ("sample", "outputs")),
)


BYTES = 2**31
"""Memory for matrices of centers by centers."""


@dataclass(frozen=True)
class Solving:
    """A way to learn coefficients."""

    direct: bool
    """By normal equations; else by projected gradient steps."""
    has_matrix: bool
    """A matrix of centers by centers is stored; without it projections are inexact."""
    ridges: tuple[float, ...]
    """Regularizations of normal equations."""
    forgetting: float
    batch_size: int
    seed: int

    @classmethod
    def of(
        cls,
        solver: str,
        n_centers: int,
        regularization: float | None,
        forgetting: float,
        *,
        batch_size: int,
        seed: int,
    ) -> Self:
        """Return what the options of a learner ask for.

        Raises `InvalidInput` if an option is of the direct solver, and it is not the one.
        """
        direct = solver == "direct" or (solver == "auto" and 32 * n_centers**2 <= BYTES)
        if not direct and (regularization is not None or forgetting != 1.0):
            name, value = "regularization", regularization
            if regularization is None:
                name, value = "forgetting", forgetting
            why = "" if solver != "auto" else f", which n_centers={n_centers} asks for"
            raise InvalidInput(
                f"{name}={value!r} is for solver='direct', not 'eigenpro'{why}; leave it out"
            )
        ridges = RIDGES if regularization is None else (regularization,)
        has_matrix = direct or 16 * n_centers**2 <= BYTES
        return cls(direct, has_matrix, ridges, forgetting, batch_size, seed)

    @property
    def functions(self) -> int:
        """Functions that are learned side by side."""
        return len(functions_of(self.ridges, 0)) if self.direct else 2


def check_selection(selection: str, n_centers: int) -> None:
    """Raise InvalidInput if centers are chosen by a factor that takes too much memory."""
    if selection in WITH_FACTOR and 4 * SHARE * n_centers**2 > BYTES:
        raise InvalidInput(
            f"selection={selection!r} takes {4 * SHARE} n_centers^2 bytes, too many for "
            f"n_centers={n_centers}; choose 'random' or 'k-means', or at most 11,585 centers"
        )


class CenteredFunctions:
    """Functions ``sum of a_j k(x, z_j)`` on centers z_j, learned side by side."""

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
        """None before there are centers."""

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
            K = own_kernels(self._kernel, X, self.points)  # as it is predicted by
            self.solver.equations.add(K, T)

    def solve(self, constant: Numbers, errors: Numbers) -> None:
        """Bring the functions to their normal equations, as of `DirectSolver.update`."""
        if isinstance(self.solver, DirectSolver):
            self.solver.update(constant, errors)
            self._store()

    def recent_mean(self, constant: Numbers) -> Numbers:
        """Return the targets' mean by weight if all is solved anew, else `constant`."""
        solver = self.solver
        if isinstance(solver, DirectSolver) and solver.equations.due:
            return solver.equations.mean
        return constant

    def step(self, X: Numbers, A: Numbers, ridge: float) -> None:
        """Take a gradient step on a batch X (m, d).

        A (m, n_outputs) are coefficients of the events by their own rows, ``a_i = -(g_i + sum over
        j < i of k(x_i, x_j) a_j) / (1 + ridge)``. They give the residual g_i before the batch.
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
            B = solved(factor_of(K[:p, :p]), K[:p, p:])
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
            self.solver.average(values, 1.0)
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
        self._centers.add(Z, A)
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

        The other has the outputs in the order here, and its centers Z (p, d) the columns here. Its
        weight in the mean of gradient steps is `part`; the events in its equations that are not in
        those here are a `share` of them.
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
        """Take what `arrays` gave, of centers Z (p, d), or raise StateError if it does not fit."""
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
