"""Kernel ridge regression and classification on MEKA, as scikit-learn estimators."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from streamk.adapters.options import estimator
from streamk.adapters.sharing import Shared
from streamk.adapters.sklearn.options import (
    check_classes,
    drawn_seed,
    kernel_of_points,
    labels_of,
    threads_of,
)
from streamk.adapters.sklearn.ridge import BaseRidge
from streamk.adapters.weights import merged
from streamk.errors import InvalidInput, shown
from streamk.factorization import meka
from streamk.factorization.approximation import MekaPredictor
from streamk.factorization.checks import check_positive, weights_of
from streamk.factorization.solving import Unsolvable
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers
from streamk.landmarks.selection import check_count

__all__ = ["MekaClassifier", "MekaRidge"]


def _counting(
    points: Numbers, y: NDArray[Any], sample_weight: ArrayLike | None
) -> tuple[Numbers, NDArray[Any], Numbers | None]:
    """Return the points whose weight is not 0, with their targets and weights."""
    if sample_weight is None:
        return points, y, None
    weights = weights_of(
        _check_sample_weight(sample_weight, points, dtype=np.float64), len(points), "sample_weight"
    )
    counting = weights > 0.0
    return points[counting], y[counting], weights[counting]


@estimator()
class _OnMeka(Shared, BaseEstimator):  # type: ignore[misc]
    """The common part of both: the approximation, and coefficients in it."""

    kernel: str | Kernel = field(default="gaussian", kw_only=False)
    bandwidth: float | None = None
    gamma: float | None = None
    alpha: float = 1.0
    rank: int = 128
    n_clusters: int | None = None
    basis: str = "rpcholesky"
    threshold: float = 0.0
    solver: str | None = None
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None

    def _fit(self, points: Numbers, y: Numbers, weights: Numbers | None = None) -> None:
        """Approximate the kernel matrix and solve for the coefficients."""
        check_count("rank", self.rank)
        check_positive("alpha", self.alpha)
        points, y, weights = merged(points, y, weights)
        clusters = self.n_clusters
        if clusters is None:  # links, stored once a pair, take about an eighth of their bases
            clusters = max(1, round(math.sqrt(len(points) / self.rank) / 2))
        found = meka(
            points,
            self.kernel_,
            rank=self.rank,
            n_clusters=clusters,
            basis=self.basis,
            threshold=self.threshold,
            seed=drawn_seed(self.random_state),
            threads=threads_of(self.n_jobs),
        )
        if not found.is_definite(self.alpha / 2, weights=weights):
            found = found.psd()
        try:
            solution = found.solve(self.alpha, y, weights=weights, method=self.solver)
        except Unsolvable as error:
            raise InvalidInput(
                f"alpha={shown(self.alpha)} is too small: take a larger one"
            ) from error
        self.coef_: Numbers = found.weights(solution)
        self.cluster_centers_ = found.centers
        self._predictor: MekaPredictor = found.predictor(self.coef_)

    def _predict(self, points: Numbers) -> Numbers:
        return self._predictor(points)


class MekaRidge(_OnMeka, BaseRidge):
    """Kernel ridge regression on a memory efficient approximation of the kernel (§6.3).

    The coefficients solve ``(alpha I + W L W^T) a = y``; a new point has coordinates in the basis
    of the cluster that it is nearest to. Where W L W^T has eigenvalues below -alpha / 2, the
    negative ones are set to 0 (§7.1). There is no intercept: far from all points predictions go
    to 0, so targets with another mean are better centred.

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
        What is added to the diagonal, as of `sklearn.kernel_ridge.KernelRidge`.
    rank : int, default 128
        Directions of each cluster's basis.
    n_clusters : int, optional
        By default ``sqrt(n / rank) / 2``, so that links take about an eighth of the memory of
        bases.
    basis : str, default "rpcholesky"
    threshold : float, default 0
    solver : {"woodbury", "cg", "minres"}, optional
        These are described in `streamk.factorization.meka` and in its `solve`.
    n_jobs : int, optional
        Threads; 1 by default, -1 for all cores. Results do not depend on it.
    random_state : int, RandomState or None, default None

    Attributes
    ----------
    coef_ : float64 array of shape (directions,) or (directions, targets)
    cluster_centers_ : float64 array of shape (clusters, d)
    kernel_ : Kernel
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import MekaRidge
    >>> X, y = make_friedman1(3_000, random_state=0)
    >>> model = MekaRidge(gamma=0.1, alpha=1e-3, rank=64, n_clusters=4, random_state=0)
    >>> bool(model.fit(X[:2_000], y[:2_000]).score(X[2_000:], y[2_000:]) > 0.9)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Solve for the coefficients.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, targets)
        sample_weight : array of shape (n,), optional
            How much the squared error of each point counts, beside `alpha` as in `KernelRidge`.
            Points of weight 0 are left out; of the others bases and clusters take no notice of
            weights.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain, a weight is negative, all are 0, or the matrix is
            singular for so small an `alpha`.
        ValueError
            If points or targets do not fit, as scikit-learn says it.
        """
        self._fit(*_counting(*self._checked(X, y), sample_weight))
        return self


@estimator()
class MekaClassifier(ClassifierMixin, _OnMeka):  # type: ignore[misc]
    """Classification by kernel ridge regression on a memory efficient approximation.

    Targets are 1 for the class and -1 for the others, one regression a class (one for two classes),
    as `sklearn.linear_model.RidgeClassifier` has it; the largest prediction decides. Options are
    those of `MekaRidge`, and `class_weight`: what squared errors of each class count, by label, or
    "balanced" for all classes alike.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : float64 array of shape (directions, regressions)
    cluster_centers_ : float64 array of shape (clusters, d)
    kernel_ : Kernel
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from streamk.adapters.sklearn import MekaClassifier
    >>> X, y = make_moons(2_000, noise=0.1, random_state=0)
    >>> model = MekaClassifier(gamma=5.0, alpha=0.1, rank=32, n_clusters=4, random_state=0)
    >>> bool(model.fit(X[:1_000], y[:1_000]).score(X[1_000:], y[1_000:]) > 0.99)
    True
    """

    kernel: str | Kernel = field(default="gaussian", kw_only=False)
    bandwidth: float | None = None
    gamma: float | None = None
    alpha: float = 1.0
    rank: int = 128
    n_clusters: int | None = None
    basis: str = "rpcholesky"
    threshold: float = 0.0
    solver: str | None = None
    class_weight: str | dict[Any, float] | None = None
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Solve for the coefficients.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
            Labels of any kind that can be sorted.
        sample_weight : array of shape (n,), optional
            As that of `MekaRidge`; that of a point's class comes in, too.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain, all labels are of one class, a weight of points or
            classes is negative or all are 0.
        ValueError
            If points or labels do not fit, as scikit-learn says it.
        """
        points, labels = validate_data(self, X, labels_of(y), dtype=np.float64)
        check_classification_targets(labels)
        points, labels, weights = _counting(points, labels, sample_weight)
        binarizer = LabelBinarizer(neg_label=-1).fit(labels)
        check_classes(binarizer.classes_)
        self.classes_: NDArray[Any] = binarizer.classes_
        self.kernel_: Kernel = kernel_of_points(
            self.kernel, points.shape[1], bandwidth=self.bandwidth, gamma=self.gamma
        )
        if self.class_weight is not None:
            of_class = weights_of(
                self._weights_of_classes(labels, weights), len(points), "class_weight"
            )
            weights = of_class if weights is None else of_class * weights
        targets = binarizer.transform(labels).astype(np.float64)
        self._fit(*_counting(points, targets, weights))
        return self

    def _weights_of_classes(self, labels: NDArray[Any], weights: Numbers | None) -> NDArray[Any]:
        """Return the weight of each point's class."""
        if self.class_weight != "balanced":
            return np.asarray(compute_sample_weight(self.class_weight, labels))
        numbers = np.searchsorted(self.classes_, labels)
        sums = np.bincount(numbers, weights)
        return np.asarray((sums.mean() / sums)[numbers])

    def decision_function(self, X: ArrayLike) -> Numbers:
        """Predictions of the regressions before any decision.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        float64 array of shape (n,) for two classes, positive for the second, or (n, n_classes)
        """
        check_is_fitted(self, "classes_")
        F = self._predict(validate_data(self, X, reset=False, dtype=np.float64))
        return F[:, 0] if F.shape[1] == 1 else F

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels of points X (n, d), shape (n,)."""
        F = self.decision_function(X)
        numbers = F.argmax(axis=1) if F.ndim == 2 else (F > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[numbers]
        return labels
