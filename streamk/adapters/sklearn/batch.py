"""EigenPro 2.0, recursive feature machines and DC-Pred++, for data that are there all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin
from sklearn.utils.validation import validate_data

from streamk.adapters.options import estimator
from streamk.adapters.rows import merged, relative
from streamk.adapters.sklearn.clusters import BaseRidge
from streamk.adapters.sklearn.estimators import (
    EVENTS,
    RANDOM_STATE,
    AtOnce,
    ByNumbers,
    ByOutputs,
    Weighted,
    counting,
    drawn_seed,
    of_points,
)
from streamk.errors import InvalidInput
from streamk.kernels import Kernel, Linear
from streamk.landmarks.matrices import Numbers
from streamk.landmarks.selection import check_count
from streamk.learners.eigenpro.projection import interpolated, preconditioned
from streamk.learners.rfm.machine import OPTIONS as OF_RFM
from streamk.learners.rfm.machine import RFM, rfm
from streamk.learners.rfm.metric import Weights, deviations, of_rows
from streamk.learners.rfm.solving import inverse_temperature, probabilities
from streamk.options import Whole, of_parameters
from streamk.prediction.compiled import CompiledModel
from streamk.prediction.dc_pred import OPTIONS, dc_pred

__all__ = [
    "DCPredClassifier",
    "DCPredRegressor",
    "KernelRegression",
    "RFMClassifier",
    "RFMRegressor",
]


@estimator(
    of_points(
        "linear", default="laplacian", doc="The papers' Laplace kernel is ``Matern(nu=0.5)``."
    )
    | {
        "n_epochs": Whole(default=10, doc="Passes over the points."),
        "batch_size": Whole(default=256, doc="Points a step."),
        "random_state": RANDOM_STATE,
    },
    by_place=("kernel",),
)
class KernelRegression(BaseRidge):
    """Kernel regression by EigenPro 2.0, whose centers are all points of the data.

    Gradient steps on batches with a Nyström preconditioner go toward the function that interpolates
    the targets, and stop after some epochs, which is its regularization (Ma and Belkin 2019;
    Abedsoltan, Belkin and Pandit 2023, Algorithm 3). Step sizes and the level of the preconditioner
    follow from the spectrum of the kernel on a sample. No matrix of points by points is stored: an
    epoch takes the time of n^2 (d + targets) multiplications and memory in proportion to n.

    Targets are centered. For classes, give a column of +1 and -1 for each.

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

    def _fit(self, points: Numbers, y: Numbers, weights: Numbers | None) -> None:
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


_OF_RFM = of_parameters(rfm, OF_RFM) | {"random_state": RANDOM_STATE}


class _RFM(Weighted):
    """The common part of the classifier and the regressor.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Of a classifier.
    feature_importances_ : float64 array of shape (d,)
        The diagonal of the metric over its sum: the share of each column, in the unit of its
        deviation, in the squared gradient of the round before.
    metric_ : float64 array of shape (d, d)
        Of the scaled columns.
    n_rounds_ : int
        The round that was kept, 0 for plain kernel ridge regression.
    kernel_ : Kernel
    machine_ : RFM
    n_features_in_ : int
    """

    _ROWS = EVENTS

    def _weighted(
        self, points: Numbers, labels: NDArray[Any], sample_weight: ArrayLike | None
    ) -> tuple[Numbers, NDArray[Any], Weights]:
        """Return the events that count, with labels and weights, unless these are all the same."""
        points, labels, weights = counting(points, labels, sample_weight)
        if weights is None:
            return points, labels, None
        if len(weights) < 2:
            raise InvalidInput(
                f"{len(weights)} events have a sample weight above 0; at least 2 are needed"
            )
        weights = relative(weights)
        return points, labels, None if (weights == weights[0]).all() else weights

    def _fit(self, points: Numbers, targets: Numbers, error: str, weights: Weights) -> None:
        options = self.get_params(deep=False)
        seed = drawn_seed(options.pop("random_state"))
        self.machine_: RFM = rfm(
            points, targets, seed=seed, error=error, weights=weights, **options
        )
        self.kernel_: Kernel = self.machine_.family.kernel
        self.metric_: Numbers = self.machine_.metric.matrix
        self.feature_importances_: Numbers = self.machine_.metric.shares
        self.n_rounds_: int = self.machine_.round

    def _outputs(self, points: Numbers) -> Numbers:
        return self.machine_.predict(points)


