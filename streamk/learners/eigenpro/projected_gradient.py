"""EigenPro 3: stochastic gradient steps on mini-batches, projected onto the span of centers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, taken
from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.learners.eigenpro.placement import HostCenters, PlacedCenters, Placement
from streamk.learners.eigenpro.preconditioner import LARGEST, Preconditioner
from streamk.learners.eigenpro.projection import ExactProjection, InexactProjection, Projection

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

    Parameters
    ----------
    kernel : Kernel
    Z : float32 array of shape (p, d)
    A : float64 array of shape (p, 2 n_outputs)
        Coefficients to begin with.
    batch_size : int
    seed : int
    K : float64 array of shape (p, p), optional
        K(Z, Z). It is factorized for exact projections, which takes 8 p^2 bytes; without it they
        are inexact.
    centers : PlacedCenters, optional
        Z, where it is kept; on the host by default.
    placement : Placement
        Of the temporary centers, on the host by default.

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
        centers: PlacedCenters | None = None,
        placement: Placement = HostCenters,
    ) -> None:
        self._kernel, self._Z, self._m, self._placement = kernel, Z, batch_size, placement
        if centers is None:
            centers = HostCenters(kernel, len(Z), n_columns=Z.shape[1], n_outputs=A.shape[1])
            centers.append(Z, A)
        self._centers = centers
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, len(Z)])))
        self._sample = np.sort(random.permutation(len(Z))[:LARGEST])
        self.preconditioner = Preconditioner(kernel, Z[self._sample], batch_size=batch_size)
        self._projection: Projection
        outputs = A.shape[1] // 2
        if K is not None:
            self._projection = ExactProjection(K)
            pairs = len(Z) * outputs / (Z.shape[1] + outputs)
        else:
            self._projection = InexactProjection(
                kernel,
                self._sample,
                self.preconditioner,
                batch_size=batch_size,
                seed=seed,
                expand=centers.with_coefficients,
            )
            pairs = len(Z) / 2
        self.project_every = max(1, round(pairs / batch_size))
        """Batches that are projected together."""
        self.coefficients = A.copy()
        self.turn = 0
        """Projections so far: the number that `load` needs beside the arrays."""
        self._begin(outputs)

    def _begin(self, n_outputs: int) -> None:
        """Go on with no step since the last projection."""
        self._temporary = self._none(n_outputs)
        self._corrections = np.zeros((len(self._sample), n_outputs))

    def _none(self, n_outputs: int) -> PlacedCenters:
        return self._placement(
            self._kernel,
            self.project_every * self._m,
            n_columns=self._Z.shape[1],
            n_outputs=n_outputs,
        )

    @property
    def nbytes(self) -> int:
        """Memory beside the centers, in bytes."""
        own = self.coefficients.nbytes + self._corrections.nbytes
        return own + self._projection.nbytes + self._temporary.nbytes

    @property
    def n_temporary(self) -> int:
        """Temporary centers."""
        return len(self._temporary)

    def add_outputs(self, X: Numbers, F: Numbers) -> None:
        """Add what temporary centers give for events X (n, d) to outputs F (n, 2 n_outputs)."""
        if len(self._temporary):
            F[:, : self._temporary.n_outputs] += self._temporary.outputs(X)

    def learn(self, X: Numbers, K: Numbers, G: Numbers) -> Numbers:
        """Take a step.

        Parameters
        ----------
        X : float32 array of shape (m, d)
        K : float64 array of shape (m, m)
            K(X, X).
        G : float64 array of shape (m, n_outputs)
            Outputs less targets.

        Returns
        -------
        int64 array
            The centers whose coefficients are others now.
        """
        outputs = G.shape[1]
        K_sample = self._kernel.pairwise(X, self._Z[self._sample], dtype=np.float32)
        K_sample = K_sample.astype(np.float64)
        step = self.preconditioner.step_size(K, K_sample)
        self._temporary.append(X, -step * G)
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
        A[:, :outputs] += self._projection.solve(self._Z, h, start, self.turn)
        self.turn += 1
        part = _TAIL / (self.turn + _TAIL - 1)
        A[:, outputs:] += part * (A[:, :outputs] - A[:, outputs:])
        self._begin(outputs)

    def begin_at(self, h: Numbers) -> None:
        """Have functions of the values h (p, 2 n_outputs) at the centers, by projection."""
        self.average(h, 1.0)

    def average(self, h: Numbers, part: float) -> None:
        """Go over to functions of the values h (p, 2 n_outputs) at the centers, by a part."""
        self.project()
        theirs = self._projection.solve(self._Z, h, np.zeros_like(h), self.turn)
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
        """Take what `arrays` gave.

        Raises
        ------
        StateError
            If an array is missing, of another shape or out of its domain.
        """
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
        self._temporary.append(found["temporary"], W)
        self._corrections = found["corrections"].copy()
        self.turn = turn


_DECLARED = (
    Declared("coefficients", "float64", ("centers", "width")),
    Declared("temporary", "float32", ("temporary", "columns")),
    Declared("temporary_coefficients", "float32", ("temporary", "outputs")),
    Declared("corrections", "float64", ("sample", "outputs")),
)
