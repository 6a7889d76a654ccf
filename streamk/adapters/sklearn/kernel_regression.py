"""Kernel regression with every point as a center, as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from streamk.adapters.options import estimator
from streamk.adapters.sklearn.options import drawn_seed
from streamk.adapters.sklearn.ridge import BaseRidge
from streamk.errors import InvalidInput
from streamk.kernels import Kernel, Linear
from streamk.landmarks.checks import check_count
from streamk.landmarks.matrices import Numbers
from streamk.learners.eigenpro.interpolation import Interpolation

__all__ = ["KernelRegression"]


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
        "gaussian", "laplacian", "matern", "rational_quadratic", "cauchy", "ntk", or one
        of `streamk.kernels` but Linear. The papers' Laplace kernel is ``Matern(nu=0.5)``.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d: scikit-learn's ``gamma=1/d``.
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
        steps = Interpolation.of(self.kernel_, X, batch_size=self.batch_size, seed=seed)
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
        orders = (random.permutation(len(X)) for _ in range(self.n_epochs))
        mean = targets.mean(axis=0)
        theta = steps.improved(np.zeros_like(targets), targets - mean, orders)
        self.X_fit_, self.dual_coef_ = X, theta.reshape(y.shape)
        self.intercept_ = mean.reshape(y.shape[1:])

    def _predict(self, points: Numbers) -> Numbers:
        coefficients = self.dual_coef_.reshape(len(self.X_fit_), -1)
        found = self.kernel_.product(points.astype(np.float32), self.X_fit_, coefficients)
        shape = (len(points), *self.dual_coef_.shape[1:])
        return np.asarray(found.reshape(shape) + self.intercept_)
