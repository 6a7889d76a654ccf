"""Kernels that depend on inner products: linear, and the neural tangent kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import DEEPEST, Curve, KernelCode, Law
from streamk.errors import InvalidInput, shown
from streamk.kernels.base import Kernel, Scaled, as_points, is_whole, on_sphere


@dataclass(frozen=True, kw_only=True)
class NTK(Scaled):
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
        if not is_whole(self.depth) or not 1 <= self.depth <= DEEPEST:
            raise InvalidInput(
                f"depth={shown(self.depth)} of NTK must be a whole number from 1 to {DEEPEST}: its "
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
        return on_sphere(points, self.bandwidth)


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
