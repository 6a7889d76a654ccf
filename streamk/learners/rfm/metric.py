"""The metric that is learned, and gradients of kernels, its source."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk.backends import loops
from streamk.errors import InvalidInput
from streamk.kernels import (
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    PowerExponential,
    RationalQuadratic,
)
from streamk.kernels.base import as_points

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Metric:
    """A positive semidefinite matrix M by which differences of points are measured.

    ``|t|_M^2 = t' M t`` is the squared Euclidean distance of mapped points: each x becomes ``R x``,
    with ``R R = M``.

    Examples
    --------
    >>> metric = Metric(np.array([2.0, 0.5]))
    >>> metric.mapped(np.ones((1, 2)))
    array([[2. , 0.5]])
    >>> metric.matrix.tolist(), metric.shares.round(3).tolist()
    ([[4.0, 0.0], [0.0, 0.25]], [0.941, 0.059])
    """

    root: Numbers
    """R, float64 (d, d), of a diagonal one its diagonal (d,)."""

    @classmethod
    def of(cls, M: Numbers) -> Metric:
        """Return the metric of a matrix (d, d), or of a diagonal (d,)."""
        if M.ndim == 1:
            return cls(np.sqrt(np.maximum(M, 0.0)))
        values, vectors = np.linalg.eigh(M)
        return cls((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    @property
    def is_diagonal(self) -> bool:
        """True if columns are only scaled."""
        return self.root.ndim == 1

    @property
    def matrix(self) -> Numbers:
        """M, float64 (d, d)."""
        return np.diag(self.root**2) if self.is_diagonal else self.root @ self.root

    @property
    def diagonal(self) -> Numbers:
        """The diagonal of M, float64 (d,)."""
        return self.root**2 if self.is_diagonal else np.einsum("ij,ij->i", self.root, self.root)

    @property
    def shares(self) -> Numbers:
        """The diagonal of M over its sum, float64 (d,); equal shares where it is 0."""
        total = float(self.diagonal.sum())
        d = len(self.root)
        return self.diagonal / total if total > 0.0 else np.full(d, 1.0 / max(1, d))

    def mapped(self, X: Numbers) -> Numbers:
        """Return ``R x`` of points X (n, d)."""
        return X * self.root if self.is_diagonal else X @ self.root

    def unmapped(self, G: Numbers) -> Numbers:
        """Return ``R G R``, the outer products of gradients with respect to x.

        Those with respect to ``R x`` are G (d, d), or of a diagonal metric perhaps its diagonal.
        """
        if G.ndim == 1:
            return self.root**2 * G
        R = np.diag(self.root) if self.is_diagonal else self.root
        return np.asarray(R @ G @ R)


def rescaled(M: Numbers, X: Numbers, *, power: float = 2.0) -> Numbers:
    """Return the multiple of M (d, d) or (d,) by which points are as far apart as by the identity.

    The mean squared distance of two points X (n, d) stays as it is: sharpening a metric does not
    change the bandwidth, and a metric cannot grow or vanish from round to round. Of a power below
    2, for diagonals, distances are sums of ``(sqrt(M_jj) |x_j - z_j|)^power``, and deviations of
    columns stand for their differences. Where M gives no distance to any points it is the identity.
    """
    if M.ndim == 1:
        spread = X.std(axis=0) ** power
        now, aim = float(np.maximum(M, 0.0) ** (0.5 * power) @ spread), float(spread.sum())
    else:
        C = np.atleast_2d(np.cov(X.T, bias=True))
        now, aim = float(np.sum(M * C)), float(np.trace(C))
    factor = (aim / now) ** (2.0 / power) if now > 0.0 else 0.0
    if factor <= 0.0 or not np.isfinite(factor):
        return np.ones(len(M)) if M.ndim == 1 else np.eye(len(M))
    return M * factor


PRODUCTS = Laplacian | PowerExponential | Cauchy
"""Kernels that are products over the columns."""
_NEAR = 0.01
"""Part of a column's deviation within which slopes of PowerExponential are bounded."""
_CELLS = 1 << 20
"""Kernel values that are there at once: 8 MiB of float64, and as many weights."""
_WIDTH = 2_048
"""Columns of a product, outputs times columns of the points: more are done in turns."""


