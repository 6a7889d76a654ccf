"""Pseudo landmarks: Hsieh, Si and Dhillon, "Fast Prediction for Large-Scale Kernel Machines".

NIPS 2014, section 4 and Algorithm 1. A prediction from m landmarks takes m distances in d columns.
Pseudo landmarks are added to them, whose kernel values are made of those m numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput, shown
from streamk.factorization.checks import columns_of
from streamk.kernels import Kernel, Linear
from streamk.landmarks.checks import check_count
from streamk.landmarks.matrices import Numbers
from streamk.prediction.pseudo.checks import (
    LOWER,
    PRODUCTS,
    check_columns,
    check_kind,
    pairs_of,
    within_range,
)
from streamk.prediction.pseudo.distances import at_distances, distances

_ENTRIES = 1 << 16
"""Numbers of the expansion that are computed at a time, about: half a megabyte."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PseudoLandmarks:
    """Landmarks, and pseudo landmarks whose kernel values are made of the landmarks' own.

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
        If an argument cannot be used, or the kernel is no function of the Euclidean distance where
        it has to be.

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
            pseudo = within_range(self.pseudo, "pseudo", least=0)
            check_columns(pseudo, "pseudo", landmarks.shape[1])
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
            Such as the `points` of what `streamk.landmarks.k_means` returns.
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
        check_kind(kernel, kind)
        check_count("n_pseudo", n_pseudo, least=0)
        check_count("seed", seed, least=0)
        own = within_range(landmarks, "landmarks")
        points = within_range(X, "X")
        check_columns(points, "X", own.shape[1])
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

        A row's values have the same bits in whatever batch it comes.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        float64 array of shape (n, m + p)
            Those with the landmarks come first.

        Raises
        ------
        InvalidInput
            If `X` does not fit or a value is not finite.
        """
        points = self._checked(X)
        out = np.empty((len(points), len(self)))
        for rows, C in self._parts(points):
            out[rows] = C
        return out

    def predict(self, X: ArrayLike, beta: ArrayLike) -> Numbers:
        """Return ``C̄ beta``, the decision values of Algorithm 1.

        A row's result is the same, bit for bit, in whatever batch it comes.

        Parameters
        ----------
        X : array of shape (n, d)
        beta : array of shape (m + p,) or (m + p, outputs)
            Coefficients of a linear model, or what `PseudoNystrom.weights` returns.

        Returns
        -------
        float64 array of shape (n,) or (n, outputs)

        Raises
        ------
        InvalidInput
            If a shape does not fit or a value is not finite.

        Examples
        --------
        >>> from streamk.kernels import Gaussian
        >>> pseudo = PseudoLandmarks(kernel=Gaussian(), landmarks=[[0.0]], pseudo=[[0, 0]])
        >>> pseudo.predict([[0.0], [1.0]], [2.0, -1.0]).round(4)
        array([1.    , 0.8452])
        """
        points = self._checked(X)
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
        return at_distances(self.kernel, np.hstack([D, self._bounds(D)]))

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

    def _checked(self, X: ArrayLike) -> Numbers:
        points = within_range(X, "X", least=0)
        check_columns(points, "X", self.d)
        return points
