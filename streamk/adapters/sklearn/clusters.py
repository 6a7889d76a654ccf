"""Kernel machines of clusters of points: support vectors, ridge regression, and MEKA."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from streamk.adapters.options import estimator
from streamk.adapters.rows import Numbers, merged
from streamk.adapters.sklearn.points import (
    AtOnce,
    BaseRidge,
    ByOutputs,
    Weighted,
    counting,
    of_points,
)
from streamk.adapters.sklearn.streams import RANDOM_STATE, drawn_seed
from streamk.errors import InvalidInput, shown
from streamk.factorization import meka
from streamk.factorization.approximation import MekaPredictor
from streamk.factorization.block import BlockKernel, block_kernel
from streamk.factorization.checks import check_size, checked_kernel, weights_of
from streamk.factorization.clusters import clustered, nearest
from streamk.factorization.solving import Unsolvable
from streamk.kernels import Gaussian, Kernel
from streamk.landmarks.matrices import Indices
from streamk.landmarks.selection import check_count
from streamk.options import Choice, Option, Real, Whole

__all__ = ["BlockRidge", "BlockSVC", "MekaClassifier", "MekaRidge"]

N_JOBS = Whole(
    default=None, doc="Threads; 1 by default, -1 for all cores. Results do not depend on it."
)
N_CLUSTERS = Whole(
    default=None,
    doc="Most clusters; more of them are faster and mostly less accurate. By default one for each "
    "1,000 points, rounded down, and 1 for fewer.",
)
ALPHA = Real(
    default=1.0, doc="What is added to the diagonal, as of `sklearn.kernel_ridge.KernelRidge`."
)
_POINTS = 1_000
"""Points of a cluster, on average, where the number of clusters is not given."""


_BY_CLUSTERS = of_points("ntk", "linear")
_LAST = {"n_jobs": N_JOBS, "random_state": RANDOM_STATE}
_CLASS_WEIGHT = Option(
    type='"balanced" or dict of label to float',
    default=None,
    doc='What the losses of each class count; "balanced" is for all classes alike.',
)


class _Clustered(AtOnce):
    """The common part of all: how many clusters, and threads."""

    @property
    def _threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _count(self, n: int) -> int:
        """Return into how many clusters n points are divided, one for each 1,000 by default."""
        return max(1, n // _POINTS) if self.n_clusters is None else self.n_clusters


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
        return np.asarray(self.svc.predict(X))

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


@estimator(
    _BY_CLUSTERS
    | {
        "C": Real(
            default=1.0,
            doc="Weight of the losses, as of `SVC`; it is not divided by the number of clusters.",
        ),
        "n_clusters": N_CLUSTERS,
        "class_weight": _CLASS_WEIGHT,
        "cache_size": Real(
            default=200.0,
            doc="Megabytes of kernels that LIBSVM keeps for each machine that is being trained.",
        ),
    }
    | _LAST,
    by_place=("kernel",),
)
class BlockSVC(ClassifierMixin, _Clustered):  # type: ignore[misc]
    """Support vector classification by a machine in each cluster of points (Si et al., §4.2).

    BKA-SVM: where the kernel between clusters counts as 0 the dual problem falls apart into one for
    each cluster, which scikit-learn's `SVC` (LIBSVM) solves. For c clusters of equal size training
    takes about 1/c of the time. With the same kernel a new point is predicted by the machine of the
    cluster that it is nearest to. A cluster with points of one class predicts that class. Each
    machine has an intercept of its own; the paper's have none.

    For probabilities put `sklearn.calibration.CalibratedClassifierCV` around it.

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

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from streamk.adapters.sklearn import BlockSVC
    >>> X, y = make_moons(5_000, noise=0.1, random_state=0)
    >>> model = BlockSVC(gamma=10.0, n_clusters=8, random_state=0).fit(X, y)
    >>> len(model.cluster_centers_), model.score(X, y) > 0.99
    (8, True)
    """

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Find the clusters and train a machine in each."""
        points, labels = self._labelled(X, y)
        numbers = self._numbered(labels)
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
        self.kernel_ = checked_kernel(self._made_kernel(points.shape[1]))
        clusters = clustered(
            points,
            self._count(len(points)),
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

    def decision_function(self, X: ArrayLike) -> Numbers:
        """Return the decision values of the machine of each point's cluster.

        With two classes that is its value; a cluster of one class says -1 or 1. With more, as
        `SVC(decision_function_shape="ovr")`: the number of classes that a class wins against, and
        up to a third more or less by its values; a class that the cluster does not have loses
        against those that it has.

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


@estimator(
    _BY_CLUSTERS | {"alpha": ALPHA, "n_clusters": N_CLUSTERS} | _LAST,
    by_place=("kernel",),
    example="gamma=0.1, alpha=1e-3, n_clusters=4, ",
)
class BlockRidge(BaseRidge, _Clustered):
    """Kernel ridge regression by itself in each cluster of points.

    `sklearn.kernel_ridge.KernelRidge` with the kernel between clusters taken for 0 (Si et al.,
    §4.1): n/c points in a cluster cost (n/c)^3 operations each. A new point is predicted by the
    cluster that it is nearest to. There is no intercept: far from all points predictions go to 0.

    Attributes
    ----------
    dual_coef_ : float64 array of shape (n,) or (n, targets)
    X_fit_ : float64 array of shape (n, d)
    cluster_centers_ : float64 array of shape (clusters, d)
    """

    def _fit(self, points: Numbers, y: Numbers, weights: Numbers | None) -> None:
        ALPHA.check("alpha", self.alpha)
        count, seed = self._count(len(points)), drawn_seed(self.random_state)
        self._blocks: BlockKernel = block_kernel(
            points, self.kernel_, n_clusters=count, seed=seed, threads=self._threads
        )
        self.X_fit_, self.cluster_centers_ = points, self._blocks.centers
        self.dual_coef_: Numbers = self._blocks.solve(self.alpha, y)

    def _predict(self, points: Numbers) -> Numbers:
        return self._blocks.predict(points, self.dual_coef_)


_OF_MEKA = _BY_CLUSTERS | {
    "alpha": ALPHA,
    "rank": Whole(default=128, doc="Directions of each cluster's basis."),
    "n_clusters": Whole(
        default=None,
        doc="By default ``sqrt(n / rank) / 2``, so that links take about an eighth of the memory "
        "of bases.",
    ),
    "basis": Option(type="str", default="rpcholesky", doc="As of `streamk.factorization.meka`."),
    "threshold": Real(default=0.0, doc="As of `streamk.factorization.meka`."),
    "solver": Choice(
        choices=("woodbury", "cg", "minres"),
        default=None,
        doc="As of the `solve` of `streamk.factorization.meka`.",
    ),
}


class _OnMeka(Weighted, _Clustered):
    """The common part of both: the approximation, and coefficients in it.

    Attributes
    ----------
    coef_ : float64 array of shape (directions,) or (directions, targets)
        Of a classifier, a target is a class, or the second one of two.
    cluster_centers_ : float64 array of shape (clusters, d)
    kernel_ : Kernel
    """

    def _fit(self, points: Numbers, y: Numbers, weights: Numbers | None) -> None:
        """Approximate the kernel matrix and solve for the coefficients."""
        check_count("rank", self.rank)
        Real(open_below=True).check("alpha", self.alpha)
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
            threads=self._threads,
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


@estimator(
    _OF_MEKA | _LAST,
    by_place=("kernel",),
    example="gamma=0.1, alpha=1e-3, rank=64, n_clusters=4, ",
)
class MekaRidge(_OnMeka, BaseRidge):
    """Kernel ridge regression on a memory efficient approximation of the kernel (§6.3).

    The coefficients solve ``(alpha I + W L W^T) a = y``; a new point has coordinates in the basis
    of the cluster that it is nearest to. Where W L W^T has eigenvalues below -alpha / 2, the
    negative ones are set to 0 (§7.1). There is no intercept: far from all points predictions go
    to 0, so targets with another mean are better centred. Weights are of squared errors, beside
    `alpha` as in `KernelRidge`; bases and clusters take no notice of them, but for 0.
    """


@estimator({**_OF_MEKA, "class_weight": _CLASS_WEIGHT, **_LAST}, by_place=("kernel",))
class MekaClassifier(ByOutputs, _OnMeka):
    """Classification by kernel ridge regression on a memory efficient approximation.

    Targets are 1 for the class and -1 for the others, one regression a class (one for two classes),
    as `sklearn.linear_model.RidgeClassifier` has it; the largest prediction decides.
    The weight of a point is times that of its class.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from streamk.adapters.sklearn import MekaClassifier
    >>> X, y = make_moons(2_000, noise=0.1, random_state=0)
    >>> model = MekaClassifier(gamma=5.0, alpha=0.1, rank=32, n_clusters=4, random_state=0)
    >>> bool(model.fit(X[:1_000], y[:1_000]).score(X[1_000:], y[1_000:]) > 0.99)
    True
    """

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        points, labels, weights = counting(*self._labelled(X, y), sample_weight)
        numbers = self._numbered(labels)
        self.kernel_: Kernel = self._made_kernel(points.shape[1])
        if self.class_weight is not None:
            of_class = weights_of(
                self._weights_of_classes(labels, numbers, weights), len(points), "class_weight"
            )
            weights = of_class if weights is None else of_class * weights
        self._fit(*counting(points, self._targets(numbers), weights))

    def _weights_of_classes(
        self, labels: NDArray[Any], numbers: Indices, weights: Numbers | None
    ) -> NDArray[Any]:
        """Return the weight of each point's class."""
        if self.class_weight != "balanced":
            return np.asarray(compute_sample_weight(self.class_weight, labels))
        sums = np.bincount(numbers, weights)
        return np.asarray((sums.mean() / sums)[numbers])