def outer_products(
    kernel: Kernel,
    X: ArrayLike,
    Z: ArrayLike,
    A: ArrayLike,
    *,
    diagonal: bool = False,
    dtype: DTypeLike = np.float64,
    signs: ArrayLike | None = None,
) -> Numbers:
    """Average gradient outer product (AGOP) of ``k(x, Z) A``.

    The mean over points of ``sum over outputs of grad f grad f'`` (Radhakrishnan et al. 2024, the
    update of M in the algorithm of recursive feature machines). The gradients are made for some
    points at a time: beside the result it takes some 30 MiB, and up to 2,048 numbers for each
    center.

    Parameters
    ----------
    kernel : Gaussian, Laplacian, PowerExponential, Matern, RationalQuadratic or Cauchy
    X : array of shape (n, d)
        The points, at least one.
    Z : array of shape (p, d)
        The centers.
    A : array of shape (p,) or (p, outputs)
        Their coefficients.
    diagonal : bool, default False
        Whether to return the diagonal alone.
    dtype : {float64, float32}, default float64
        Of the gradients; their products are summed up in float64.
    signs : array of shape (n, outputs), optional
        Random signs of the outputs at each point. Then the gradient is that of the outputs' sum
        with these signs, whose outer product has the same expectation (Hutchinson 1990), and takes
        the time of one output.

    Returns
    -------
    float64 array of shape (d, d) or (d,)

    Raises
    ------
    InvalidInput
        If the kernel is not one of these, or shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Matern
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> A = np.linalg.solve(Matern().pairwise(X) + np.eye(500), np.sin(X[:, 0]))
    >>> outer_products(Matern(), X, X, A, diagonal=True).round(2)
    array([0.52, 0.01, 0.01])
    """
    points, centers = as_points(X, "X", dtype), as_points(Z, "Z", dtype)
    coefficients = np.asarray(A, points.dtype)
    if points.shape[1] != centers.shape[1]:
        raise InvalidInput(f"X has {points.shape[1]} columns and Z has {centers.shape[1]}")
    if coefficients.ndim not in (1, 2) or len(coefficients) != len(centers):
        raise InvalidInput(
            f"A must have a row for each of {len(centers)} centers, shape ({len(centers)},) or "
            f"({len(centers)}, outputs), not {coefficients.shape}"
        )
    if not len(points):
        raise InvalidInput("a gradient needs at least one point")
    coefficients = coefficients.reshape(len(centers), -1)
    n, d = points.shape
    total = np.zeros(d) if diagonal else np.zeros((d, d))
    signs = None if signs is None else np.asarray(signs, points.dtype)
    for G in _in_blocks(kernel, points, centers, coefficients, signs):
        each = G.reshape(-1, d)
        total += np.einsum("ij,ij->j", each, each, dtype=np.float64) if diagonal else each.T @ each
    return np.asarray(total / n)


def check_kernel(kernel: Kernel) -> None:
    """Raise InvalidInput unless the kernel's gradients are known."""
    if not isinstance(kernel, PRODUCTS):
        _weights(kernel)


def _rows(n: int, p: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(1, p))
    return (slice(start, start + step) for start in range(0, n, step))


def _in_blocks(
    kernel: Kernel, X: Numbers, Z: Numbers, A: Numbers, signs: Numbers | None
) -> Iterator[Numbers]:
    """Yield the gradients of some outputs at some points (rows, outputs, d).

    They are 0 where a kernel has no derivative.
    """
    if isinstance(kernel, PRODUCTS):
        return _by_columns(kernel, X, Z, A, signs)
    # Differences of points are those of points about another origin, and their products with
    # weights, which are subtracted from each other, are smallest about the middle.
    middle = Z.mean(axis=0)
    return _by_distance(kernel, X - middle, Z - middle, A, signs)


