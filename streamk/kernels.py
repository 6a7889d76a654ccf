"""Kernels: exact values, and the spectral law from which their random features are drawn.

By Bochner's theorem (Dai et al. 2014, Theorem 2) a shift-invariant kernel is the expectation of
``2 cos(w.x + b) cos(w.y + b)`` over a frequency ``w`` from the kernel's spectral law and a uniform
phase ``b``. Each class here pairs the closed form with that law:

=============  ==================================  =========================================
kernel         k(x, y)                             law of one frequency w
=============  ==================================  =========================================
Gaussian       ``exp(-|x-y|^2 / (2 s^2))``         normal / s
Laplacian      ``exp(-|x-y|_1 / s)``               independent Cauchy / s
Matern(nu)     Matern of ``r = |x-y| / s``         multivariate t, 2 nu degrees of freedom / s
Cauchy         ``prod 1 / (1 + (x_j-y_j)^2/s^2)``  independent Laplace / s
Linear         ``x.y``                             normal, and the feature is w.x without cosine
=============  ==================================  =========================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import Law
from streamk.errors import InvalidInput

Matrix = NDArray[np.float64]


def _points(X: ArrayLike, name: str) -> Matrix:
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2:
        raise InvalidInput(
            f"{name} must be a matrix of shape (points, columns), not of shape {points.shape}; "
            "a single point x is passed as [x]"
        )
    return points


def _squared_distances(X: Matrix, Y: Matrix) -> Matrix:
    # Around a common center the cancellation in |x|^2 + |y|^2 - 2 x.y stays small.
    center = Y.mean(axis=0) if len(Y) else 0.0
    X, Y = X - center, Y - center
    D: Matrix = (X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1)[None, :] - 2.0 * (X @ Y.T)
    return np.maximum(D, 0.0, out=D)


@dataclass(frozen=True, kw_only=True)
class Kernel(ABC):
    """A positive definite kernel with ``k(x, x) = 1`` unless said otherwise.

    Subclasses define `_evaluate` and the class attributes below; all else follows.
    """

    name: ClassVar[str]
    law: ClassVar[Law]
    cosine: ClassVar[bool] = True
    """Whether a feature is ``sqrt(2) cos(w.x + b)``; otherwise it is ``w.x``."""
    heavy_tailed: ClassVar[bool] = False
    """Whether phases can be so large that single precision loses the turn."""

    @property
    def frequency_scale(self) -> float:
        """Factor from the standard law to this kernel's frequencies (1 / bandwidth)."""
        return 1.0

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the multivariate t law, 0 for the other laws."""
        return 0

    def pairwise(self, X: ArrayLike, Y: ArrayLike | None = None) -> Matrix:
        """Kernel matrix between the rows of two sets of points.

        Parameters
        ----------
        X : array of shape (n, d)
        Y : array of shape (m, d), optional
            `X` itself by default; the diagonal is then exact.

        Returns
        -------
        float64 array of shape (n, m)

        Raises
        ------
        InvalidInput
            If an argument is not a matrix or the numbers of columns differ.

        Examples
        --------
        >>> from streamk.kernels import Gaussian
        >>> Gaussian(bandwidth=1.0).pairwise([[0.0], [1.0]]).round(4)
        array([[1.    , 0.6065],
               [0.6065, 1.    ]])
        """
        A = _points(X, "X")
        B = A if Y is None else _points(Y, "Y")
        if A.shape[1] != B.shape[1]:
            raise InvalidInput(
                f"X has {A.shape[1]} columns and Y has {B.shape[1]}; they must be the same columns"
            )
        K = self._evaluate(A, B)
        if Y is None:
            np.fill_diagonal(K, self.diagonal(A))
        return K

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``k(x, x)`` of each row of `X` (n, d), float64 of shape (n,)."""
        return np.ones(len(_points(X, "X")))

    @abstractmethod
    def _evaluate(self, X: Matrix, Y: Matrix) -> Matrix:
        """Return the kernel between the rows of two checked float64 matrices."""

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
    law = Law.NORMAL

    def __init__(self, *, bandwidth: float | None = None, gamma: float | None = None) -> None:
        if gamma is not None:
            _positive_gamma("Gaussian", gamma, bandwidth)
            bandwidth = 1.0 / math.sqrt(2.0 * gamma)
        object.__setattr__(self, "bandwidth", 1.0 if bandwidth is None else bandwidth)
        self.__post_init__()

    def _evaluate(self, X: Matrix, Y: Matrix) -> Matrix:
        D = _squared_distances(X, Y)
        D *= -0.5 / self.bandwidth**2
        return np.exp(D, out=D)


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
    law = Law.CAUCHY
    heavy_tailed = True

    def __init__(self, *, bandwidth: float | None = None, gamma: float | None = None) -> None:
        if gamma is not None:
            _positive_gamma("Laplacian", gamma, bandwidth)
            bandwidth = 1.0 / gamma
        object.__setattr__(self, "bandwidth", 1.0 if bandwidth is None else bandwidth)
        self.__post_init__()

    def _evaluate(self, X: Matrix, Y: Matrix) -> Matrix:
        D = np.zeros((len(X), len(Y)))
        for x, y in zip(X.T, Y.T, strict=True):
            D -= np.abs(x[:, None] - y[None, :])
        D /= self.bandwidth
        return np.exp(D, out=D)


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

    def _evaluate(self, X: Matrix, Y: Matrix) -> Matrix:
        r = np.sqrt(2.0 * self.nu * _squared_distances(X, Y)) / self.bandwidth
        K = np.exp(-r)
        if self.nu == 1.5:
            K *= 1.0 + r
        elif self.nu == 2.5:
            K *= 1.0 + r + r * r / 3.0
        return K


@dataclass(frozen=True, kw_only=True)
class Cauchy(_Scaled):
    """Product Cauchy kernel ``prod_j 1 / (1 + (x_j - y_j)^2 / bandwidth^2)``.

    Parameters
    ----------
    bandwidth : float, default 1
    """

    name = "cauchy"
    law = Law.LAPLACE

    def _evaluate(self, X: Matrix, Y: Matrix) -> Matrix:
        K = np.ones((len(X), len(Y)))
        for x, y in zip(X.T, Y.T, strict=True):
            K /= 1.0 + ((x[:, None] - y[None, :]) / self.bandwidth) ** 2
        return K


@dataclass(frozen=True, kw_only=True)
class Linear(Kernel):
    """Linear kernel ``x.y``, whose features are random projections; ``k(x, x) = |x|^2``."""

    name = "linear"
    law = Law.NORMAL
    cosine = False

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``|x|^2`` of each row of `X` (n, d), float64 of shape (n,)."""
        points = _points(X, "X")
        return np.asarray(np.einsum("ij,ij->i", points, points))

    def _evaluate(self, X: Matrix, Y: Matrix) -> Matrix:
        return X @ Y.T


KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Gaussian, Laplacian, Matern, Cauchy, Linear)
}


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
    """
    if name not in KERNELS:
        raise InvalidInput(f"no kernel is called {name!r}; there are {', '.join(KERNELS)}")
    try:
        return KERNELS[name](**options)
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
