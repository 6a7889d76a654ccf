"""Pseudo landmarks: their kernel values follow from the values of a few landmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput, shown
from streamk.factorization.checks import check_range, columns_of
from streamk.factorization.clusters import INVERSE_DISTANCE
from streamk.kernels import Kernel, Linear
from streamk.landmarks.matrices import Indices, Numbers, checked_points
from streamk.landmarks.selection import check_count
from streamk.options import Choice

PRODUCTS, LOWER, UPPER = "products", "lower", "upper"
KINDS = (PRODUCTS, LOWER, UPPER)


def check_kind(kernel: Any, kind: Any) -> None:
    """Check that pseudo landmarks of this kind can be had of a kernel."""
    if not isinstance(kernel, Kernel):
        raise InvalidInput(f"kernel={kernel!r} must be a streamk Kernel, such as Gaussian()")
    Choice(choices=KINDS).check("kind", kind)
    if kind != PRODUCTS and not (kernel.isotropic and kernel.shift_invariant):
        raise InvalidInput(
            f"kind={kind!r} needs a kernel of the Euclidean distance, which {kernel!r} is not: "
            f"use kind={PRODUCTS!r}, or another kernel, such as Gaussian, Matern or "
            "RationalQuadratic"
        )


def distances(X: Numbers, Y: Numbers) -> Numbers:
    """Return the Euclidean distances between the rows of X (n, d) and Y (m, d), (n, m).

    Those of equal points are 1e-75. They are sound for values of points up to 1e50.
    """
    return np.asarray(INVERSE_DISTANCE.bandwidth / INVERSE_DISTANCE.pairwise(X, Y))


def within_range(X: ArrayLike, name: str, least: int = 1, d: int | None = None) -> Numbers:
    """Return points as float64 with finite distances, also from landmarks (m, d)."""
    points = checked_points(X, name, least, d)
    check_range(points, name)
    return points


def pairs_of(pairs: ArrayLike, m: int) -> Indices:
    """Return pairs of numbers of m landmarks, int64 (p, 2); raise InvalidInput if they are none."""
    found = np.asarray(pairs)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InvalidInput(
            "pseudo of products must be whole numbers, those of two landmarks in each row, shape "
            f"(p, 2), not {found.dtype} of shape {found.shape}"
        )
    if found.size and not 0 <= int(found.min()) <= int(found.max()) < m:
        wrong = found.min() if found.min() < 0 else found.max()
        raise InvalidInput(f"pseudo has the number {wrong}, but landmarks are 0 to {m - 1}")
    return found.astype(np.int64)


_ENTRIES = 1 << 16
"""Numbers of the expansion that are computed at a time, about: half a megabyte."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PseudoLandmarks:
    """Landmarks, and pseudo landmarks with kernel values computed from the landmarks' values.

    `expand` gives the m kernel values of a point with the landmarks and p numbers more that are
    made of them (Hsieh, Si and Dhillon 2014, section 4), by O(m d + p s) multiplications. A linear
    model of these m + p numbers predicts nearly as one of more landmarks would, for little more
    than m of them take. `of` draws pseudo landmarks; `PseudoNystrom` approximates the kernel by
    them. Its length is m + p, and it does not change once it is made.

    Parameters
    ----------
    kernel : Kernel
    landmarks : array of shape (m, d)
    pseudo : array of shape (p, d), or int array of shape (p, 2)
        Of "lower" and "upper" the pseudo landmarks: any points. Of "products" the numbers i and j
        of the two landmarks of each.
    kind : {"products", "lower", "upper"}, default "products"
        How p more numbers are made of m kernel values.

        "products" are products ``k(x, u_i) k(x, u_j)`` (equation 7); s is 1. If a kernel matrix is
        approximated by all of them with i <= j, its error is at most that of any pseudo landmarks
        whose kernel values are estimated by polynomials of degree 2 (Lemma 1). A product of two
        values of the Gaussian kernel is a pseudo landmark exactly: it is
        ``exp(-|u_i-u_j|^2 / (4 bandwidth^2))`` times the Gaussian kernel of half the squared
        bandwidth between x and the midpoint of u_i and u_j.

        "lower" and "upper" evaluate the kernel at a bound of the distance between x and a pseudo
        landmark v, ``max_j | |x-u_j| - |v-u_j| |`` or ``min_j (|x-u_j| + |v-u_j|)`` (equation 6); s
        is m. Where the kernel falls with the distance, the lower bound of the distance gives an
        upper bound of the kernel, and the upper one a lower one. They need a kernel of the
        Euclidean distance, Gaussian, Matern or RationalQuadratic, and pay where there are hundreds
        of columns: with few, more landmarks do more for the price of p m multiplications.

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or the kernel does not depend on the Euclidean distance where
        it has to be. Methods raise it if a shape does not fit or a value is not finite.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> pseudo = PseudoLandmarks(
    ...     kernel=Gaussian(), landmarks=[[0.0], [2.0]], pseudo=[[0, 0], [0, 1]]
    ... )
    >>> pseudo
    <2 landmarks, 2 pseudo landmarks by products, Gaussian(bandwidth=1.0)>
    >>> pseudo.expand([[0.0], [1.0]]).round(4)
    array([[1.    , 0.1353, 1.    , 0.1353],
           [0.6065, 0.6065, 0.3679, 0.3679]])
    """

    kernel: Kernel
    landmarks: Numbers
    pseudo: NDArray[Any]
    kind: str = PRODUCTS

    def __post_init__(self) -> None:
        check_kind(self.kernel, self.kind)
        landmarks = within_range(self.landmarks, "landmarks")
        if self.kind == PRODUCTS:
            pseudo: NDArray[Any] = pairs_of(self.pseudo, len(landmarks))
        else:
            pseudo = within_range(self.pseudo, "pseudo", least=0, d=landmarks.shape[1])
        object.__setattr__(self, "landmarks", landmarks.copy())
        object.__setattr__(self, "pseudo", pseudo.copy())

    @classmethod
    def of(
        cls,
        X: ArrayLike,
        kernel: Kernel,
        *,
        landmarks: ArrayLike,
        n_pseudo: int,
        kind: str = PRODUCTS,
        seed: int = 0,
    ) -> PseudoLandmarks:
        """Draw pseudo landmarks, uniformly and without replacement.

        Parameters
        ----------
        X : array of shape (n, d)
            Points of which "lower" and "upper" draw the pseudo landmarks. Products are drawn of the
            m (m + 1) / 2 that the landmarks have.
        kernel : Kernel
        landmarks : array of shape (m, d)
            Such as the `points` of what `streamk.landmarks.uniform` returns.
        n_pseudo : int
            p. With 0 there are the landmarks alone.
        kind : {"products", "lower", "upper"}, default "products"
            As of the class.
        seed : int, default 0

        Returns
        -------
        PseudoLandmarks

        Raises
        ------
        InvalidInput
            If an argument cannot be used, or there are fewer points or products.

        Examples
        --------
        >>> import numpy as np
        >>> from streamk.kernels import Gaussian
        >>> from streamk.landmarks import uniform
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> Z = uniform(X, Gaussian(), max_landmarks=10).points
        >>> PseudoLandmarks.of(X, Gaussian(), landmarks=Z, n_pseudo=30, kind="lower")
        <10 landmarks, 30 pseudo landmarks by lower bounds, Gaussian(bandwidth=1.0)>
        """
        check_count("n_pseudo", n_pseudo, least=0)
        check_count("seed", seed, least=0)
        own = within_range(landmarks, "landmarks")
        points = within_range(X, "X", d=own.shape[1])
        m = len(own)
        there = m * (m + 1) // 2 if kind == PRODUCTS else len(points)
        if n_pseudo > there:
            what = f"products of {m} landmarks" if kind == PRODUCTS else "points of X"
            raise InvalidInput(f"n_pseudo={shown(n_pseudo)} is more than the {there} {what}")
        random = np.random.Generator(np.random.Philox(seed))
        drawn = np.sort(random.choice(there, n_pseudo, replace=False))
        among: NDArray[Any] = points
        if kind == PRODUCTS:
            among = np.column_stack(np.triu_indices(m))
        return cls(kernel=kernel, landmarks=own, pseudo=among[drawn], kind=kind)

    def __len__(self) -> int:
        return len(self.landmarks) + len(self.pseudo)

    def __repr__(self) -> str:
        how = PRODUCTS if self.kind == PRODUCTS else f"{self.kind} bounds"
        return (
            f"<{len(self.landmarks)} landmarks, {len(self.pseudo)} pseudo landmarks by {how}, "
            f"{self.kernel!r}>"
        )

    @property
    def d(self) -> int:
        """Columns of the points."""
        return int(self.landmarks.shape[1])

    @property
    def multiply_adds(self) -> int:
        """Multiplications and additions of one prediction of one output, ``m d + p s + (m + p)``.

        The m or m + p values of a function of the distance, such as an exponential, come to it.
        """
        m, p = len(self.landmarks), len(self.pseudo)
        return m * self.d + p * (1 if self.kind == PRODUCTS else m) + len(self)

    def expand(self, X: ArrayLike) -> Numbers:
        """Return the kernel values with landmarks and pseudo landmarks, C̄ of equation 4.

        Of points X (n, d) they are float64 (n, m + p), those with the landmarks first. A row's have
        the same bits in whatever batch it comes.
        """
        points = within_range(X, "X", least=0, d=self.d)
        out = np.empty((len(points), len(self)))
        for rows, C in self._parts(points):
            out[rows] = C
        return out

    def predict(self, X: ArrayLike, beta: ArrayLike) -> Numbers:
        """Return ``C̄ beta``, the decision values of Algorithm 1, float64 (n,) or (n, outputs).

        Beta (m + p,) or (m + p, outputs) are coefficients of a linear model, or what
        `PseudoNystrom.weights` returns. A row's result is the same, bit for bit, in whatever batch
        it comes.

        Examples
        --------
        >>> from streamk.kernels import Gaussian
        >>> pseudo = PseudoLandmarks(kernel=Gaussian(), landmarks=[[0.0]], pseudo=[[0, 0]])
        >>> pseudo.predict([[0.0], [1.0]], [2.0, -1.0]).round(4)
        array([1.    , 0.8452])
        """
        points = within_range(X, "X", least=0, d=self.d)
        B = columns_of(beta, len(self), "beta", "columns of the expansion")
        return self._times(points, B.reshape(len(self), -1)).reshape(len(points), *B.shape[1:])

    def _times(self, points: Numbers, B: Numbers) -> Numbers:
        """Return ``C̄ B``; a row has the same bits in whatever batch it comes."""
        out, turned = np.empty((len(points), B.shape[1])), np.ascontiguousarray(B.T)
        for rows, C in self._parts(points):
            # A product of matrices by BLAS may round a row by the batch in which it comes.
            out[rows] = Linear().pairwise(C, turned)
        return out

    def _parts(self, points: Numbers) -> Iterator[tuple[slice, Numbers]]:
        """Yield slices of the points with their rows of C̄."""
        step = max(1, _ENTRIES // len(self))
        for first in range(0, len(points), step):
            rows = slice(first, first + step)
            yield rows, self._expanded(points[rows])

    def _expanded(self, points: Numbers) -> Numbers:
        if self.kind == PRODUCTS:
            C = self.kernel.pairwise(points, self.landmarks)
            return np.hstack([C, C[:, self.pseudo[:, 0]] * C[:, self.pseudo[:, 1]]])
        D = distances(points, self.landmarks)
        D = np.hstack([D, self._bounds(D)])
        # Points of one column, at these distances from 0. As second points they lie in vectors.
        return self.kernel.pairwise(np.zeros((1, 1)), D.reshape(-1, 1)).reshape(D.shape)

    def _bounds(self, D: Numbers) -> Numbers:
        """Return bounds of distances from pseudo landmarks (n, p) by those from landmarks (n, m).

        This is equation 6.
        """
        lower = self.kind == LOWER
        found = np.full((len(D), len(self.pseudo)), 0.0 if lower else np.inf)
        for own, others in zip(D.T[:, :, None], self._between.T, strict=True):
            if lower:
                np.maximum(found, np.abs(own - others), out=found)
            else:
                np.minimum(found, own + others, out=found)
        return found

    @cached_property
    def _between(self) -> Numbers:
        """Distances of the pseudo landmarks from the landmarks, (p, m)."""
        return distances(self.pseudo, self.landmarks)


_CUT = 1e-8
"""Singular values of the sampled rows of C̄ below this part of the largest one are left out. What is
divided by those that are kept has errors of about 2e-16 / 1e-8 of the kernel values."""
_ROWS, _ROWS_A_COLUMN = 1000, 10
"""Rows that are sampled by default. With fewer for each column, W̄ reproduces the diagonal of the
sampled rows, which a narrow kernel has and other rows do not."""


@dataclass(frozen=True, eq=False, repr=False)
class PseudoNystrom:
    """The approximate kernel ``C̄ W̄ C̄^T``, with C̄ from `PseudoLandmarks.expand`.

    W̄ is ``C̄_I^+ G_I (C̄_I^+)^T`` with the kernel matrix G_I of sampled rows I: there is no better
    approximation of G_I by these columns (equation 5 and below). It is positive semidefinite. Made
    by `of`.

    Attributes
    ----------
    pseudo : PseudoLandmarks
        m landmarks and p pseudo landmarks.
    map : float64 array of shape (m + p, rank)
        A root of W̄, which is ``map map^T``: from C̄ to features whose products are the kernel's.

    Raises
    ------
    InvalidInput
        By methods, if an argument cannot be used.
    """

    pseudo: PseudoLandmarks
    map: Numbers

    @classmethod
    def of(
        cls, X: ArrayLike, pseudo: PseudoLandmarks, *, n_rows: int | None = None, seed: int = 0
    ) -> PseudoNystrom:
        """Find W̄ on rows that are drawn uniformly, without replacement.

        It takes O(n_rows^2 (d + m + p)) time, and memory for n_rows rows of C̄.

        Parameters
        ----------
        X : array of shape (n, d)
        pseudo : PseudoLandmarks
        n_rows : int, optional
            Rows that are sampled, all if there are fewer: by default 1,000 or ten for each of the
            m + p columns, whichever is more. Few rows for many columns leave a large error in all
            others, above that of the landmarks alone.
        seed : int, default 0

        Returns
        -------
        PseudoNystrom

        Examples
        --------
        >>> import numpy as np
        >>> from streamk.kernels import Gaussian
        >>> from streamk.landmarks import uniform
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> kernel = Gaussian(bandwidth=2.0)
        >>> Z = uniform(X, kernel, max_landmarks=10).points
        >>> pseudo = PseudoLandmarks.of(X, kernel, landmarks=Z, n_pseudo=55)
        >>> found = PseudoNystrom.of(X, pseudo)
        >>> found
        <Nyström approximation of rank 65 by 10 landmarks and 55 pseudo landmarks>
        >>> K = kernel.pairwise(X)
        >>> bool(np.linalg.norm(found.pairwise(X) - K) < 0.01 * np.linalg.norm(K))
        True
        """
        if not isinstance(pseudo, PseudoLandmarks):
            raise InvalidInput(f"pseudo={pseudo!r} must be PseudoLandmarks, see their `of`")
        count = max(_ROWS, _ROWS_A_COLUMN * len(pseudo)) if n_rows is None else n_rows
        check_count("n_rows", count)
        check_count("seed", seed, least=0)
        points = checked_points(X, "X")
        random = np.random.Generator(np.random.Philox(seed))
        if count < len(points):
            points = points[np.sort(random.choice(len(points), count, replace=False))]
        return cls(pseudo, _root_of_weights(pseudo, points))

    def __repr__(self) -> str:
        m, p = len(self.pseudo.landmarks), len(self.pseudo.pseudo)
        return (
            f"<Nyström approximation of rank {self.rank} by {m} landmarks and {p} pseudo landmarks>"
        )

    @property
    def rank(self) -> int:
        """Columns of the features."""
        return int(self.map.shape[1])

    @property
    def W(self) -> Numbers:  # noqa: N802 (as the paper writes it)
        """W̄, (m + p, m + p)."""
        return self.map @ self.map.T

    def transform(self, X: ArrayLike) -> Numbers:
        """Return features (n, rank) of X (n, d); their products give the approximate kernel.

        A row's features have the same bits in whatever batch it comes.
        """
        return self.pseudo.predict(X, self.map)

    def pairwise(self, X: ArrayLike, Y: ArrayLike | None = None) -> Numbers:
        """Return the approximate kernel between points X (n, d) and Y (q, d), `X` by default."""
        left = self.transform(X)
        return left @ (left if Y is None else self.transform(Y)).T

    def weights(self, X: ArrayLike, alpha: ArrayLike) -> Numbers:
        """Return ``W̄ C̄^T alpha``, from which `PseudoLandmarks.predict` predicts (Algorithm 1).

        Alpha (n,) or (n, outputs) are coefficients of points X (n, d) in a kernel machine; it is
        float64 (m + p,) or (m + p, outputs).

        Examples
        --------
        >>> import numpy as np
        >>> from streamk.kernels import Gaussian
        >>> X = np.linspace(0.0, 1.0, 30)[:, None]
        >>> pseudo = PseudoLandmarks.of(X, Gaussian(), landmarks=X[::10], n_pseudo=6)
        >>> found = PseudoNystrom.of(X, pseudo)
        >>> alpha = np.sin(9.0 * X[:, 0])
        >>> said = pseudo.predict(X, found.weights(X, alpha))
        >>> bool(np.allclose(said, found.pairwise(X) @ alpha))
        True
        """
        F = self.transform(X)
        return np.asarray(self.map @ (F.T @ columns_of(alpha, len(F), "alpha")))


def _root_of_weights(pseudo: PseudoLandmarks, points: Numbers) -> Numbers:
    """Return R (m + p, rank) of ``R R^T = C̄^+ G (C̄^+)^T``, most important columns first."""
    U, values, V = np.linalg.svd(pseudo.expand(points), full_matrices=False)
    kept = values > _CUT * values[0]
    U = np.ascontiguousarray(U[:, kept])
    M = U.T @ pseudo.kernel.product(points, points, U)
    squares, Q = np.linalg.eigh((M + M.T) / 2.0)
    # G is positive semidefinite; what is left below is rounding.
    positive = squares > np.finfo(np.float64).eps * np.max(squares, initial=0.0)
    root = Q[:, positive] * np.sqrt(squares[positive])
    return np.ascontiguousarray((V[kept].T / values[kept] @ root)[:, ::-1])