def _by_distance(
    kernel: Kernel, X: Numbers, Z: Numbers, A: Numbers, signs: Numbers | None
) -> Iterator[Numbers]:
    other, weights = _weights(kernel)
    d, outputs = X.shape[1], A.shape[1] if signs is None else 1
    together = max(1, _WIDTH // (d + 1))
    with_ones = np.column_stack([Z, np.ones(len(Z), Z.dtype)]).T
    for rows in _rows(len(X), len(Z)):
        W = weights(other.pairwise(X[rows], Z, dtype=X.dtype))
        own, W = (A, W) if signs is None else _signed(W, A, signs[rows])
        for first in range(0, outputs, together):
            some = slice(first, first + together)
            # A row for each output and column, and one for the output itself.
            of_centers = np.multiply(own.T[some, None], with_ones, order="C").reshape(-1, len(Z))
            sums = Linear().pairwise(W, of_centers, dtype=X.dtype)
            G = sums.reshape(len(W), -1, d + 1)
            yield G[:, :, d:] * X[rows, None] - G[:, :, :d]


def _by_columns(
    kernel: Laplacian | PowerExponential | Cauchy,
    X: Numbers,
    Z: Numbers,
    A: Numbers,
    signs: Numbers | None,
) -> Iterator[Numbers]:
    s, at, h = kernel.bandwidth, loops.gradients, np.zeros(X.shape[1])
    if isinstance(kernel, Laplacian):
        kind, factor = at.SIGNS, -1.0 / s
    elif isinstance(kernel, PowerExponential):
        # Twice the slope of sqrt(|t|), but near 0.
        kind, factor, h = at.ROOTS, -0.5 / math.sqrt(s), _NEAR * Z.std(axis=0, dtype=np.float64)
    else:
        kind, factor, h = at.FRACTIONS, -2.0, np.full(X.shape[1], s)
    for rows in _rows(len(X), len(Z)):
        K = kernel.pairwise(X[rows], Z, dtype=X.dtype)
        own, K = (A, K) if signs is None else _signed(K, A, signs[rows])
        G = np.empty((len(K), own.shape[1], X.shape[1]))
        at.sum_slopes(kind, h, K, own, X[rows], Z, G)
        G *= factor
        yield G


def _signed(W: Numbers, A: Numbers, signs: Numbers) -> tuple[Numbers, Numbers]:
    """Return coefficients and weights of a sum of the outputs, with signs at each point."""
    return np.ones((len(A), 1), A.dtype), W * Linear().pairwise(signs, A, dtype=A.dtype)


def _weights(kernel: Kernel) -> tuple[Kernel, Callable[[Numbers], Numbers]]:
    """Return a kernel, and the weights w as a function of its values, which it may overwrite."""
    match kernel:
        case Gaussian(bandwidth=s):
            return kernel, lambda K: _times(K, -(s**-2))
        case RationalQuadratic(bandwidth=s, alpha=alpha):
            return kernel, lambda K: _times(K ** (1.0 + 1.0 / alpha), -(s**-2))
        case Matern(bandwidth=s, nu=1.5):
            return Matern(nu=0.5, bandwidth=s / math.sqrt(3.0)), lambda K: _times(K, -3.0 * s**-2)
        case Matern(bandwidth=s, nu=2.5):
            other = Matern(nu=1.5, bandwidth=s * math.sqrt(0.6))
            return other, lambda K: _times(K, -5.0 / 3.0 * s**-2)
        case Matern(bandwidth=s):
            return kernel, lambda K: _times(_over_logarithm(K), s**-2)
    raise InvalidInput(
        f"kernel {kernel.name!r} has no closed form of its gradients here; use gaussian, "
        "laplacian, power_exponential, matern, rational_quadratic or cauchy"
    )


def _times(K: Numbers, factor: float) -> Numbers:
    K *= K.dtype.type(factor)
    return K


def _over_logarithm(K: Numbers) -> Numbers:
    """Return ``k / log k``, 0 where k is 1 or 0."""
    with np.errstate(divide="ignore"):
        logarithm = np.log(K)
    logarithm[logarithm == 0.0] = -np.inf
    return np.divide(K, logarithm, out=K)
