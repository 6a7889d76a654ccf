"""Gradients of functions ``f(x) = k(x, Z) A`` with respect to x, and their mean outer product.

Of a kernel of the distance, ``k = phi(r)`` with ``r = |x - z| / s``, the gradient is
``w(x, z) (x - z)`` with the weight ``w = phi'(r) / (r s^2)``, and each weight is a function of a
kernel's value:

=================  =================================  ============================================
kernel             w s^2                              as
=================  =================================  ============================================
Gaussian           ``-k``
RationalQuadratic  ``-(1 + r^2/(2 a))^(-a-1)``        ``-k^(1 + 1/a)``
Matern, nu = 1/2   ``-exp(-r) / r``                   ``k / log k``
Matern, nu = 3/2   ``-3 exp(-sqrt(3) r)``             3 times Matern 1/2 of bandwidth s/sqrt(3)
Matern, nu = 5/2   ``-5/3 (1+sqrt(5) r) exp(...)``    5/3 times Matern 3/2 of bandwidth s sqrt(3/5)
=================  =================================  ============================================

So the gradients of all outputs at some points are ``(W A) x - W (A z)``, a matrix product, and no
array of points by centers by columns is made. `Kernel.pairwise` sums up distances from differences
of columns: equal points are at distance 0, where Matern 1/2 has a cusp. There the mean of the
gradients around it, 0, is taken.

Laplacian, PowerExponential and Cauchy are products over the columns: their derivative by column j
is the kernel times a function of ``t = x_j - z_j``, one matrix product a column. That of
``sqrt(|t|)`` has no bound, and the mean of its square is infinite. In its place there is that of
``(t^2 + h^2)^(1/4)``, where h is a hundredth of the centers' standard deviation in the column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

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
from streamk.learners.rfm.metric import Weights, sum_of

Numbers = NDArray[Any]

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
    weights: Weights = None,
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
    weights : array of shape (n,), optional
        How much each point counts in the mean.

    Returns
    -------
    float64 array of shape (d, d) or (d,)

    Raises
    ------
    InvalidInput
        If the kernel is another one, or shapes do not fit.

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
        raise InvalidInput("there must be a point at least at which to take a gradient")
    coefficients = coefficients.reshape(len(centers), -1)
    n, d = points.shape
    roots = None if weights is None else np.sqrt(weights).astype(points.dtype)[:, None, None]
    total = np.zeros(d) if diagonal else np.zeros((d, d))
    for rows, G in _in_blocks(kernel, points, centers, coefficients):
        each = (G if roots is None else G * roots[rows]).reshape(-1, d)
        total += np.einsum("ij,ij->j", each, each, dtype=np.float64) if diagonal else each.T @ each
    return np.asarray(total / sum_of(weights, n))


def check_kernel(kernel: Kernel) -> None:
    """Raise InvalidInput unless the kernel's gradients are known."""
    if not isinstance(kernel, PRODUCTS):
        _weights(kernel)


def _rows(n: int, p: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(1, p))
    return (slice(start, start + step) for start in range(0, n, step))


Block = tuple[slice, Numbers]
"""Rows of the points, and gradients of some outputs there (rows, outputs, d)."""


def _in_blocks(kernel: Kernel, X: Numbers, Z: Numbers, A: Numbers) -> Iterator[Block]:
    """Yield the gradients of all outputs, 0 where a kernel has no derivative."""
    if isinstance(kernel, PRODUCTS):
        return _by_columns(kernel, X, Z, A)
    # Differences of points are those of points about another origin, and their products with
    # weights, which are subtracted from each other, are smallest about the middle.
    middle = Z.mean(axis=0)
    return _by_distance(kernel, X - middle, Z - middle, A)


def _by_distance(kernel: Kernel, X: Numbers, Z: Numbers, A: Numbers) -> Iterator[Block]:
    other, weights = _weights(kernel)
    d, outputs = X.shape[1], A.shape[1]
    together = max(1, _WIDTH // (d + 1))
    with_ones = np.column_stack([Z, np.ones(len(Z), Z.dtype)]).T
    for rows in _rows(len(X), len(Z)):
        W = weights(other.pairwise(X[rows], Z, dtype=X.dtype))
        for first in range(0, outputs, together):
            some = slice(first, first + together)
            # A row for each output and column, and one for the output itself.
            of_centers = np.multiply(A.T[some, None], with_ones, order="C").reshape(-1, len(Z))
            sums = Linear().pairwise(W, of_centers, dtype=X.dtype)
            G = sums.reshape(len(W), -1, d + 1)
            yield rows, G[:, :, d:] * X[rows, None] - G[:, :, :d]


def _by_columns(
    kernel: Laplacian | PowerExponential | Cauchy, X: Numbers, Z: Numbers, A: Numbers
) -> Iterator[Block]:
    s = kernel.bandwidth
    is_rough = isinstance(kernel, PowerExponential)
    near = [_NEAR * float(column.std()) for column in Z.T] if is_rough else []
    for rows in _rows(len(X), len(Z)):
        K = kernel.pairwise(X[rows], Z, dtype=X.dtype)
        G = np.empty((len(K), A.shape[1], X.shape[1]), X.dtype)
        for j in range(X.shape[1]):
            t = X[rows, j, None] - Z[:, j]
            if isinstance(kernel, Laplacian):
                np.multiply(K, np.sign(t, out=t), out=t)
                G[:, :, j] = (t @ A) / -s
            elif is_rough:
                np.multiply(K, _slopes_of_root(t, near[j]), out=t)
                G[:, :, j] = (t @ A) / (-2.0 * math.sqrt(s))
            else:
                t /= t * t + s * s
                np.multiply(K, t, out=t)
                G[:, :, j] = -2.0 * (t @ A)
        yield rows, G


def _slopes_of_root(t: Numbers, near: float) -> Numbers:
    """Return ``t (t^2 + near^2)^(-3/4)``, twice the slope of ``sqrt(|t|)`` but near 0."""
    h = t.dtype.type(near)
    with np.errstate(over="ignore"):  # the slope at points that are so far away is 0
        if h * h < np.finfo(t.dtype).tiny:
            size = np.hypot(t, h)  # takes four times as long, and squares are not lost
        else:
            size = np.square(t)
            size += h * h
            np.sqrt(size, out=size)
        size *= np.sqrt(size)
    # Where all centers are equal in the column, and the point is, too, it has no slope.
    return np.asarray(np.divide(t, size, out=np.zeros_like(t), where=size > 0.0))


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
        f"kernel {kernel.name!r} has no closed form of its gradients here; take gaussian, "
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
