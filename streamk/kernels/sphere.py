"""Kernels of inner products: polynomial, NTK, linear, and those of the sphere."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import DEEPEST, FACTORS, Backend, Curve, KernelCode, Law
from streamk.backends.threads import divide
from streamk.errors import InvalidInput, shown
from streamk.kernels.base import (
    BandwidthKernel,
    Kernel,
    SpherePoints,
    as_points,
    is_positive,
    is_whole,
)

CONSTANT_KEY = 2**64 - 1
"""Key of the constant column that `mapped` puts before the others."""

_ROWS, _POINTS = 32, 512
"""Points of a tile of the product, of the one set and of the other."""


@dataclass(frozen=True, kw_only=True)
class DotProductKernel(BandwidthKernel):
    """A kernel ``g(u.v)`` of mapped points u and v, which have a constant column before the others.

    Inner products come from the compiled loops, and NumPy's functions make the kernel of them. Its
    random features are for `streamk.features` and `streamk.learners.DoublyStochastic`; learners
    that take values of kernels refuse it.
    """

    shift_invariant = False

    @abstractmethod
    def of_products(self, T: Any, columns: int, xp: Any) -> Any:
        """Return the kernel from inner products T of mapped points of so many columns.

        `xp` is the module of the arrays' functions, NumPy or CuPy.
        """

    def mapped_keys(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the keys of mapped columns, that of the constant one first."""
        return np.concatenate([np.array([CONSTANT_KEY], np.uint64), keys])

    def values_on(self, backend: Backend, X: Any, Y: Any, out: Any) -> None:
        """Write the kernel between mapped points (n, d) and (m, d) of a backend into out (n, m)."""
        backend.pairwise(KernelCode.LINEAR, 0.0, 1.0, X, Y, out)
        out[...] = self.of_products(out, X.shape[1], backend.xp)

    def product_on(
        self, backend: Backend, X: Any, Y: Any, V: Any, *, threads: int | None = None
    ) -> Any:
        """Return the product as of `product`, of arrays on a backend's device; see `Kernel`."""
        xp = backend.xp
        out = xp.zeros((len(X), V.shape[1]))

        def fill(some: slice) -> None:
            rows = slice(_ROWS * some.start, min(_ROWS * some.stop, len(X)))
            for start in range(0, len(Y), _POINTS):
                points = slice(start, start + _POINTS)
                K = xp.empty((rows.stop - rows.start, len(Y[points])), X.dtype)
                self.values_on(backend, X[rows], Y[points], K)
                # No matrix product: a row's sum is then the same in whatever batch it comes.
                for o, v in enumerate(V[points].T):
                    out[rows, o] += (K * v).sum(axis=1, dtype=np.float64)

        flops = len(X) * len(Y) * (X.shape[1] + V.shape[1])
        divide(-(-len(X) // _ROWS), flops, fill, threads if xp is np else 1)
        return out


@dataclass(frozen=True, kw_only=True)
class Polynomial(DotProductKernel):
    """Polynomial kernel ``(x.y / bandwidth^2 + offset)^degree`` (Dai et al. 2014, section 2).

    Its random features are tensor sketches (Pham and Pagh 2013), one independent sketch for each
    `streamk.backends.CHUNK` features. A count sketch adds each column, with a random sign, to one
    of as many buckets; the sketch of the tensor product of `degree` copies of the columns is the
    convolution of `degree` count sketches. Buckets are added bit by bit, where Pham and Pagh add
    them modulo their number: the Fourier transform that makes the convolution a product is then
    that of Walsh and Hadamard, of additions alone. It is not transformed back, which changes no
    inner product. Signs and buckets follow from the seed and the columns' names, so columns may
    come late.

    The mean of m products at mapped points u and v has the variance ``((|u|^2 |v|^2 + 2 (u.v)^2 - 2
    sum u_j^2 v_j^2)^degree - (u.v)^(2 degree)) / m``, that of independent random signs. It is that
    of Pham and Pagh's where u and v are far from parallel; of parallel ones with many columns it is
    4/3 of theirs with degree 2, 13/7 with degree 3.

    ``k(x, x) = (|x|^2 / bandwidth^2 + offset)^degree`` is not bounded: steps of a learner must be
    smaller than 2 divided by it.

    Parameters
    ----------
    degree : int, default 2
        1 to 16.
    offset : float, default 1
        At least 0: what monomials of lower degree weigh.
    bandwidth : float, default 1
        In the unit of the columns.

    Examples
    --------
    >>> Polynomial(degree=3).pairwise([[1.0, 2.0]], [[0.5, 0.0]])
    array([[3.375]])
    """

    name = "polynomial"
    law = Law.BUCKETS
    amplitude = 1.0
    curve = Curve.IDENTITY

    degree: int = 2
    offset: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.degree) or not 1 <= self.degree <= FACTORS:
            raise InvalidInput(
                f"degree={shown(self.degree)} of Polynomial must be a whole number from 1"
                f" to {FACTORS}"
            )
        number = isinstance(self.offset, int | float | np.number)
        if not number or not 0.0 <= self.offset < math.inf:
            raise InvalidInput(
                f"offset={shown(self.offset)} of Polynomial must be a number, at least 0"
            )

    def mapped(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return ``(sqrt(offset), x / bandwidth)`` of each row x, (n, d + 1), of their type."""
        out = np.empty((len(points), points.shape[1] + 1), points.dtype)
        out[:, 0] = math.sqrt(self.offset)
        np.multiply(points, points.dtype.type(1.0 / self.bandwidth), out=out[:, 1:])
        return out

    def of_products(self, T: Any, columns: int, xp: Any) -> Any:
        """Return the power of the inner products."""
        return T**self.degree

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``k(x, x)`` of each row of `X` (n, d), float64 of shape (n,)."""
        U = self.mapped(as_points(X, "X"))
        return np.asarray(np.einsum("ij,ij->i", U, U) ** self.degree)


@dataclass(frozen=True, kw_only=True)
class NTK(SpherePoints):
    """Neural tangent kernel of a fully connected ReLU network, with values from -0.07 to 1.

    It is the kernel of gradient descent on all weights of a network of infinite width (Jacot et
    al. 2018; Arora et al. 2019, section 3, whose L is the depth here). Points are mapped to unit
    vectors, ``u = (bandwidth, x) / |(bandwidth, x)|``: a constant column beside the others is the
    bias of the first layer. Between u and v at the angle theta it is
    ``Theta_depth / (depth + 1)`` with

    ``c_0 = Theta_0 = cos(theta)``, ``Theta_l = Theta_(l-1) kappa_0(c_(l-1)) + c_l`` and
    ``c_l = kappa_1(c_(l-1))``

    where ``kappa_0(c) = 1 - arccos(c) / pi`` and ``kappa_1(c) = (sqrt(1 - c^2) + (pi - arccos(c))
    c) / pi`` are the arc-cosine kernels (Cho and Saul 2009). It has a cusp at equal points, as
    the Laplace kernel has, but distant points count: it depends on the direction of those that are
    many bandwidths from the origin.

    It is not a function of ``x - y``: `streamk.features` and `streamk.factorization` refuse it, and
    so do the learners of these. EigenPro, OnlineKernelRidge, OnlineNystrom and landmarks take it.

    Parameters
    ----------
    depth : int, default 3
        Hidden layers, 1 to 12.
    bandwidth : float, default 1
        In the unit of the columns: the constant column. With a large one, points differ by little.

    Examples
    --------
    >>> NTK(depth=1).pairwise([[0.0]], [[0.0], [1.0]]).round(4)
    array([[1.    , 0.6429]])
    """

    name = "ntk"
    code = KernelCode.NTK
    law = None
    shift_invariant = False

    depth: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.depth) or not 1 <= self.depth <= DEEPEST:
            raise InvalidInput(
                f"depth={shown(self.depth)} of NTK must be a whole number from 1 to {DEEPEST}: its "
                "hidden layers"
            )

    @property
    def parameter(self) -> float:
        """Return the depth."""
        return float(self.depth)


@dataclass(frozen=True, kw_only=True)
class Linear(Kernel):
    """Linear kernel ``x.y``, whose features are random projections; ``k(x, x) = |x|^2``."""

    name = "linear"
    code = KernelCode.LINEAR
    law = Law.NORMAL
    curve = Curve.IDENTITY
    shift_invariant = False

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``|x|^2`` of each row of `X` (n, d), float64 of shape (n,)."""
        points = as_points(X, "X")
        return np.asarray(np.einsum("ij,ij->i", points, points))


HIGHEST = 10
"""Highest degree of a zonal harmonic: of more, single precision loses the polynomials."""
_NODES = 128
"""Points of the quadrature on [-1, 1]: it is exact for polynomials of twice their number."""


@dataclass(frozen=True, kw_only=True)
class SphericalKernel(SpherePoints, DotProductKernel):
    """A kernel of the angle between ``u = (bandwidth, x) / |(bandwidth, x)|`` and the like of y."""

    frequency_scale = 1.0
    """Factor of the frequencies: the bandwidth is in the points."""


@dataclass(frozen=True, kw_only=True)
class ArcCosine(SphericalKernel):
    """Arc-cosine kernel of order 0, 1 or 2 between points on the sphere, with values from 0 to 1.

    Points are mapped to unit vectors ``u = (bandwidth, x) / |(bandwidth, x)|``: a constant column
    is the bias of a layer of neurons, and with a small bandwidth only the direction of x counts.
    Between u and v at the angle t it is ``J_n(t) / J_n(0)`` (Cho and Saul 2009, equation 3), with

    ``J_0 = pi - t``, ``J_1 = sin(t) + (pi - t) cos(t)`` and
    ``J_2 = 3 sin(t) cos(t) + (pi - t) (1 + 2 cos(t)^2)``.

    A random feature is a neuron with normal weights w: a step, ramp or squared ramp of ``w.u``,
    ``max(w.u, 0)^order`` up to its factor. Frequencies are those of the Gaussian kernel, so every
    sampler draws them, and columns may come late.

    Parameters
    ----------
    order : {0, 1, 2}, default 1
    bandwidth : float, default 1
        In the unit of the columns: the constant column.

    Examples
    --------
    >>> ArcCosine(order=0).pairwise([[0.0]], [[0.0], [1.0]]).round(4)
    array([[1.  , 0.75]])
    """

    name = "arc_cosine"
    law = Law.NORMAL

    order: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.order) or self.order not in (0, 1, 2):
            raise InvalidInput(f"order={shown(self.order)} of ArcCosine must be 0, 1 or 2")
        curve = (Curve.STEP, Curve.RAMP, Curve.SQUARED_RAMP)[self.order]
        object.__setattr__(self, "curve", curve)

    @property
    def amplitude(self) -> float:
        """Factor of the features: with it they have the mean square 1."""
        return math.sqrt(2.0 / (1, 1, 3)[self.order]) * (2.0 * math.pi) ** self.order

    def of_products(self, T: Any, columns: int, xp: Any) -> Any:
        """Return the kernel from the cosines of the angles."""
        c = xp.clip(T, -1.0, 1.0)
        angle = xp.arccos(c)
        if self.order == 0:
            return 1.0 - angle / math.pi
        sine = xp.sqrt((1.0 - c) * (1.0 + c))
        if self.order == 1:
            return (sine + (math.pi - angle) * c) / math.pi
        return (3.0 * sine * c + (math.pi - angle) * (1.0 + 2.0 * c * c)) / (3.0 * math.pi)

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON data."""
        return {"kernel": self.name, "bandwidth": self.bandwidth, "order": self.order}


@dataclass(frozen=True, kw_only=True)
class Zonal(SphericalKernel):
    """Rotation-invariant kernel on the sphere, a mean of zonal harmonics (Dai et al. 2014, §2).

    Points are mapped to unit vectors ``u = (bandwidth, x) / |(bandwidth, x)|`` of q columns, one
    more than x has. Every rotation-invariant kernel on their sphere is a sum ``sum_n b_n P_n(u.v)``
    with weights that are not negative (Schoenberg 1942; Fourier series on the sphere, Schoelkopf
    and Smola 2002), where P_n is Gegenbauer's polynomial of degree n in q dimensions with
    ``P_n(1) = 1``: Legendre's where q = 3. Here the weights are divided by their sum, so that
    ``k(x, x) = 1``.

    A random feature is ``sqrt(N_n) P_n(w.u)`` with w uniform on the sphere, a degree n drawn with
    probability b_n, and N_n harmonics of that degree: by their addition theorem the product of two
    has the mean ``P_n(u.v)``. It depends on the number of columns, so columns that come after the
    first step are refused.

    Parameters
    ----------
    weights : sequence of float, default (1, 1, 1, 1)
        b_0, b_1, ..., of the degrees up to 10 at most; none is negative, and not all are 0.
    bandwidth : float, default 1
        In the unit of the columns: the constant column. With a small one only the direction of x
        counts.

    Examples
    --------
    >>> Zonal(weights=[0, 1]).pairwise([[0.0]], [[0.0], [1.0]]).round(4)
    array([[1.    , 0.7071]])
    """

    name = "zonal"
    law = Law.SPHERE
    amplitude = 1.0
    curve = Curve.IDENTITY
    takes_late_columns = False

    weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = isinstance(self.weights, list | tuple | np.ndarray)
        found = tuple(self.weights) if listed else ()
        numbers = all(
            isinstance(b, int | float | np.number) and not isinstance(b, bool) and 0 <= b < math.inf
            for b in found
        )
        if not numbers or not 1 <= len(found) <= HIGHEST + 1 or not is_positive(sum(found)):
            raise InvalidInput(
                f"weights={shown(self.weights)} of Zonal must be 1 to {HIGHEST + 1} numbers of at "
                "least 0, for the degrees 0, 1, ..., and not all 0"
            )
        object.__setattr__(self, "weights", tuple(float(b) for b in found))

    @classmethod
    def of(
        cls,
        function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        *,
        columns: int,
        degrees: int = 6,
        bandwidth: float = 1.0,
    ) -> Self:
        """Return the kernel whose weights are those of a function of ``u.v``, its Fourier series.

        Parameters
        ----------
        function : callable
            Takes float64 cosines (m,) in [-1, 1] and returns the kernel (m,).
        columns : int
            Of x, at least 1; the weights of a function depend on it.
        degrees : int, default 6
            Highest degree, up to 10. What is of higher degree is left out.
        bandwidth : float, default 1

        Raises
        ------
        InvalidInput
            If a weight is negative, so that the function is not a kernel on this sphere.

        Examples
        --------
        >>> Zonal.of(lambda t: (1 + t) ** 2 / 4, columns=2, degrees=2).weights
        (0.333333333333, 0.5, 0.166666666667)
        """
        q, terms = columns + 1, degrees + 1
        nodes, quadrature = _gegenbauer_nodes(q)
        values = np.asarray(function(nodes), np.float64) * quadrature
        P = gegenbauer(nodes, terms, q, np)
        found = [harmonics(n, q) * float(values @ P[n]) for n in range(terms)]
        scale = max(map(abs, found))
        if min(found) < -1e-9 * scale:
            worst = int(np.argmin(found))
            raise InvalidInput(
                f"the function is not a kernel on the sphere of {q} columns: its weight of degree "
                f"{worst} is {found[worst]:g}, below 0"
            )
        weights = tuple(0.0 if b < 1e-12 * scale else round(b, 12) for b in found)
        return cls(weights=weights, bandwidth=bandwidth)

    def of_products(self, T: Any, columns: int, xp: Any) -> Any:
        """Return the mean of Gegenbauer's polynomials."""
        P, total = gegenbauer(T, len(self.weights), columns, xp), sum(self.weights)
        return sum((b / total) * p for b, p in zip(self.weights, P, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON data."""
        return {
            "kernel": self.name,
            "bandwidth": self.bandwidth,
            "weights": list(self.weights),
        }

    def polynomials(self, columns: int) -> NDArray[np.float64]:
        """Return the coefficients of ``sqrt(N_n) P_n`` for mapped points of so many columns.

        Returns
        -------
        float64 array of shape (degrees, degrees)
            A row for each degree n, from the constant on.
        """
        terms = len(self.weights)
        table = np.zeros((terms, terms))
        monomials = np.eye(terms + 1)  # polynomials as rows; multiplication by t is a shift
        P = _recurrence(monomials[0], lambda p: np.roll(p, 1), terms, columns)
        for n, p in enumerate(P):
            table[n] = math.sqrt(harmonics(n, columns)) * p[:terms]
        return table


def gegenbauer(t: Any, terms: int, q: int, xp: Any) -> list[Any]:
    """Return P_0(t), P_1(t), ... of q dimensions with ``P_n(1) = 1``, so many of them.

    Where q = 1 the sphere is two points, and they are the powers of t.
    """
    return _recurrence(xp.ones_like(t), lambda p: t * p, terms, q)


def _recurrence(one: Any, times_t: Callable[[Any], Any], terms: int, q: int) -> list[Any]:
    """Return polynomials by ``(n + q - 2) P_(n+1) = (2 n + q - 2) t P_n - n P_(n-1)``."""
    found = [one, times_t(one)]
    for n in range(1, terms - 1):
        raised = times_t(found[n])
        if q > 1:
            raised = ((2 * n + q - 2) * raised - n * found[n - 1]) / (n + q - 2)
        found.append(raised)
    return found[:terms]


def harmonics(n: int, q: int) -> int:
    """Return the number of independent harmonics of degree n in q dimensions, 1 where q = 1.

    Examples
    --------
    >>> [harmonics(n, 3) for n in range(4)], [harmonics(n, 2) for n in range(4)]
    ([1, 3, 5, 7], [1, 2, 2, 2])
    """
    if q == 1 or n == 0:
        return 1
    return math.comb(q + n - 1, n) - (math.comb(q + n - 3, n - 2) if n > 1 else 0)


def _gegenbauer_nodes(q: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights, which add up to 1, of Gauss's quadrature for ``u.v`` on the sphere.

    The density of u.v for a uniform u is that of ``(1 - t^2)^((q - 3) / 2)``; the nodes are the
    eigenvalues of the matrix of its polynomials' recurrence (Golub and Welsch 1969). SciPy's
    `roots_jacobi` has none of such large exponents as 20,000 columns ask for.
    """
    if not is_whole(q) or q < 2:
        raise InvalidInput(f"columns={q - 1!r} must be a whole number of at least 1")
    half, k = (q - 2) / 2.0, np.arange(2, _NODES)
    beside = np.sqrt(k * (k + 2.0 * half - 1.0) / (4.0 * (k + half) * (k + half - 1.0)))
    beside = np.concatenate([[math.sqrt(1.0 / (2.0 * (1.0 + half)))], beside])
    nodes, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return nodes, vectors[0] ** 2
