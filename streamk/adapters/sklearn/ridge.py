"""Kernel regressions as scikit-learn regressors: what all share, in clusters, by EigenPro 2.0."""

from __future__ import annotations

from dataclasses import field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk.adapters.options import estimator
from streamk.adapters.sharing import Shared
from streamk.adapters.sklearn.options import (
    count_of_parts,
    drawn_seed,
    kernel_of_points,
    threads_of,
)
from streamk.errors import InvalidInput
from streamk.factorization.block import BlockKernel, block_kernel
from streamk.factorization.checks import check_number
from streamk.kernels import Kernel, Linear
from streamk.landmarks.matrices import Numbers
from streamk.landmarks.selection import check_count
from streamk.learners.eigenpro.projection import interpolated, preconditioned

__all__ = ["BaseRidge", "BlockRidge", "KernelRegression"]


class BaseRidge(MultiOutputMixin, RegressorMixin, Shared, BaseEstimator):  # type: ignore[misc]
    """The common part of all: only the computation of coefficients differs."""

    kernel_: Kernel

    def _fit(self, points: Numbers, y: Numbers) -> None:
        """Solve for the coefficients."""
        raise NotImplementedError

    def _predict(self, points: Numbers) -> Numbers:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Solve for the coefficients.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, targets)

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain, a kernel matrix is too large to be formed, or it is
            singular for so small an `alpha`.
        ValueError
            If points or targets do not fit, as scikit-learn says it.
        """
        self._fit(*self._checked(X, y))
        return self

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Numbers, Numbers]:
        """Return points and targets, whose kernel there is now."""
        points, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True
        )
        self.kernel_ = kernel_of_points(
            self.kernel, points.shape[1], bandwidth=self.bandwidth, gamma=self.gamma
        )
        return points, np.asarray(targets, np.float64)

    def predict(self, X: ArrayLike) -> Numbers:
        """Numbers predicted for points X (n, d), float64 of shape (n,) or (n, targets)."""
        check_is_fitted(self, "kernel_")
        return self._predict(validate_data(self, X, reset=False, dtype=np.float64))


@estimator()
class BlockRidge(BaseRidge):
    """Kernel ridge regression by itself in each cluster of points.

    `sklearn.kernel_ridge.KernelRidge` with the kernel between clusters taken for 0 (Si et al.,
    §4.1): n/c points in a cluster cost (n/c)^3 operations each. A new point is predicted by the
    cluster that it is nearest to. There is no intercept: far from all points predictions go to 0.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy", or
        one of `streamk.kernels` but NTK and Linear.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, scikit-learn's ``gamma=1/d``, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    alpha : float, default 1
        What is added to the diagonal, as of `KernelRidge`.
    n_clusters : int, optional
        Most clusters. By default one for each 1,000 points, rounded down, and 1 for fewer.
    n_jobs : int, optional
        Threads; 1 by default, -1 for all cores. Results do not depend on it.
    random_state : int, RandomState or None, default None
        Of the clusters.

    Attributes
    ----------
    dual_coef_ : float64 array of shape (n,) or (n, targets)
    X_fit_ : float64 array of shape (n, d)
    cluster_centers_ : float64 array of shape (clusters, d)
    kernel_ : Kernel
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import BlockRidge
    >>> X, y = make_friedman1(3_000, random_state=0)
    >>> model = BlockRidge(gamma=0.1, alpha=1e-3, n_clusters=4, random_state=0)
    >>> bool(model.fit(X[:2_000], y[:2_000]).score(X[2_000:], y[2_000:]) > 0.9)
    True
    """

    kernel: str | Kernel = field(default="gaussian", kw_only=False)
    bandwidth: float | None = None
    gamma: float | None = None
    alpha: float = 1.0
    n_clusters: int | None = None
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None

    def _fit(self, points: Numbers, y: Numbers) -> None:
        check_number("alpha", self.alpha)
        count, seed = count_of_parts(self.n_clusters, len(points)), drawn_seed(self.random_state)
        self._blocks: BlockKernel = block_kernel(
            points, self.kernel_, n_clusters=count, seed=seed, threads=threads_of(self.n_jobs)
        )
        self.X_fit_, self.cluster_centers_ = points, self._blocks.centers
        self.dual_coef_: Numbers = self._blocks.solve(self.alpha, y)

    def _predict(self, points: Numbers) -> Numbers:
        return self._blocks.predict(points, self.dual_coef_)


@estimator()
class KernelRegression(BaseRidge):
    """Kernel regression by EigenPro 2.0, whose centers are all points of the data.

    Gradient steps on batches with a Nyström preconditioner go toward the function that interpolates
    the targets, and stop after some epochs, which is its regularization (Ma and Belkin 2019;
    Abedsoltan, Belkin and Pandit 2023, Algorithm 3). Step sizes and the level of the preconditioner
    follow from the spectrum of the kernel on a sample. No matrix of points by points is stored: an
    epoch takes the time of n^2 (d + targets) multiplications and memory in proportion to n.

    Targets are centered. For classes, give a column of +1 and -1 for each.

    Parameters
    ----------
    kernel : str or Kernel, default "laplacian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", or one of `streamk.kernels` but Linear. The papers' Laplace kernel is
        ``Matern(nu=0.5)``.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, scikit-learn's ``gamma=1/d``, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    n_epochs : int, default 10
    batch_size : int, default 256
    random_state : int, RandomState or None, default None
        Of the sample and of the order of the points.

    Attributes
    ----------
    dual_coef_ : float64 array of shape (n,) or (n, targets)
    intercept_ : float64 array of shape () or (targets,)
    X_fit_ : float32 array of shape (n, d)
    kernel_ : Kernel
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import KernelRegression
    >>> X, y = make_friedman1(3_000, random_state=0)
    >>> model = KernelRegression(random_state=0).fit(X[:2_000], y[:2_000])
    >>> bool(model.score(X[2_000:], y[2_000:]) > 0.9)
    True
    """

    kernel: str | Kernel = field(default="laplacian", kw_only=False)
    bandwidth: float | None = None
    gamma: float | None = None
    n_epochs: int = 10
    batch_size: int = 256
    random_state: int | np.random.RandomState | None = None

    def _fit(self, points: Numbers, y: Numbers) -> None:
        for name in ("n_epochs", "batch_size"):
            check_count(name, getattr(self, name))
        if isinstance(self.kernel_, Linear):
            raise InvalidInput("kernel='linear' has too few functions to interpolate; take another")
        X, targets = points.astype(np.float32), y.reshape(len(y), -1)
        seed = drawn_seed(self.random_state)
        m = self.batch_size
        some = preconditioned(self.kernel_, X, batch_size=m, seed=seed)
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
        orders = (random.permutation(len(X)) for _ in range(self.n_epochs))
        mean = targets.mean(axis=0)
        start = np.zeros_like(targets)
        theta = interpolated(self.kernel_, X, *some, start, targets - mean, orders, batch_size=m)
        self.X_fit_, self.dual_coef_ = X, theta.reshape(y.shape)
        self.intercept_ = mean.reshape(y.shape[1:])

    def _predict(self, points: Numbers) -> Numbers:
        coefficients = self.dual_coef_.reshape(len(self.X_fit_), -1)
        found = self.kernel_.product(points.astype(np.float32), self.X_fit_, coefficients)
        shape = (len(points), *self.dual_coef_.shape[1:])
        return np.asarray(found.reshape(shape) + self.intercept_)
