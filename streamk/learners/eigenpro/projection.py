"""Projection of functions onto the span of centers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners.eigenpro.interpolation import Interpolation
from streamk.learners.eigenpro.placement import Expansion
from streamk.learners.eigenpro.preconditioner import Preconditioner

Numbers = NDArray[Any]

APART = 1e-6
"""Least squared distance, relative to its norm, of a center's kernel from the span of others."""
EPOCHS = 2
"""Passes of EigenPro 2.0 over the centers for one inexact projection."""


class Projection(Protocol):
    """The system ``K(Z, Z) theta = h``."""

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        ...

    def solve(self, Z: Numbers, h: Numbers, start: Numbers, turn: int) -> Numbers:
        """Return theta (p, outputs) for the values h (p, outputs) of a function at the centers.

        Parameters
        ----------
        Z : float32 array of shape (p, d)
            The centers.
        h : float64 array of shape (p, outputs)
        start : float64 array of shape (p, outputs)
            A guess at theta.
        turn : int
            Count of projections before this one.
        """
        ...


class ExactProjection:
    """The solution by Cholesky's factor (Abedsoltan, Belkin and Pandit 2023, Algorithm 1).

    Parameters
    ----------
    K : float64 array of shape (p, p)
        K(Z, Z), of centers that are `apart`.
    """

    def __init__(self, K: Numbers) -> None:
        self._factor = scipy.linalg.cholesky(K, lower=True, check_finite=False)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return int(self._factor.nbytes)

    def solve(self, Z: Numbers, h: Numbers, start: Numbers, turn: int) -> Numbers:
        """Return the solution, as of `Projection`."""
        return np.asarray(scipy.linalg.cho_solve((self._factor, True), h, check_finite=False))


class InexactProjection:
    """Two passes of EigenPro 2.0 over the centers (Algorithm 3), which store no kernel matrix.

    Parameters
    ----------
    kernel : Kernel
    sample : int64 array of shape (s,)
        The centers that the preconditioner is made of.
    preconditioner : Preconditioner
        Of these.
    batch_size : int
    seed : int
        Of the order in which the centers are taken.
    expand : callable, optional
        As of `Interpolation`, on the centers.
    """

    def __init__(
        self,
        kernel: Kernel,
        sample: Numbers,
        preconditioner: Preconditioner,
        *,
        batch_size: int,
        seed: int,
        expand: Callable[[Numbers], Expansion] | None = None,
    ) -> None:
        self._kernel, self._sample, self._expand = kernel, sample, expand
        self._preconditioner, self._m, self._seed = preconditioner, batch_size, seed

    @property
    def nbytes(self) -> int:
        """Memory, in bytes: that of the centers is counted by their owner."""
        return 0

    def solve(self, Z: Numbers, h: Numbers, start: Numbers, turn: int) -> Numbers:
        """Return an approximate solution, as of `Projection`."""
        sequence = np.random.SeedSequence([self._seed, turn])
        random = np.random.Generator(np.random.Philox(sequence))
        steps = Interpolation(
            self._kernel,
            Z,
            self._sample,
            self._preconditioner,
            batch_size=self._m,
            expand=self._expand,
        )
        return steps.improved(start, h, (random.permutation(len(Z)) for _ in range(EPOCHS)))


def apart(K: Numbers, scale: float | None = None) -> Numbers:
    """Return which centers are apart from the span of the others, ascending, int64.

    They are the pivots of a Cholesky factorization with diagonal pivoting, up to the one whose
    squared distance from the span of those before is below 1e-6 of the scale.

    Parameters
    ----------
    K : float64 array of shape (p, p)
        K(Z, Z), or its Schur complement where more centers are there.
    scale : float, optional
        Squared norm of a center's kernel; by default the largest number on the diagonal.

    Examples
    --------
    >>> apart(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])).tolist()
    [0, 2]
    """
    scale = float(np.diag(K).max(initial=0.0)) if scale is None else scale
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(K, lower=1, tol=APART * scale)
    if not (np.diag(K) > APART * scale).any():  # LAPACK takes the first pivot in any case
        rank = 0
    return np.sort(np.asarray(pivots[:rank], np.int64) - 1)


def check_apart(K: Numbers) -> None:
    """Raise InvalidInput if a center is not apart from the span of the others, naming it."""
    kept = apart(K)
    if len(kept) == len(K):
        return
    left_out = np.setdiff1d(np.arange(len(K)), kept)
    first = int(left_out[0])
    alike = int(np.argmax(np.where(np.arange(len(K)) == first, -np.inf, K[first])))
    raise InvalidInput(
        f"center {first} of {len(K)} lies in the span of the others (center {alike} is nearest), "
        f"and so do {len(left_out) - 1} more; leave them out, or take a smaller bandwidth"
    )


def unrepeated(Z: Numbers) -> Numbers:
    """Return the rows of Z (p, d) without those that were there before, in their order.

    Examples
    --------
    >>> unrepeated(np.array([[2.0], [1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    _, first = np.unique(Z, axis=0, return_index=True)
    return Z[np.sort(first)]