@estimator(_OF_RFM, by_place=("kernel",))
class RFMClassifier(ByOutputs, _RFM):
    """Classification by a recursive feature machine: a kernel that learns which directions matter.

    Kernel ridge regression on classes, 1 for the class and -1 for the others, in a metric of the
    columns that is learned (Radhakrishnan, Beaglehole, Pandit and Belkin 2024): the average
    gradient outer product of one round's function is the metric of the next one.
    `streamk.learners.rfm.machine.rfm` has the method. Nothing has to be chosen: scale
    of the columns, kernel, bandwidth, regularization, kind of metric and number of rounds are those
    of the least error on held-back events: squared of classes, absolute of numbers. No scaler is
    needed before it, and NaN is missing.

    Probabilities are a softmax of the regressions, whose inverse temperature is fitted to the
    held-back events. Weights times a number are the same.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.adapters.sklearn import RFMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> bool(cross_val_score(RFMClassifier(random_state=0), X, y, cv=3).mean() > 0.95)
    True
    """

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        points, labels, weights = self._weighted(*self._labelled(X, y), sample_weight)
        points, numbers, weights = merged(points, self._numbered(labels), weights)
        self._fit(points, self._targets(numbers), "squared", weights)
        held, margins = self.machine_.held, self.machine_.margins
        self._factor: float = inverse_temperature(margins, numbers[held], of_rows(weights, held))

    def predict_proba(self, X: ArrayLike) -> Numbers:
        """Return probabilities (n, n_classes), float64, of events X (n, d)."""
        return probabilities(self._outputs(self._points(X)), self._factor)


@estimator(_OF_RFM, by_place=("kernel",))
class RFMRegressor(MultiOutputMixin, ByNumbers, _RFM):  # type: ignore[misc]
    """As `RFMClassifier`, for numbers to be predicted, in any unit.

    Several targets share a metric, and each counts in the unit of its deviation.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import RFMRegressor
    >>> X, y = make_friedman1(800, random_state=0)
    >>> model = RFMRegressor(random_state=0).fit(X[:500], y[:500])
    >>> bool(model.score(X[500:], y[500:]) > 0.95)
    True
    >>> sorted(model.feature_importances_.argsort()[-5:].tolist())
    [0, 1, 2, 3, 4]
    """

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        points, numbers = validate_data(
            self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2, **EVENTS
        )
        points, numbers, weights = self._weighted(points, numbers, sample_weight)
        points, numbers, weights = merged(points, numbers, weights)
        targets = np.asarray(numbers, np.float64).reshape(len(points), -1)
        spread = deviations(targets, weights)
        self._units: Numbers = np.where(spread > 0.0, spread, 1.0)
        self._shape: tuple[int, ...] = np.shape(numbers)[1:]
        self._fit(points, targets / self._units, "absolute", weights)

    def _predict(self, points: Numbers) -> Numbers:
        F = self._outputs(points) * self._units
        return np.asarray(F.reshape(len(F), *self._shape))


_OF_TREES = of_parameters(dc_pred, OPTIONS) | {"random_state": RANDOM_STATE}


class _DCPred(AtOnce):
    """The common part of the classifier and the regressor."""

    _ROWS = EVENTS

    def _fit(self, X: Numbers, y: NDArray[Any], task: str) -> None:
        options = self.get_params(deep=False)
        seed = drawn_seed(options.pop("random_state"))
        self.model_: CompiledModel = dc_pred(X, y, task=task, seed=seed, **options)


@estimator(_OF_TREES)
class DCPredClassifier(ByOutputs, _DCPred):
    """Trees of small kernel models, which predict in the time of some linear models (DC-Pred++).

    `streamk.prediction.dc_pred` has the method. Columns are scaled by the model itself, and NaN is
    missing.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    model_ : CompiledModel
        Its classes are the positions in `classes_`.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import DCPredClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DCPredClassifier(budget=5, random_state=0).fit(X[:1200], y[:1200])
    >>> model.score(X[1200:], y[1200:]) > 0.9, model.model_.cost < 5
    (True, True)
    """

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        events, labels = self._labelled(X, y)
        self._fit(events, self._numbered(labels), "classification")

    def _outputs(self, points: Numbers) -> Numbers:
        return self.model_.decision_many(points)

    def predict_proba(self, X: ArrayLike) -> Numbers:
        """Return probabilities (n, n_classes) of events X (n, d)."""
        points = self._points(X)  # which finds what is not fitted
        return self.model_.predict_proba_many(points)


@estimator(_OF_TREES)
class DCPredRegressor(ByNumbers, _DCPred):
    """As `DCPredClassifier`, for numbers to be predicted, in any unit.

    Attributes
    ----------
    model_ : CompiledModel
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import DCPredRegressor
    >>> X, y = make_friedman1(3_000, random_state=0)
    >>> model = DCPredRegressor(budget=20, random_state=0).fit(X[:2_000], y[:2_000])
    >>> bool(model.score(X[2_000:], y[2_000:]) > 0.9)
    True
    """

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        events, numbers = validate_data(self, X, y, ensure_min_samples=2, y_numeric=True, **EVENTS)
        self._fit(events, numbers, "regression")

    def _predict(self, points: Numbers) -> Numbers:
        return self.model_.predict_many(points)
