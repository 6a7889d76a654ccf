"""EigenPro 2.0: the system K(X, X) theta = y by preconditioned gradient steps on batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.kernels import Kernel
from streamk.learners.eigenpro.placement import Expansion, HostExpansion
from streamk.learners.eigenpro.preconditioner import LARGEST, Preconditioner

Numbers = NDArray[Any]


class Interpolation:
    """Steps toward the function of K(., X) that has given values at X.

    This is Algorithm 3 of Abedsoltan, Belkin and Pandit (2023). No matrix of points by points is
    stored; an epoch takes the time of n^2 (d + outputs) multiplications.

    Parameters
    ----------
    kernel : Kernel
    X : float32 array of shape (n, d)
        Points, at least 1.
    sample : int64 array of shape (s,)
        Those that the preconditioner is made of.
    preconditioner : Preconditioner
    batch_size : int
    expand : callable, optional
        Returns the function on the points with coefficients (n, outputs); one on the host by
        default.

    Examples
    --------
    >>> from streamk.kernels import Matern
    >>> X = np.linspace(0, 1, 300, dtype=np.float32)[:, None]
    >>> some = Interpolation.of(Matern(nu=0.5), X, batch_size=50, seed=0)
    >>> y = np.sin(6 * X.astype(float))
    >>> theta = some.improved(np.zeros((300, 1)), y, [np.random.permutation(300) for _ in range(5)])
    >>> bool(np.abs(Matern(nu=0.5).product(X, X, theta) - y).max() < 0.1)
    True
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Numbers,
        sample: Numbers,
        preconditioner: Preconditioner,
        *,
        batch_size: int,
        expand: Callable[[Numbers], Expansion] | None = None,
    ) -> None:
        self._kernel, self._X, self._m = kernel, X, batch_size
        self._expand = expand
        self._sample, self._preconditioner = sample, preconditioner

    @classmethod
    def of(cls, kernel: Kernel, X: Numbers, *, batch_size: int, seed: int) -> Interpolation:
        """Return the steps with a preconditioner of a random sample of the points."""
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, len(X)])))
        sample = np.sort(random.permutation(len(X))[:LARGEST])
        preconditioner = Preconditioner(kernel, X[sample], batch_size=batch_size)
        return cls(kernel, X, sample, preconditioner, batch_size=batch_size)

    def improved(self, theta: Numbers, y: Numbers, orders: Iterable[Numbers]) -> Numbers:
        """Return coefficients after an epoch in each of some orders.

        Parameters
        ----------
        theta : float64 array of shape (n, outputs)
            Those to begin with.
        y : float64 array of shape (n, outputs)
            Values at the points.
        orders : iterable of int64 array of shape (n,)
        """
        kernel, X, S, theta = self._kernel, self._X, self._sample, theta.copy()
        f = self._expand(theta) if self._expand else HostExpansion(kernel, X, theta)
        for order in orders:
            for at in range(0, len(X), self._m):
                rows = order[at : at + self._m]
                some = X[rows]
                G = f.outputs(some) - y[rows]
                K = kernel.pairwise(some, X[S], dtype=np.float32).astype(np.float64)
                step = self._preconditioner.step_size(kernel.pairwise(some), K)
                theta[rows] -= step * G
                theta[S] += step * self._preconditioner.corrected(K, G)
                for moved in (rows, S):
                    f.set_coefficients(moved, theta[moved])
        return theta
