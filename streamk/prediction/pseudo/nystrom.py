"""Nyström approximations by pseudo landmarks (Hsieh, Si and Dhillon 2014, equation 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from streamk.errors import InvalidInput
from streamk.factorization.checks import columns_of
from streamk.landmarks.checks import check_count
from streamk.landmarks.matrices import Numbers
from streamk.landmarks.matrices.points import checked_points
from streamk.prediction.pseudo.landmarks import PseudoLandmarks

_CUT = 1e-8
"""Singular values of the sampled rows of C̄ below this part of the largest one are left out. What is
divided by those that are kept has errors of about 2e-16 / 1e-8 of the kernel values."""
_ROWS, _ROWS_A_COLUMN = 1000, 10
"""Rows that are sampled by default. With fewer for each column, W̄ reproduces the diagonal of the
sampled rows, which a narrow kernel has and other rows do not."""


@dataclass(frozen=True, eq=False, repr=False)
class PseudoNystrom:
    """The approximate kernel ``C̄ W̄ C̄^T``, of which C̄ is what `PseudoLandmarks.expand` gives.

    W̄ is ``C̄_I^+ G_I (C̄_I^+)^T`` with the kernel matrix G_I of sampled rows I: there is no better
    approximation of G_I by these columns (equation 5 and below). It is positive semidefinite. Made
    by `of`.

    Attributes
    ----------
    pseudo : PseudoLandmarks
        m landmarks and p pseudo landmarks.
    map : float64 array of shape (m + p, rank)
        A root of W̄, which is ``map map^T``: from C̄ to features whose products are the kernel's.
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

        Raises
        ------
        InvalidInput
            If an argument cannot be used.

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
        """Return features whose products are the approximate kernel's.

        A row's features have the same bits in whatever batch it comes.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        float64 array of shape (n, rank)

        Raises
        ------
        InvalidInput
            If `X` does not fit or a value is not finite.
        """
        return self.pseudo.predict(X, self.map)

    def pairwise(self, X: ArrayLike, Y: ArrayLike | None = None) -> Numbers:
        """Return the approximate kernel between points.

        Parameters
        ----------
        X : array of shape (n, d)
        Y : array of shape (q, d), optional
            `X` by default.

        Returns
        -------
        float64 array of shape (n, q)

        Raises
        ------
        InvalidInput
            If an argument does not fit or a value is not finite.
        """
        left = self.transform(X)
        return left @ (left if Y is None else self.transform(Y)).T

    def weights(self, X: ArrayLike, alpha: ArrayLike) -> Numbers:
        """Return ``W̄ C̄^T alpha``, from which `PseudoLandmarks.predict` predicts (Algorithm 1).

        Parameters
        ----------
        X : array of shape (n, d)
        alpha : array of shape (n,) or (n, outputs)
            Coefficients of these points in a kernel machine.

        Returns
        -------
        float64 array of shape (m + p,) or (m + p, outputs)

        Raises
        ------
        InvalidInput
            If a shape does not fit or a value is not finite.

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
        beta: Numbers = self.map @ (F.T @ columns_of(alpha, len(F), "alpha"))
        return beta


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
