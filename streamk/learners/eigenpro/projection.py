"""Projection of functions onto the span of centers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners.eigenpro.direct import product
from streamk.learners.eigenpro.shards import Expansion, HostExpansion

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

    The sample (s, d) are points, and `level` is a q below s, for those who want another.

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
        """Return the step for the sum of a batch's gradients, by K(X, X) and K(X, S), float64."""
        m = len(K)
        V = product(K_sample, self._root)
        (largest,) = scipy.linalg.eigvalsh(
            K - product(V, V.T), subset_by_index=(m - 1, m - 1), check_finite=False
        )
        return 1.0 / max(self.norm + (m - 1) * self.tail / self._s, float(largest))

    def corrected(self, K_sample: Numbers, G: Numbers) -> Numbers:
        """Return ``Q K(S, X) G``, (s, outputs): the part that P takes away, on the sample."""
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


def preconditioned(
    kernel: Kernel, X: Numbers, *, batch_size: int, seed: int
) -> tuple[Numbers, Preconditioner]:
    """Return the places of a random sample of points, and the preconditioner that it makes."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, len(X)])))
    sample = np.sort(random.permutation(len(X))[:LARGEST])
    return sample, Preconditioner(kernel, X[sample], batch_size=batch_size)


def interpolated(
    kernel: Kernel,
    X: Numbers,
    sample: Numbers,
    preconditioner: Preconditioner,
    theta: Numbers,
    y: Numbers,
    orders: Iterable[Numbers],
    *,
    batch_size: int,
    expand: Callable[[Numbers], Expansion] | None = None,
) -> Numbers:
    """Return coefficients after steps toward the function of K(., X) that has given values at X.

    This is Algorithm 3 of Abedsoltan, Belkin and Pandit (2023). No matrix of points by points is
    stored; an epoch takes the time of n^2 (d + outputs) multiplications.

    Points X (n, d) are float32, at least 1, and `sample` (s,) are those that the preconditioner is
    made of. From coefficients theta (n, outputs) on the function goes toward values y (n, outputs),
    float64, by an epoch in each of the orders (n,). `expand` returns the function on the points
    with coefficients (n, outputs); one on the host by default.

    Examples
    --------
    >>> from streamk.kernels import Matern
    >>> X, kernel = np.linspace(0, 1, 300, dtype=np.float32)[:, None], Matern(nu=0.5)
    >>> y, orders = np.sin(6 * X.astype(float)), [np.random.permutation(300) for _ in range(5)]
    >>> some = preconditioned(kernel, X, batch_size=50, seed=0)
    >>> theta = interpolated(kernel, X, *some, np.zeros((300, 1)), y, orders, batch_size=50)
    >>> bool(np.abs(kernel.product(X, X, theta) - y).max() < 0.1)
    True
    """
    theta = theta.copy()
    f = expand(theta) if expand else HostExpansion(kernel, X, theta)
    for order in orders:
        for at in range(0, len(X), batch_size):
            rows = order[at : at + batch_size]
            some = X[rows]
            G = f.outputs(some) - y[rows]
            K = kernel.pairwise(some, X[sample], dtype=np.float32).astype(np.float64)
            step = preconditioner.step_size(kernel.pairwise(some), K)
            theta[rows] -= step * G
            theta[sample] += step * preconditioner.corrected(K, G)
            for moved in (rows, sample):
                f.set_coefficients(moved, theta[moved])
    return theta


APART = 1e-6
"""Least squared distance, relative to its norm, of a center's kernel from the span of others."""
EPOCHS = 2
"""Passes of EigenPro 2.0 over the centers for one inexact projection."""


def apart(K: Numbers, scale: float | None = None) -> Numbers:
    """Return which centers are apart from the span of the others, ascending, int64.

    They are the pivots of a Cholesky factorization with diagonal pivoting, up to the one whose
    squared distance from the span of those before is below 1e-6 of the scale.

    K is K(Z, Z), or its Schur complement where more centers are there. The scale is the squared
    norm of a center's kernel; by default the largest number on the diagonal.

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
        f"and so do {len(left_out) - 1} more; leave them out, or use a smaller bandwidth"
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
