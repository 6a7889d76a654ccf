"""Kernels: exact values, and the spectral law from which their random features are drawn.

By Bochner's theorem (Dai et al. 2014, Theorem 2) a shift-invariant kernel is the expectation of
``2 cos(w.x + b) cos(w.y + b)`` over a frequency ``w`` from the kernel's spectral law and a uniform
phase ``b``. Each class here pairs the closed form with that law:

=================  ==================================  =========================================
kernel             k(x, y)                             law of one frequency w
=================  ==================================  =========================================
Gaussian           ``exp(-|x-y|^2 / (2 s^2))``         normal / s
Laplacian          ``exp(-|x-y|_1 / s)``               independent Cauchy / s
Matern             Matern of ``r = |x-y| / s``         multivariate t, 2 nu degrees of freedom / s
RationalQuadratic  ``(1 + |x-y|^2/(2 a s^2))^-a``      normal * root of chi-squared(2 a)/(2 a) / s
Cauchy             ``prod 1 / (1 + (x_j-y_j)^2/s^2)``  independent Laplace / s
NTK                that of a ReLU network              none: it has no random features
Linear             ``x.y``                             normal, and the feature is w.x without cosine
=================  ==================================  =========================================

Exact values come from `streamk.backends`: a distance is summed up from the columns' differences, so
that equal points are at distance 0 and their kernel is exactly 1. The neural tangent kernel is a
function of the distance between unit vectors, to which `Kernel.mapped` takes the points first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk import backends
from streamk.backends import DEEPEST, Backend, KernelCode, Law, select
from streamk.backends.threads import divide
from streamk.errors import InvalidInput

Matrix = NDArray[np.float64]


_ROWS = 32
"""Rows that the compiled product evaluates together; threads share the others by so many."""


def _points(X: ArrayLike, name: str, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    points = np.ascontiguousarray(X, dtype=dtype)
    if np.ndim(X) != 2:
        raise InvalidInput(
            f"{name} must be a matrix of shape (points, columns), not of shape {np.shape(X)}; "
            "a single point x is passed as [x]"
        )
    return points


def _check_dtype(dtype: DTypeLike) -> None:
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InvalidInput(f"dtype={dtype!r} of kernels must be float32 or float64")


def _same_columns(X: NDArray[Any], Y: NDArray[Any]) -> None:
    if X.shape[1] != Y.shape[1]:
        raise InvalidInput(
            f"X has {X.shape[1]} columns and Y has {Y.shape[1]}; they must be the same columns"
        )


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A positive definite kernel with ``k(x, x) = 1`` unless said otherwise.

    Subclasses define the class attributes below and their options; all else follows.
    """

    name: ClassVar[str]
    code: ClassVar[KernelCode]
    law: ClassVar[Law | None]
    """None if it has no random features."""
    isotropic: ClassVar[bool] = True
    """Whether it depends on ``|x|_2``, ``|y|_2`` and ``|x-y|_2`` only."""
    cosine: ClassVar[bool] = True
    """Whether a feature is ``sqrt(2) cos(w.x + b)``; otherwise it is ``w.x``."""
    shift_invariant: ClassVar[bool] = True
    """Whether it depends on ``x - y`` only."""
    heavy_tailed: ClassVar[bool] = False
    """Whether phases can be so large that single precision loses the turn."""

    @property
    def frequency_scale(self) -> float:
        """Factor from the standard law to this kernel's frequencies (1 / bandwidth)."""
        return 1.0

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the chi-squared variable in the law, 0 where there is none."""
        return 0

    @property
    def parameter(self) -> float:
        """Number that gives the kernel its shape besides the scale, 0 if there is none."""
        return 0.0

    def mapped(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return the points (n, d) as the loops of `streamk.backends` take them.

        These are the points themselves, of all kernels but NTK. Columns of zeros that are appended
        to what is returned stand for columns of zeros that are appended to the points.
        """
        return points

    def pairwise(
        self, X: ArrayLike, Y: ArrayLike | None = None, *, dtype: DTypeLike = np.float64
    ) -> NDArray[Any]:
        """Kernel matrix between the rows of two sets of points.

        Parameters
        ----------
        X : array of shape (n, d)
        Y : array of shape (m, d), optional
            `X` itself by default; the diagonal is then exact.
        dtype : {float64, float32}, default float64
            In which the kernels are evaluated; the error of float32 is that of `product`.

        Returns
        -------
        array of shape (n, m)
            Of that dtype.

        Raises
        ------
        InvalidInput
            If an argument is not a matrix, the numbers of columns differ, or the dtype is another.

        Examples
        --------
        >>> from streamk.kernels import Gaussian
        >>> Gaussian(bandwidth=1.0).pairwise([[0.0], [1.0]]).round(4)
        array([[1.    , 0.6065],
               [0.6065, 1.    ]])
        """
        _check_dtype(dtype)
        A = _points(X, "X", dtype)
        B = A if Y is None else _points(Y, "Y", dtype)
        _same_columns(A, B)
        P = self.mapped(A)
        Q = P if Y is None else self.mapped(B)
        K = np.empty((len(P), len(Q)), dtype)
        twin, scale = select(), self.frequency_scale

        def fill(rows: slice) -> None:
            twin.pairwise(self.code, self.parameter, scale, P[rows], Q, K[rows])

        divide(len(P), P.size * len(Q), fill)
        if Y is None:
            np.fill_diagonal(K, self.diagonal(A))
        return K

    def product(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        V: ArrayLike,
        *,
        dtype: DTypeLike = np.float64,
        backend: str = "auto",
        threads: int | None = None,
    ) -> Matrix:
        """Return ``pairwise(X, Y) @ V`` without storing the kernel matrix.

        Each row's result is the same, bit for bit, in whatever batch the row comes and however
        many threads share the work. Beside the result it takes the memory of a few tiles, and with
        NTK that of the mapped points.

        Parameters
        ----------
        X : array of shape (n, d)
        Y : array of shape (m, d)
        V : array of shape (m,) or (m, outputs)
        dtype : {float64, float32}, default float64
            Of the kernel values and what they are multiplied with; the products are summed up in
            it over 64 points of `Y`, and in float64 beyond. In float32 a kernel value is wrong by
            at most ``1.2e-7 (d + 3)``, RationalQuadratic by ``1.2e-7 (d + 4 alpha + 3)``, Linear by
            ``1.2e-7 d |x| |y|``; mostly the roundings cancel and a few 1e-7 remain. Values below
            1.2e-38 are 0, and a squared distance beyond 3e38 is infinite. NTK is wrong by at most
            ``1.2e-7 (d + depth + 4) / cos(angle / 2)``, and by the root of the numerator where the
            mapped points are nearly opposite, which takes points farther than many bandwidths.
        backend : str, default "auto"
            See `streamk.backends.select`.
        threads : int, optional
            All cores by default.

        Returns
        -------
        float64 array of shape (n,) or (n, outputs)

        Raises
        ------
        InvalidInput
            If the shapes do not fit or the dtype is another.
        BackendUnavailable
            If the backend's package is not installed.

        Examples
        --------
        >>> from streamk.kernels import Gaussian
        >>> Gaussian(bandwidth=1.0).product([[0.0]], [[0.0], [1.0]], [1.0, 2.0]).round(4)
        array([2.2131])
        """
        _check_dtype(dtype)
        A, B = _points(X, "X", dtype), _points(Y, "Y", dtype)
        _same_columns(A, B)
        v = np.ascontiguousarray(V, dtype=dtype)
        if np.ndim(V) not in (1, 2) or len(v) != len(B):
            raise InvalidInput(
                f"V must have a row for each of the {len(B)} points of Y, shape ({len(B)},) or "
                f"({len(B)}, outputs), not {np.shape(V)}"
            )
        twin = select(backend)
        there = (
            twin.put(array) for array in (self.mapped(A), self.mapped(B), v.reshape(len(B), -1))
        )
        F: Matrix = twin.get(self.product_on(twin, *there, threads=threads))
        return F if np.ndim(V) == 2 else F[:, 0]

    def product_on(
        self, backend: Backend, X: Any, Y: Any, V: Any, *, threads: int | None = None
    ) -> Any:
        """Return the product as of `product`, of arrays on a backend's device.

        Parameters
        ----------
        backend : Backend
        X, Y, V : arrays of shapes (n, d), (m, d) and (m, outputs)
            On the device, all float32 or all float64, and contiguous; X and Y as `mapped` gives
            them.
        threads : int, optional

        Returns
        -------
        float64 array of shape (n, outputs)
            On the device, which may still be at work on it.
        """
        out = backend.xp.empty((len(X), V.shape[1]))
        code, parameter, scale = self.code, self.parameter, self.frequency_scale

        def fill(some: slice) -> None:
            rows = slice(_ROWS * some.start, _ROWS * some.stop)
            backend.pairwise_product(code, parameter, scale, X[rows], Y, V, out[rows])

        # A device other than the host divides work by itself.
        flops = len(X) * len(Y) * (X.shape[1] + V.shape[1])
        divide(-(-len(X) // _ROWS), flops, fill, threads if backend.xp is np else 1)
        return out

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``k(x, x)`` of each row of `X` (n, d), float64 of shape (n,)."""
        return np.ones(len(_points(X, "X")))

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON data; `from_json` turns it back.

        >>> from streamk.kernels import Matern
        >>> Matern(nu=1.5, bandwidth=2.0).to_json()
        {'kernel': 'matern', 'bandwidth': 2.0, 'nu': 1.5}
        """
        return {"kernel": self.name, **vars(self)}


@dataclass(frozen=True, kw_only=True)
class _Scaled(Kernel):
    """A kernel with a length scale."""

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        if not _positive(self.bandwidth):
            raise InvalidInput(
                f"bandwidth={self.bandwidth!r} of {type(self).__name__} must be a positive number"
            )

    @property
    def frequency_scale(self) -> float:
        return 1.0 / self.bandwidth


def _positive(number: Any) -> bool:
    return isinstance(number, int | float | np.number) and bool(0 < number < math.inf)


def _positive_gamma(kernel: str, gamma: float, bandwidth: float | None) -> None:
    if bandwidth is not None:
        raise InvalidInput(f"{kernel} takes bandwidth= or gamma=, not both")
    if not _positive(gamma):
        raise InvalidInput(f"gamma={gamma!r} of {kernel} must be a positive number")


@dataclass(frozen=True, kw_only=True, init=False)
class Gaussian(_Scaled):
    """Gaussian kernel ``exp(-|x-y|^2 / (2 bandwidth^2))``.

    Parameters
    ----------
    bandwidth : float, default 1
        In the unit of the columns.
    gamma : float, optional
        The same as ``bandwidth = 1 / sqrt(2 gamma)``: the kernel is ``exp(-gamma |x-y|^2)``.

    Examples
    --------
    >>> Gaussian(gamma=0.5)
    Gaussian(bandwidth=1.0)
    """

    name = "gaussian"
    code = KernelCode.GAUSSIAN
    law = Law.NORMAL

    def __init__(self, *, bandwidth: float | None = None, gamma: float | None = None) -> None:
        if gamma is not None:
            _positive_gamma("Gaussian", gamma, bandwidth)
            bandwidth = 1.0 / math.sqrt(2.0 * gamma)
        object.__setattr__(self, "bandwidth", 1.0 if bandwidth is None else bandwidth)
        self.__post_init__()


@dataclass(frozen=True, kw_only=True, init=False)
class Laplacian(_Scaled):
    """L1 Laplacian kernel ``exp(-|x-y|_1 / bandwidth)`` (the one of the MEKA paper).

    The Euclidean Laplace kernel of the EigenPro papers is ``Matern(nu=0.5)``.

    Parameters
    ----------
    bandwidth : float, default 1
    gamma : float, optional
        The same as ``bandwidth = 1 / gamma``.
    """

    name = "laplacian"
    code = KernelCode.LAPLACIAN
    law = Law.CAUCHY
    isotropic = False
    heavy_tailed = True

    def __init__(self, *, bandwidth: float | None = None, gamma: float | None = None) -> None:
        if gamma is not None:
            _positive_gamma("Laplacian", gamma, bandwidth)
            bandwidth = 1.0 / gamma
        object.__setattr__(self, "bandwidth", 1.0 if bandwidth is None else bandwidth)
        self.__post_init__()


@dataclass(frozen=True, kw_only=True)
class Matern(_Scaled):
    """Matern kernel of smoothness 1/2, 3/2 or 5/2 in ``r = |x-y|_2 / bandwidth``.

    ``nu=0.5`` is ``exp(-r)``, the Laplace kernel of the EigenPro papers; ``nu=1.5`` is
    ``(1 + sqrt(3) r) exp(-sqrt(3) r)``; ``nu=2.5`` is
    ``(1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)``.

    Parameters
    ----------
    nu : {0.5, 1.5, 2.5}, default 1.5
    bandwidth : float, default 1
    """

    name = "matern"
    code = KernelCode.MATERN
    law = Law.STUDENT
    heavy_tailed = True

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise InvalidInput(f"nu={self.nu!r} of Matern must be 0.5, 1.5 or 2.5")

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the multivariate t law, 2 nu."""
        return round(2 * self.nu)

    @property
    def parameter(self) -> float:
        """Return nu."""
        return self.nu


@dataclass(frozen=True, kw_only=True)
class RationalQuadratic(_Scaled):
    """Rational quadratic kernel ``(1 + |x-y|_2^2 / (2 alpha bandwidth^2))^-alpha``.

    A mixture of Gaussian kernels of all bandwidths: a small alpha lets distant points count, and
    with a large one it is nearly the Gaussian kernel. Its frequencies are those of Gaussian kernels
    whose ``1 / bandwidth^2`` is gamma distributed, which has no heavy tail whatever alpha is.

    Parameters
    ----------
    alpha : float, default 1
        A multiple of 1/2 up to 32, because frequencies are made of 2 alpha normals.
    bandwidth : float, default 1

    Examples
    --------
    >>> RationalQuadratic(alpha=0.5).pairwise([[0.0]], [[0.0], [1.0]]).round(4)
    array([[1.    , 0.7071]])
    """

    name = "rational_quadratic"
    code = KernelCode.RATIONAL_QUADRATIC
    law = Law.RATIONAL

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _positive(self.alpha) or self.alpha > 32 or 2 * self.alpha != round(2 * self.alpha):
            raise InvalidInput(
                f"alpha={self.alpha!r} of RationalQuadratic must be a multiple of 1/2, at most 32"
            )

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the chi-squared law, 2 alpha."""
        return round(2 * self.alpha)

    @property
    def parameter(self) -> float:
        """Return alpha."""
        return self.alpha


@dataclass(frozen=True, kw_only=True)
class Cauchy(_Scaled):
    """Product Cauchy kernel ``prod_j 1 / (1 + (x_j - y_j)^2 / bandwidth^2)``.

    Parameters
    ----------
    bandwidth : float, default 1
    """

    name = "cauchy"
    code = KernelCode.CAUCHY
    law = Law.LAPLACE
    isotropic = False


@dataclass(frozen=True, kw_only=True)
class NTK(_Scaled):
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

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

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
        whole = isinstance(self.depth, int | np.integer) and not isinstance(self.depth, bool)
        if not whole or not 1 <= self.depth <= DEEPEST:
            raise InvalidInput(
                f"depth={self.depth!r} of NTK must be a whole number from 1 to {DEEPEST}: its "
                "hidden layers"
            )

    @property
    def parameter(self) -> float:
        """Return the depth."""
        return float(self.depth)

    def mapped(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return the unit vectors of (bandwidth, x), the constant column first: (n, d + 1).

        They are of the type of the points, float32 or float64, and those of a point are the same,
        bit for bit, in whatever batch it comes and whatever columns of zeros follow.
        """
        out = np.empty((len(points), points.shape[1] + 1), points.dtype)
        to_sphere = backends.twin("tangent").to_sphere

        def fill(rows: slice) -> None:
            to_sphere(points[rows], self.bandwidth, out[rows])

        divide(len(points), 4 * points.size, fill)
        return out


@dataclass(frozen=True, kw_only=True)
class Linear(Kernel):
    """Linear kernel ``x.y``, whose features are random projections; ``k(x, x) = |x|^2``."""

    name = "linear"
    code = KernelCode.LINEAR
    law = Law.NORMAL
    cosine = False
    shift_invariant = False

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``|x|^2`` of each row of `X` (n, d), float64 of shape (n,)."""
        points = _points(X, "X")
        return np.asarray(np.einsum("ij,ij->i", points, points))


KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel
    for kernel in (Gaussian, Laplacian, Matern, RationalQuadratic, Cauchy, NTK, Linear)
}


ALIASES = {"rbf": Gaussian.name}
"""Other names of kernels: scikit-learn's."""


def by_name(name: str, **options: Any) -> Kernel:
    """Make a kernel from its name and options.

    Raises
    ------
    InvalidInput
        If there is no such kernel or it has no such option.

    Examples
    --------
    >>> by_name("matern", nu=0.5)
    Matern(bandwidth=1.0, nu=0.5)
    >>> by_name("rbf", gamma=0.5)
    Gaussian(bandwidth=1.0)
    """
    kind = KERNELS.get(ALIASES.get(name, name))
    if kind is None:
        raise InvalidInput(f"no kernel is called {name!r}; there are {', '.join(KERNELS)}")
    try:
        return kind(**options)
    except TypeError as error:
        raise InvalidInput(
            f"options {sorted(options)} do not fit kernel {name!r}: {error}"
        ) from None


def from_json(data: dict[str, Any]) -> Kernel:
    """Make the kernel that `Kernel.to_json` described.

    >>> from_json(Gaussian(bandwidth=3.0).to_json())
    Gaussian(bandwidth=3.0)
    """
    options = dict(data)
    return by_name(options.pop("kernel", "?"), **options)
