"""Landmarks as scikit-learn transformers: Nyström features, for any estimator after them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from streamk import landmarks
from streamk.adapters.options import estimator
from streamk.adapters.sklearn.nystroem import DrawnNystroem
from streamk.kernels import Kernel
from streamk.landmarks import Landmarks

__all__ = [
    "KMeansNystroem",
    "LeverageNystroem",
    "OasisNystroem",
    "RPCholeskyNystroem",
    "UniformNystroem",
]


@estimator()
class OasisNystroem(DrawnNystroem):
    """Nyström features of landmarks that oASIS chooses.

    `streamk.landmarks.oasis`: each landmark is the row farthest from the span of those before, so
    that few reproduce the kernel closely, for outliers too.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", "linear", one of `streamk.kernels`, or "precomputed": `X` is then the kernel matrix
        of the rows to fit, later that between new rows and those, dense or sparse.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, scikit-learn's ``gamma=1/d``, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    n_components : int, default 100
        Most landmarks. Rows that landmarks span already bring no feature.
    tol : float, default 0
        Choose no more where all rows are so near to the span, in the squared distance of their
        kernel functions.
    n_init : int, default 1
        Landmarks drawn at random to start with.
    random_state : int, RandomState or None, default None
        Of the start.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d), or None
        The landmarks, one for each feature.
    component_indices_ : int64 array of shape (n_features,)
        Their rows in the fitted `X`.
    kernel_ : Kernel or "precomputed"
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import OasisNystroem
    >>> X, _ = load_digits(return_X_y=True)
    >>> features = OasisNystroem(gamma=1e-3, n_components=50, random_state=0).fit_transform(X)
    >>> features.shape
    (1797, 50)
    """

    tol: float = 0.0
    n_init: int = 1

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.oasis(
            X,
            kernel,
            **options,
            tol=self.tol,
            n_init=self.n_init,
            seed=self._seed(),
        )


class UniformNystroem(DrawnNystroem):
    """Nyström features of landmarks that are drawn uniformly.

    `streamk.landmarks.baselines`, which is what `sklearn.kernel_approximation.Nystroem` does, less
    the features of landmarks that others span.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", "linear", one of `streamk.kernels`, or "precomputed": `X` is then the kernel matrix
        of the rows to fit, later that between new rows and those, dense or sparse.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, scikit-learn's ``gamma=1/d``, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    n_components : int, default 100
        Most landmarks. Rows that landmarks span already bring no feature.
    random_state : int, RandomState or None, default None
        Of the draws.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d), or None
        The landmarks, one for each feature.
    component_indices_ : int64 array of shape (n_features,)
        Their rows in the fitted `X`.
    kernel_ : Kernel or "precomputed"
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import UniformNystroem
    >>> X, _ = load_digits(return_X_y=True)
    >>> features = UniformNystroem(gamma=1e-3, n_components=50, random_state=0).fit_transform(X)
    >>> features.shape
    (1797, 50)
    """

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.uniform(X, kernel, **options, seed=self._seed())


class KMeansNystroem(DrawnNystroem):
    """Nyström features of landmarks that are centres of clusters.

    `streamk.landmarks.baselines`.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "linear", one of `streamk.kernels`.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, scikit-learn's ``gamma=1/d``, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    n_components : int, default 100
        Most landmarks. Rows that landmarks span already bring no feature.
    random_state : int, RandomState or None, default None
        Of the draws.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d)
        The landmarks, one for each feature.
    component_indices_ : None
        They are no rows of the fitted `X`.
    kernel_ : Kernel
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import KMeansNystroem
    >>> X, _ = load_digits(return_X_y=True)
    >>> features = KMeansNystroem(gamma=1e-3, n_components=50, random_state=0).fit_transform(X)
    >>> features.shape
    (1797, 50)
    """

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.k_means(X, kernel, **options, seed=self._seed())


@estimator()
class LeverageNystroem(DrawnNystroem):
    """Nyström features of landmarks drawn in proportion to their leverage scores.

    `streamk.landmarks.leverage_scores`: O(n^3) in time, and at most 23,170 rows. For comparisons.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", "linear", one of `streamk.kernels`, or "precomputed": `X` is then the kernel matrix
        of the rows to fit, later that between new rows and those, dense or sparse.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, scikit-learn's ``gamma=1/d``, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    n_components : int, default 100
        Most landmarks. Rows that landmarks span already bring no feature.
    rank : int, optional
        Eigenvectors that the scores are computed from; `n_components` by default.
    random_state : int, RandomState or None, default None
        Of the draws.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d), or None
        The landmarks, one for each feature.
    component_indices_ : int64 array of shape (n_features,)
        Their rows in the fitted `X`.
    kernel_ : Kernel or "precomputed"
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import LeverageNystroem
    >>> X, _ = load_digits(return_X_y=True)
    >>> features = LeverageNystroem(gamma=1e-3, n_components=50, random_state=0).fit_transform(X)
    >>> features.shape
    (1797, 50)
    """

    rank: int | None = None

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.leverage_scores(X, kernel, **options, rank=self.rank, seed=self._seed())


@estimator()
class RPCholeskyNystroem(DrawnNystroem):
    """Nyström features of landmarks drawn by randomly pivoted Cholesky.

    `streamk.landmarks.block_rpcholesky`: each landmark is drawn in proportion to the squared
    distances of the rows from the span of those before. The fastest of those that adapt.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", "linear", one of `streamk.kernels`, or "precomputed": `X` is then the kernel matrix
        of the rows to fit, later that between new rows and those, dense or sparse.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, scikit-learn's ``gamma=1/d``, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    n_components : int, default 100
        Most landmarks. Rows that landmarks span already bring no feature.
    block_size : int, optional
        Proposals that are drawn at a time, of which some are rejected; chosen by default. It
        changes the time and not the distribution of the landmarks. 1 is the plain algorithm.
    random_state : int, RandomState or None, default None
        Of the draws.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d), or None
        The landmarks, one for each feature.
    component_indices_ : int64 array of shape (n_features,)
        Their rows in the fitted `X`.
    kernel_ : Kernel or "precomputed"
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import RPCholeskyNystroem
    >>> X, _ = load_digits(return_X_y=True)
    >>> features = RPCholeskyNystroem(gamma=1e-3, n_components=50, random_state=0).fit_transform(X)
    >>> features.shape
    (1797, 50)
    """

    block_size: int | None = None

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.block_rpcholesky(
            X,
            kernel,
            **options,
            block_size=self.block_size,
            seed=self._seed(),
        )
