"""Kernels that depend on the difference of two points alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamk.backends import KernelCode, Law
from streamk.errors import InvalidInput, shown
from streamk.kernels.base import BandwidthKernel, is_positive


@dataclass(frozen=True, kw_only=True, init=False)
class _GammaKernel(BandwidthKernel):
    """A kernel whose scale may be given as gamma."""

    def __init__(self, *, bandwidth: float | None = None, gamma: float | None = None) -> None:
        name = type(self).__name__
        if gamma is not None and bandwidth is not None:
            raise InvalidInput(f"{name} takes bandwidth= or gamma=, not both")
        if gamma is not None:
            if not is_positive(gamma):
                raise InvalidInput(f"gamma={shown(gamma)} of {name} must be a positive number")
            bandwidth = self._of_gamma(gamma)
        object.__setattr__(self, "bandwidth", 1.0 if bandwidth is None else bandwidth)
        self.__post_init__()

    @staticmethod
    def _of_gamma(gamma: float) -> float:
        """Return the bandwidth."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, init=False)
class Gaussian(_GammaKernel):
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

    @staticmethod
    def _of_gamma(gamma: float) -> float:
        return 1.0 / math.sqrt(2.0 * gamma)


@dataclass(frozen=True, kw_only=True, init=False)
class Laplacian(_GammaKernel):
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

    @staticmethod
    def _of_gamma(gamma: float) -> float:
        return 1.0 / gamma


@dataclass(frozen=True, kw_only=True)
class PowerExponential(BandwidthKernel):
    """Power exponential kernel of exponent 1/2, ``exp(-sum_j sqrt(|x_j - y_j| / bandwidth))``.

    A product over the columns whose functions are rougher than the Laplacian's: they follow steps
    in single columns, as those of trees do. The correlation function of kriging ``exp(-sum_j
    theta_j |x_j - y_j|^p)`` (Sacks, Welch, Mitchell and Wynn 1989, equation 9) with p = 1/2. It has
    no random features.

    Parameters
    ----------
    bandwidth : float, default 1
        Of d columns of deviation 1, the sum for two points is about 1 with d^2.

    Examples
    --------
    >>> PowerExponential().pairwise([[0.0]], [[0.0], [1.0], [4.0]]).round(4)
    array([[1.    , 0.3679, 0.1353]])
    """

    name = "power_exponential"
    code = KernelCode.POWER_EXPONENTIAL
    law = None
    isotropic = False


@dataclass(frozen=True, kw_only=True)
class Matern(BandwidthKernel):
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
            raise InvalidInput(f"nu={shown(self.nu)} of Matern must be 0.5, 1.5 or 2.5")

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the multivariate t law, 2 nu."""
        return round(2 * self.nu)

    @property
    def parameter(self) -> float:
        """Return nu."""
        return self.nu


@dataclass(frozen=True, kw_only=True)
class RationalQuadratic(BandwidthKernel):
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
        if (
            not is_positive(self.alpha)
            or self.alpha > 32
            or 2 * self.alpha != round(2 * self.alpha)
        ):
            raise InvalidInput(
                f"alpha={shown(self.alpha)} of RationalQuadratic must be a multiple of 1/2, at"
                " most 32"
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
class Cauchy(BandwidthKernel):
    """Product Cauchy kernel ``prod_j 1 / (1 + (x_j - y_j)^2 / bandwidth^2)``.

    Parameters
    ----------
    bandwidth : float, default 1
    """

    name = "cauchy"
    code = KernelCode.CAUCHY
    law = Law.LAPLACE
    isotropic = False
