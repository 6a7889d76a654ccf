"""Kernels that are functions of inner products, and have random features without a Fourier law."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import FACTORS, Backend, Curve, KernelCode, Law
from streamk.backends.threads import divide
from streamk.errors import InvalidInput, shown
from streamk.kernels.base import Scaled, as_points, is_whole

CONSTANT_KEY = 2**64 - 1
"""Key of the constant column that `mapped` puts before the others."""

_ROWS, _POINTS = 32, 512
"""Points of a tile of the product, of the one set and of the other."""


@dataclass(frozen=True, kw_only=True)
class OfProducts(Scaled):
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
class Polynomial(OfProducts):
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

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> Polynomial(degree=3).pairwise([[1.0, 2.0]], [[0.5, 0.0]])
    array([[3.375]])
    """

    name = "polynomial"
    law = Law.BUCKETS
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
                f"offset={shown(self.offset)} of Polynomial must be a number from 0 on"
            )

    @property
    def amplitude(self) -> float:
        """Factor of the features, 1."""
        return 1.0

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
