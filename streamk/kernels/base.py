"""The base of all kernels: values between points, products, and what is declared of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk.backends import Backend, Curve, KernelCode, KernelNumbers, Law, loops, select
from streamk.backends.threads import divide
from streamk.errors import InvalidInput, shown

Matrix = NDArray[np.float64]

_ROWS = 32
"""Rows that the compiled product evaluates together; threads share the others by so many."""
_BESIDES = 20
"""Multiplications that a kernel takes as long as, besides those of its columns."""


def as_points(X: ArrayLike, name: str, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return points (n, d), contiguous; raises InvalidInput if they are not a matrix."""
    points = np.ascontiguousarray(X, dtype=dtype)
    if np.ndim(X) != 2:
        raise InvalidInput(
            f"{name} must be a matrix of shape (points, columns), not of shape {np.shape(X)}; "
            "pass a single point x as [x]"
        )
    return points


def is_whole(number: Any) -> bool:
    """Return whether this is a whole number, and not a boolean."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the NumPy dtype, which must be float32 or float64, else raise InvalidInput."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found not in (np.float32, np.float64):
        raise InvalidInput(f"dtype={dtype!r} must be float32 or float64")
    return found


def _same_columns(X: NDArray[Any], Y: NDArray[Any]) -> None:
    if X.shape[1] != Y.shape[1]:
        raise InvalidInput(
            f"X has {X.shape[1]} columns and Y has {Y.shape[1]}; they must be the same columns"
        )


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A positive definite kernel with ``k(x, x) = 1`` unless said otherwise.

    Subclasses define the class attributes below and their options; all else follows. They raise
    `InvalidInput` where an option is out of its domain.
    """

    name: ClassVar[str]
    law: ClassVar[Law | None]
    """None if it has no random features."""
    isotropic: ClassVar[bool] = True
    """True if it depends on ``|x|_2``, ``|y|_2`` and ``|x-y|_2`` only."""
    curve: ClassVar[Curve] = Curve.COSINE
    """A feature as a function of its phase: ``sqrt(2) cos(w.x + b)`` unless said otherwise."""
    takes_late_columns: ClassVar[bool] = True
    """True if features of events stay as they are where a column comes that was zero in them."""
    by_place: ClassVar[bool] = False
    """True if features depend on the order of the columns, not on their names."""
    shift_invariant: ClassVar[bool] = True
    """True if it depends on ``x - y`` only."""
    heavy_tailed: ClassVar[bool] = False
    """True if phases can be so large that single precision loses the turn."""

    @property
    def code(self) -> KernelCode:
        """Code by which the loops of `streamk.backends` evaluate it.

        Raises
        ------
        InvalidInput
            If they do not evaluate it: it is for random features, and for `pairwise` and `product`.
        """
        raise InvalidInput(
            f"kernel {self.name!r} has only random features; use it with DoublyStochastic, or "
            "choose a kernel with compiled values, such as 'gaussian' or 'ntk'"
        )

    @property
    def amplitude(self) -> float:
        """Factor of the features, frequencies being in turns: sqrt(2) of a cosine, else 2 pi."""
        return math.sqrt(2.0) if self.curve == Curve.COSINE else 2.0 * math.pi

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

    @property
    def numbers(self) -> KernelNumbers:
        """Code, parameter and scale, as compiled loops take them."""
        return KernelNumbers(int(self.code), float(self.parameter), float(self.frequency_scale))

    def mapped(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return the points (n, d) as the loops of `streamk.backends` take them.

        These are the points themselves unless the kernel says otherwise. Columns of zeros that are
        appended to what is returned stand for columns of zeros that are appended to the points.
        """
        return points

    def mapped_keys(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the keys of the columns that `mapped` makes of columns with such keys (d,)."""
        return keys

    def check_late_columns(self, names: Sequence[Any]) -> None:
        """Raise InvalidInput if these columns, which come late, would change features.

        Late ones come when features have been learned with.
        """
        if not self.takes_late_columns:
            raise InvalidInput(
                f"columns {', '.join(map(repr, names))} come after the first step, but features "
                f"of kernel {self.name!r} depend on the number of columns; name all columns "
                "beforehand (columns=, or a strict schema), or choose another kernel, such as "
                "'gaussian' or 'arc_cosine'"
            )

    def values_on(self, backend: Backend, X: Any, Y: Any, out: Any) -> None:
        """Write the kernel between mapped points (n, d) and (m, d) of a backend into out (n, m)."""
        backend.pairwise(self.code, self.parameter, self.frequency_scale, X, Y, out)

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
        check_dtype(dtype)
        A = as_points(X, "X", dtype)
        B = A if Y is None else as_points(Y, "Y", dtype)
        _same_columns(A, B)
        P = self.mapped(A)
        Q = P if Y is None else self.mapped(B)
        K = np.empty((len(P), len(Q)), dtype)
        host = select()

        def fill(rows: slice) -> None:
            self.values_on(host, P[rows], Q, K[rows])

        divide(len(P), (P.size + _BESIDES * len(P)) * len(Q), fill)
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
        many threads share the work. Beside the result it takes the memory of a few tiles, and that
        of the points that `mapped` makes.

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
        backend : {"auto", "cupy"}, default "auto"
            The host, or a GPU.
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
            If there is no CuPy, driver or device.

        Examples
        --------
        >>> from streamk.kernels import Gaussian
        >>> Gaussian(bandwidth=1.0).product([[0.0]], [[0.0], [1.0]], [1.0, 2.0]).round(4)
        array([2.2131])
        """
        check_dtype(dtype)
        A, B = as_points(X, "X", dtype), as_points(Y, "Y", dtype)
        _same_columns(A, B)
        v = np.ascontiguousarray(V, dtype=dtype)
        if np.ndim(V) not in (1, 2) or len(v) != len(B):
            raise InvalidInput(
                f"V must have a row for each of the {len(B)} points of Y, shape ({len(B)},) or "
                f"({len(B)}, outputs), not {np.shape(V)}"
            )
        chosen = select(backend)
        there = (
            chosen.put(array) for array in (self.mapped(A), self.mapped(B), v.reshape(len(B), -1))
        )
        F: Matrix = chosen.get(self.product_on(chosen, *there, threads=threads))
        return F if np.ndim(V) == 2 else F[:, 0]

    def product_on(
        self, backend: Backend, X: Any, Y: Any, V: Any, *, threads: int | None = None
    ) -> Any:
        """Return the product as of `product`, of arrays on a backend's device.

        X (n, d), Y (m, d) and V (m, outputs) are all float32 or all float64, and contiguous; X and
        Y as `mapped` gives them. The product is float64 (n, outputs), on the device, which may
        still be at work on it.
        """
        out = backend.xp.empty((len(X), V.shape[1]))
        code, parameter, scale = self.code, self.parameter, self.frequency_scale

        def fill(some: slice) -> None:
            rows = slice(_ROWS * some.start, _ROWS * some.stop)
            backend.pairwise_product(code, parameter, scale, X[rows], Y, V, out[rows])

        # A device other than the host divides work by itself.
        flops = len(X) * len(Y) * (X.shape[1] + _BESIDES + V.shape[1])
        divide(-(-len(X) // _ROWS), flops, fill, threads if backend.xp is np else 1)
        return out

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``k(x, x)`` of each row of `X` (n, d), float64 of shape (n,)."""
        return np.ones(len(as_points(X, "X")))

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON data; `from_json` turns it back.

        >>> from streamk.kernels import Matern
        >>> Matern(nu=1.5, bandwidth=2.0).to_json()
        {'kernel': 'matern', 'bandwidth': 2.0, 'nu': 1.5}
        """
        return {"kernel": self.name, **vars(self)}


@dataclass(frozen=True, kw_only=True)
class BandwidthKernel(Kernel):
    """A kernel with a length scale."""

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        if not is_positive(self.bandwidth):
            raise InvalidInput(
                f"bandwidth={shown(self.bandwidth)} of {type(self).__name__} must be a positive"
                " number"
            )

    @property
    def frequency_scale(self) -> float:
        """Factor from the standard law to this kernel's frequencies."""
        return 1.0 / self.bandwidth


@dataclass(frozen=True, kw_only=True)
class SpherePoints(BandwidthKernel):
    """A kernel between the unit vectors of points with a constant column, the bandwidth."""

    def mapped(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return the unit vectors of (bandwidth, x), the constant column first: (n, d + 1).

        They are of the type of the points, float32 or float64, and those of a point are the same,
        bit for bit, in whatever batch it comes and whatever columns of zeros follow.
        """
        out = np.empty((len(points), points.shape[1] + 1), points.dtype)

        def fill(rows: slice) -> None:
            loops.tangent.to_sphere(points[rows], self.bandwidth, out[rows])

        divide(len(points), 4 * points.size, fill)
        return out


def is_positive(number: Any) -> bool:
    """Return whether this is a finite number above 0."""
    return isinstance(number, int | float | np.number) and bool(0 < number < math.inf)
