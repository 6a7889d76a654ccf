"""Kernels: exact values, and the spectral law from which their random features are drawn.

By Bochner's theorem (Dai et al. 2014, Theorem 2) a shift-invariant kernel is the expectation of
``2 cos(w.x + b) cos(w.y + b)`` over a frequency ``w`` from the kernel's spectral law and a uniform
phase ``b``. Each class here pairs the closed form with that law:

=================  ==================================  =========================================
kernel             k(x, y)                             law of one frequency w
=================  ==================================  =========================================
Gaussian           ``exp(-|x-y|^2 / (2 s^2))``         normal / s
Laplacian          ``exp(-|x-y|_1 / s)``               independent Cauchy / s
PowerExponential   ``exp(-sum sqrt(|x_j-y_j| / s))``   none: it has no random features
Matern             Matern of ``r = |x-y| / s``         multivariate t, 2 nu degrees of freedom / s
RationalQuadratic  ``(1 + |x-y|^2/(2 a s^2))^-a``      normal * root of chi-squared(2 a)/(2 a) / s
Cauchy             ``prod 1 / (1 + (x_j-y_j)^2/s^2)``  independent Laplace / s
NTK                that of a ReLU network              none: it has no random features
Linear             ``x.y``                             normal, and the feature is w.x without cosine
=================  ==================================  =========================================

Others are the mean of products of functions that are not waves (Theorem 3 there), u and v being
points with a constant column, for ArcCosine and Zonal unit vectors:

=================  ==================================  =========================================
kernel             k(x, y)                             feature
=================  ==================================  =========================================
Polynomial         ``(x.y / s^2 + c)^p``               tensor sketch: random signs and buckets
ArcCosine          ``J_n(angle of u, v) / J_n(0)``     ``max(w.u, 0)^n``, w normal
Zonal              ``sum b_n P_n(u.v) / sum b_n``      ``sqrt(N_n) P_n(w.u)``, w uniform
Composed           ``k(psi(x), psi(y))``               that of k at psi(x)
=================  ==================================  =========================================

Exact values come from `streamk.backends`: a distance is summed up from the columns' differences, so
that equal points are at distance 0 and their kernel is exactly 1. The neural tangent kernel is a
function of the distance between unit vectors, to which `Kernel.mapped` takes the points first.
"""

from __future__ import annotations

import inspect
from typing import Any

from streamk.errors import InvalidInput
from streamk.kernels.base import Kernel
from streamk.kernels.composed import Composed, register_map
from streamk.kernels.shift_invariant import (
    Cauchy,
    Gaussian,
    Laplacian,
    Matern,
    PowerExponential,
    RationalQuadratic,
)
from streamk.kernels.sphere import NTK, ArcCosine, Linear, Polynomial, Zonal

__all__ = [
    "KERNELS",
    "NTK",
    "ArcCosine",
    "Cauchy",
    "Composed",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "PowerExponential",
    "RationalQuadratic",
    "Zonal",
    "by_name",
    "from_json",
    "register_map",
]

KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel
    for kernel in (
        Gaussian,
        Laplacian,
        PowerExponential,
        Matern,
        RationalQuadratic,
        Cauchy,
        NTK,
        Linear,
        Polynomial,
        ArcCosine,
        Zonal,
    )
}
"""Kernels whose options are numbers, by name; `Composed` takes another kernel and a function."""


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
    known = _options(kind)
    for option in options:
        if option not in known:
            having = [other for other, each in KERNELS.items() if option in _options(each)]
            hint = f", which is for {' and '.join(having)}" if having else ""
            raise InvalidInput(f"kernel {name!r} takes no {option}{hint}")
    return kind(**options)


def _options(kind: type[Kernel]) -> tuple[str, ...]:
    """Return the names of a kernel's options."""
    return tuple(inspect.signature(kind).parameters)


def check_scales(kernel: object, **scales: float | None) -> None:
    """Check that a kernel that is not given by name comes without a scale beside it.

    Examples
    --------
    >>> check_scales(Gaussian(bandwidth=2.0), bandwidth=0.5)
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: leave out bandwidth: kernel=Gaussian(bandwidth=2.0) is not...
    """
    given = [name for name, scale in scales.items() if scale is not None]
    if given:
        raise InvalidInput(
            f"leave out {' and '.join(given)}: kernel={kernel!r} is not given by name, so it has "
            "its own or none"
        )


def from_json(data: dict[str, Any]) -> Kernel:
    """Make the kernel that `Kernel.to_json` described.

    Raises
    ------
    InvalidInput
        As `by_name` does, and if the map of a `Composed` kernel is not registered.

    >>> from_json(Gaussian(bandwidth=3.0).to_json())
    Gaussian(bandwidth=3.0)
    """
    options = dict(data)
    if options.get("kernel") == Composed.name:
        return _composed(options)
    return by_name(options.pop("kernel", "?"), **options)


def _composed(data: dict[str, Any]) -> Composed:
    """Make a composed kernel, whose kernel is not composed itself."""
    of = data.get("of")
    if data.keys() != {"kernel", "of", "map"} or not isinstance(of, dict) or "of" in of:
        raise InvalidInput(f"a composed kernel has a kernel 'of' and a 'map', not {data!r}")
    return Composed(kernel=from_json(of), map=data["map"])
