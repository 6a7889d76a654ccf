"""The Nyström preconditioner of EigenPro, and the steps that it allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.kernels import Kernel
from streamk.learners.eigenpro.blas import largest_eigenvalue, product

Numbers = NDArray[Any]

LARGEST = 2_000
"""Points of a sample, at most: their eigenvectors take the time of some 10 s^3 multiplications."""
_LARGEST_SHARE = 4
"""A level is at most the sample's size over this: eigenvalues beyond are poorly estimated."""
_LEAST = 1e-6
"""Eigenvalue, relative to the first, that kernels and coefficients in float32 still resolve. Below
it steps would be so long that rounding grows with each."""


class Preconditioner:
    """A preconditioner from the top eigensystem of a sample's kernel matrix.

    With eigenvalues ``lambda_1 >= lambda_2 ...`` and unit eigenvectors e_i of K(S, S) it is
    ``P = I - sum over i <= q of (1 - lambda_(q+1) / lambda_i) psi_i psi_i'`` for the functions
    ``psi_i = k(., S) e_i / sqrt(lambda_i)`` (Abedsoltan, Belkin and Pandit 2023, equation 29). By
    Lemma 5, ``P{k(., X) g} = k(., X) g - k(., S) Q k(S, X) g`` with
    ``Q = E (I - lambda_(q+1) / Lambda) / Lambda E'``.

    The level q is the least for which the batch size is not beyond the critical one, ``beta s /
    lambda_(q+1)`` with the largest preconditioned norm ``beta = max k_P(x, x)`` in the sample:
    larger batches would not take longer steps (Ma, Bassily and Belkin 2018, theorem 4, for the
    preconditioned kernel). A step for the sum of the gradients of m events is ``1 / (beta + (m - 1)
    lambda_(q+1) / s)``, but at most 1 over the largest eigenvalue of ``k_P(X, X)`` on the batch
    itself: whatever the stream has become, no step leaves its own events with larger squares.

    Parameters
    ----------
    kernel : Kernel
    sample : array of shape (s, d)
        Points.
    batch_size : int
    level : int, optional
        q below s, for those who want another.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> sample = np.random.default_rng(0).normal(size=(200, 2))
    >>> flat = Preconditioner(Gaussian(bandwidth=2.0), sample, batch_size=16)
    >>> flat.level, flat.critical_batch > 16.0
    (3, True)
    """

    def __init__(
        self, kernel: Kernel, sample: Numbers, *, batch_size: int, level: int | None = None
    ) -> None:
        s = len(sample)
        most = max(1, s // _LARGEST_SHARE) if level is None else level
        K = kernel.pairwise(sample)
        values, vectors = _top(K, most + 1)
        usable = max(1, int((values > _LEAST * values[0]).sum()))
        values, vectors = values[:usable], vectors[:, :usable]
        heights = (values * vectors**2).T  # psi_i(x)^2 for the sample
        norms = np.diag(K).copy()
        self.level = min(usable - 1, most)
        for q in range(self.level if level is None else 0):
            beta = float((norms - (1.0 - values[q] / values[:q]) @ heights[:q]).max())
            if beta * s >= batch_size * values[q]:
                self.level = q
                break
        self._s = s
        values, self.tail = values[: self.level], float(values[self.level])
        flat = 1.0 - self.tail / values
        self.norm = float((norms - flat @ heights[: self.level]).max())
        self._root = np.ascontiguousarray(vectors[:, : self.level] * np.sqrt(flat / values))

    @property
    def critical_batch(self) -> float:
        """Batch size from which on steps grow no more."""
        return self.norm * self._s / self.tail

    def step_size(self, K: Numbers, K_sample: Numbers) -> float:
        """Return the step for the sum of a batch's gradients.

        Parameters
        ----------
        K : float64 array of shape (m, m)
            K(X, X).
        K_sample : float64 array of shape (m, s)
            K(X, S).
        """
        m = len(K)
        V = product(K_sample, self._root)
        largest = largest_eigenvalue(K - product(V, V.T))
        return 1.0 / max(self.norm + (m - 1) * self.tail / self._s, largest)

    def corrected(self, K_sample: Numbers, G: Numbers) -> Numbers:
        """Return ``Q K(S, X) G``, (s, outputs): the part that P takes away, on the sample.

        Parameters
        ----------
        K_sample : float64 array of shape (m, s)
        G : array of shape (m, outputs)
        """
        return product(self._root, product(self._root.T, product(K_sample.T, G)))


def _top(K: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Return the largest eigenvalues, descending, and their vectors (n, count)."""
    n = len(K)
    try:
        values, vectors = scipy.linalg.eigh(K, subset_by_index=(max(0, n - count), n - 1))
    except np.linalg.LinAlgError:
        values = np.zeros(0)
    if len(values) < min(count, n):  # LAPACK's faster routine finds some eigenvalues only, or fails
        values, vectors = (part[..., -count:] for part in np.linalg.eigh(K))  # if rows are the same
    return values[::-1], vectors[:, ::-1]
