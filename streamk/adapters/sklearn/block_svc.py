"""Support vector machines of clusters of points, as a scikit-learn classifier (BKA-SVM)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk.adapters.options import estimator
from streamk.adapters.sharing import Shared
from streamk.adapters.sklearn.options import (
    check_classes,
    count_of_parts,
    drawn_seed,
    kernel_of_points,
    labels_of,
    threads_of,
)
from streamk.factorization.checks import check_size, checked_kernel
from streamk.factorization.clusters import clustered, nearest
from streamk.kernels import Gaussian, Kernel
from streamk.landmarks.matrices import Indices, Numbers

__all__ = ["BlockSVC"]


@dataclass(frozen=True)
class _Machine:
    """The support vector machine of one cluster."""

    present: Indices
    """Classes of its points, ascending numbers."""
    svc: SVC | None
    """None where there is one class: the solution is then that class everywhere."""

    def predict(self, X: Numbers) -> Indices:
        """Return the numbers of the classes, (n,)."""
        if self.svc is None:
            return np.repeat(self.present, len(X))
        numbers: Indices = self.svc.predict(X)
        return numbers

    def pairs(self, X: Numbers, n_classes: int) -> Numbers:
        """Return the decisions between any two classes, (n, n_classes (n_classes - 1) / 2).

        They are positive for the first one of a pair. A class that the cluster does not have loses
        to one that it has by 1, as the solution between points of one class says.
        """
        here = np.zeros(n_classes)
        here[self.present] = 1.0
        i, j = np.triu_indices(n_classes, 1)
        D = np.repeat((here[i] - here[j])[None], len(X), axis=0)
        if self.svc is not None:
            # Of two classes scikit-learn gives one number, positive for the second.
            own: Numbers = self.svc.decision_function(X)
            D[:, (here[i] * here[j]) > 0] = own if own.ndim == 2 else -own[:, None]
        return D

    def coefficients(self, n_classes: int) -> Numbers:
        """Return the coefficients of the support vectors, (n_classes - 1, support vectors).

        They are laid out as by `SVC`: a vector has one against each other class, in ascending
        order, which is 0 for classes that the cluster does not have.
        """
        if self.svc is None:
            return np.empty((n_classes - 1, 0))
        found = np.zeros((n_classes - 1, len(self.svc.support_)))
        # Of two classes scikit-learn gives the coefficients the sign of the second.
        own = self.svc.dual_coef_ * (-1.0 if len(self.present) == 2 < n_classes else 1.0)
        stops = np.cumsum(self.svc.n_support_)
        for k, first, stop in zip(self.present, stops - self.svc.n_support_, stops, strict=True):
            others = self.present[self.present != k]
            found[others - (others > k), first:stop] = own[:, first:stop]
        return found


@estimator()
class BlockSVC(ClassifierMixin, Shared, BaseEstimator):  # type: ignore[misc]
    """Support vector classification by a machine in each cluster of points (Si et al., §4.2).

    BKA-SVM: where the kernel between clusters counts as 0 the dual problem falls apart into one for
    each cluster, which scikit-learn's `SVC` (LIBSVM) solves. For c clusters of equal size training
    takes about 1/c of the time. With the same kernel a new point is predicted by the machine of the
    cluster that it is nearest to. A cluster with points of one class predicts that class. Each
    machine has an intercept of its own; the paper's have none.

    For probabilities put `sklearn.calibration.CalibratedClassifierCV` around it.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy", or
        one of `streamk.kernels` but NTK and Linear. LIBSVM evaluates the Gaussian kernel by itself;
        of others each cluster's matrix is formed.
    bandwidth : float, optional
        Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` for d
        columns, for "laplacian" d, ``gamma="auto"`` of `SVC`, and for "power_exponential" d^2.
    gamma : float, optional
        Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian"
        ``exp(-gamma |x-y|_1)``.
    C : float, default 1
        Weight of the losses, as of `SVC`; it is not divided by the number of clusters.
    n_clusters : int, optional
        Most clusters; more of them are faster and mostly less accurate. By default one for each
        1,000 points, rounded down, and 1 for fewer.
    class_weight : "balanced" or dict, optional
        Factors of `C`, as of `SVC`. Balanced are the classes of all points.
    cache_size : float, default 200
        Megabytes of kernels that LIBSVM keeps for each machine that is being trained.
    n_jobs : int, optional
        Threads, of which each has a cluster at a time; 1 by default, -1 for all cores. Results do
        not depend on it.
    random_state : int, RandomState or None, default None
        Of the clusters.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    cluster_centers_ : float64 array of shape (clusters, d)
    kernel_ : Kernel
    n_support_ : int64 array of shape (clusters,)
        Support vectors of each machine.
    support_ : int64 array of shape (support vectors,)
        Their rows in the fitted `X`, those of one machine after those of the other.
    dual_coef_ : float64 array of shape (n_classes - 1, support vectors)
        Their coefficients, laid out as by `SVC`: against each other class, 0 for classes that the
        cluster does not have.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from streamk.adapters.sklearn import BlockSVC
    >>> X, y = make_moons(5_000, noise=0.1, random_state=0)
    >>> model = BlockSVC(gamma=10.0, n_clusters=8, random_state=0).fit(X, y)
    >>> len(model.cluster_centers_), model.score(X, y) > 0.99
    (8, True)
    """

    kernel: str | Kernel = field(default="gaussian", kw_only=False)
    bandwidth: float | None = None
    gamma: float | None = None
    C: float = 1.0
    n_clusters: int | None = None
    class_weight: Any = None
    cache_size: float = 200.0
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the clusters and train a machine in each.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
            Labels of any kind that can be sorted.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain, all labels are of one class, or a cluster is too
            large for a kernel that is not Gaussian.
        ValueError
            If points or labels do not fit or LIBSVM refuses an option, as scikit-learn says it.
        """
        points, labels = validate_data(self, X, labels_of(y), dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        check_classes(self.classes_)
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
        self.kernel_ = checked_kernel(
            kernel_of_points(
                self.kernel, points.shape[1], bandwidth=self.bandwidth, gamma=self.gamma
            )
        )
        clusters = clustered(
            points,
            count_of_parts(self.n_clusters, len(points)),
            seed=drawn_seed(self.random_state),
            threads=self._threads,
        )

        def train(rows: Indices) -> _Machine:
            return self._train(points[rows], numbers[rows], weights)

        # Those that take longest come first, so that no thread ends long after the others.
        order = np.argsort([-len(rows) for rows in clusters.rows], kind="stable")
        machines = self._parallel(train, (clusters.rows[s] for s in order))
        self._machines: list[_Machine] = [machines[place] for place in np.argsort(order)]
        self.cluster_centers_ = clusters.centers
        self.n_support_ = np.array(
            [0 if m.svc is None else len(m.svc.support_) for m in self._machines]
        )
        self.support_: Indices = np.concatenate(
            [
                rows[:0] if machine.svc is None else rows[machine.svc.support_]
                for rows, machine in zip(clusters.rows, self._machines, strict=True)
            ]
        )
        self.dual_coef_: Numbers = np.hstack(
            [machine.coefficients(len(self.classes_)) for machine in self._machines]
        )
        return self

    def _train(self, X: Numbers, numbers: Indices, weights: Numbers) -> _Machine:
        present = np.unique(numbers)
        if isinstance(self.kernel_, Gaussian):
            options = {"kernel": "rbf", "gamma": 0.5 / self.kernel_.bandwidth**2}
        else:
            check_size(len(X))
            options = {"kernel": self.kernel_.pairwise}
        svc = SVC(
            C=self.C,
            cache_size=self.cache_size,
            class_weight={int(k): float(weights[k]) for k in present},
            decision_function_shape="ovo",
            **options,
        )
        return _Machine(present, svc.fit(X, numbers) if len(present) > 1 else None)

    @property
    def _threads(self) -> int:
        return threads_of(self.n_jobs)

    def _parallel(self, work: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """Return what work makes of each item; LIBSVM lets other threads run."""
        jobs = (delayed(work)(item) for item in items)
        results: list[Any] = Parallel(n_jobs=self.n_jobs, require="sharedmem")(jobs)
        return results

    def _by_cluster(self, X: Numbers, out: NDArray[Any], decide: Callable[..., Any]) -> None:
        """Fill in what the machine of each point's cluster says."""
        labels = nearest(X, self.cluster_centers_, self._threads)

        def predict(s: int) -> None:
            some = labels == s
            out[some] = decide(self._machines[s], X[some])

        self._parallel(predict, np.unique(labels).tolist())

    def _points(self, X: ArrayLike) -> Numbers:
        check_is_fitted(self, "_machines")
        points: Numbers = validate_data(self, X, reset=False, dtype=np.float64)
        return points

    def decision_function(self, X: ArrayLike) -> Numbers:
        """Return what the machine of each point's cluster decides by.

        With two classes that is its value; a cluster of one class says -1 or 1. With more, as
        `SVC(decision_function_shape="ovr")`: the number of classes that a class wins against, and
        up to a third more or less by its values; a class that the cluster does not have loses
        against those that it has.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        float64 array of shape (n,) or (n, n_classes)
            With two classes, positive where the second one is predicted.
        """
        points, n_classes = self._points(X), len(self.classes_)
        pairs = np.empty((len(points), n_classes * (n_classes - 1) // 2))
        self._by_cluster(points, pairs, lambda machine, some: machine.pairs(some, n_classes))
        return -pairs[:, 0] if n_classes == 2 else _against_the_rest(pairs, n_classes)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels of points X (n, d), shape (n,); ties between classes are broken as by `SVC`."""
        points = self._points(X)
        numbers = np.empty(len(points), np.int64)
        self._by_cluster(points, numbers, _Machine.predict)
        return self.classes_[numbers]


def _against_the_rest(pairs: Numbers, n_classes: int) -> Numbers:
    """Return votes of pairs for each class, moved by less than a third by the sums of values."""
    votes, sums = np.zeros((2, len(pairs), n_classes))
    for value, i, j in zip(pairs.T, *np.triu_indices(n_classes, 1), strict=True):
        sums[:, i] += value
        sums[:, j] -= value
        votes[:, i] += value > 0
        votes[:, j] += value < 0
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))
