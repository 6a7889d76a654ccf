"""Recursive feature machines as scikit-learn estimators, in batch and on a stream."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from streamk import learners
from streamk.adapters.options import GAMMA, WithMetric, chosen, estimator
from streamk.adapters.sharing import Shared
from streamk.adapters.sklearn.estimators import Classifier, Estimator, Regressor
from streamk.adapters.sklearn.options import check_classes, drawn_seed, labels_of
from streamk.adapters.weights import merged, relative
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers
from streamk.learners import Learner
from streamk.learners.rfm.machine import RFM, rfm
from streamk.learners.rfm.metric import Weights, deviations, of_rows
from streamk.learners.rfm.solving import inverse_temperature, probabilities

__all__ = ["FeatureMachineClassifier", "FeatureMachineRegressor", "RFMClassifier", "RFMRegressor"]

_EVENTS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""Requirements of events."""


@estimator()
class _RFM(Shared, BaseEstimator):  # type: ignore[misc]
    """The common part of the classifier and the regressor."""

    kernel: str | Kernel = field(default="auto", kw_only=False)
    bandwidth: float | None = None
    regularization: float | None = None
    metric: str = "auto"
    rounds: int = 8
    n_centers: int = 10_000
    selection: str = "random"
    random_state: int | np.random.RandomState | None = None

    def _weighted(
        self, points: Numbers, labels: NDArray[Any], sample_weight: ArrayLike | None
    ) -> tuple[Numbers, NDArray[Any], Weights]:
        """Return the events that count, with labels and weights.

        Raises
        ------
        InvalidInput
            If fewer than 2 events count.
        ValueError
            If weights are negative or do not fit, as scikit-learn says it.
        """
        if sample_weight is None:
            return points, labels, None
        weights = relative(
            _check_sample_weight(sample_weight, points, dtype=np.float64, ensure_non_negative=True)
        )
        counts = weights > 0.0
        if counts.sum() < 2:
            raise InvalidInput(
                f"{counts.sum()} events have a sample weight above 0; at least 2 are needed"
            )
        kept = weights[counts]
        return points[counts], labels[counts], None if (kept == kept[0]).all() else kept

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

    def _outputs(self, X: ArrayLike) -> Numbers:
        check_is_fitted(self, "machine_")
        return self.machine_.predict(validate_data(self, X, reset=False, **_EVENTS))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class RFMClassifier(ClassifierMixin, _RFM):  # type: ignore[misc]
    """Classification by a recursive feature machine: a kernel that learns which directions matter.

    Kernel ridge regression on classes, 1 for the class and -1 for the others, in a metric of the
    columns that is learned (Radhakrishnan, Beaglehole, Pandit and Belkin 2024): the average
    gradient outer product of one round's function is the metric of the next one.
    `streamk.learners.rfm.machine.rfm` has the method. Nothing has to be chosen: scale
    of the columns, kernel, bandwidth, regularization, kind of metric and number of rounds are those
    of the least error on held-back events: squared of classes, absolute of numbers. No scaler is
    needed before it, and NaN is missing.

    Probabilities are a softmax of the regressions, whose inverse temperature is fitted to the
    held-back events.

    Parameters
    ----------
    kernel : str or Kernel, default "auto"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy", one
        of `streamk.kernels` of these, or "auto": the best one of "laplacian", "power_exponential"
        and ``Matern(nu=0.5)``, the Laplace kernel of the L2 distance.
    bandwidth : float, optional
        Of a kernel given by name, in units of the scaled columns, of which two events are sqrt(2)
        apart in the root of the mean square; sqrt(d) times as much for "laplacian", and 4 d^1.5 /
        15 times for "power_exponential".
    regularization : float, optional
        The variance of the labels' noise for a function of variance 1; .0001 to 30 by default.
    metric : {"auto", "diagonal", "full"}, default "auto"
        "auto" compares both up to 128 columns; of more it is diagonal.
    rounds : int, default 8
        At most so many after the first, which is plain kernel ridge regression.
    n_centers : int, default 10000
        Up to so many events, each is a center; of more, these are chosen, and all events learned.
    selection : {"random", "rpcholesky", "oasis"}, default "random"
        How.
    random_state : int, RandomState or None, default None
        Of which events are held back.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
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

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.adapters.sklearn import RFMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> bool(cross_val_score(RFMClassifier(random_state=0), X, y, cv=3).mean() > 0.95)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric and the regressions.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN where missing.
        y : array of shape (n,)
            Labels of any kind that can be sorted.
        sample_weight : array of shape (n,), optional
            What each event counts beside the others: 0 is as if it were not there, 2 beside 1 as if
            it were there twice. All of them times a number are the same.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain, all labels are of one class, or fewer than 2 events
            have a weight above 0.
        ValueError
            If events or labels do not fit, as scikit-learn says it.
        """
        points, labels = validate_data(self, X, labels_of(y), ensure_min_samples=2, **_EVENTS)
        check_classification_targets(labels)
        points, labels, weights = self._weighted(points, labels, sample_weight)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        check_classes(self.classes_)
        points, numbers, weights = merged(points, numbers, weights)
        targets = np.where(numbers[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        if len(self.classes_) == 2:
            targets = targets[:, 1:]
        self._fit(points, targets, "squared", weights)
        held, margins = self.machine_.held, self.machine_.margins
        self._factor: float = inverse_temperature(margins, numbers[held], of_rows(weights, held))
        return self

    def decision_function(self, X: ArrayLike) -> Numbers:
        """Predictions of the regressions before any decision.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        float64 array of shape (n,) for two classes, positive for the second, or (n, n_classes)
        """
        F = self._outputs(X)
        return F[:, 0] if F.shape[1] == 1 else F

    def predict_proba(self, X: ArrayLike) -> Numbers:
        """Return probabilities (n, n_classes), float64, of events X (n, d)."""
        return probabilities(self._outputs(X), self._factor)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (n,) of events X (n, d)."""
        F = self.decision_function(X)
        numbers = F.argmax(axis=1) if F.ndim == 2 else (F > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[numbers]
        return labels


class RFMRegressor(MultiOutputMixin, RegressorMixin, _RFM):  # type: ignore[misc]
    """As `RFMClassifier`, for numbers to be predicted, in any unit.

    Several targets share a metric, and each counts in the unit of its deviation.

    Parameters
    ----------
    kernel : str or Kernel, default "auto"
    bandwidth : float, optional
    regularization : float, optional
    metric : {"auto", "diagonal", "full"}, default "auto"
    rounds : int, default 8
    n_centers : int, default 10000
    selection : {"random", "rpcholesky", "oasis"}, default "random"
    random_state : int, RandomState or None, default None
        These are described in `RFMClassifier`.

    Attributes
    ----------
    feature_importances_ : float64 array of shape (d,)
    metric_ : float64 array of shape (d, d)
    n_rounds_ : int
    kernel_ : Kernel
    machine_ : RFM
    n_features_in_ : int
        These are described in `RFMClassifier`, too.

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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric and the regression.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN where missing.
        y : array of shape (n,) or (n, targets)
        sample_weight : array of shape (n,), optional
            What each event counts beside the others: 0 is as if it were not there, 2 beside 1 as if
            it were there twice. All of them times a number are the same.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain, or fewer than 2 events have a weight above 0.
        ValueError
            If events or targets do not fit, as scikit-learn says it.
        """
        points, numbers = validate_data(
            self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2, **_EVENTS
        )
        points, numbers, weights = self._weighted(points, numbers, sample_weight)
        points, numbers, weights = merged(points, numbers, weights)
        targets = np.asarray(numbers, np.float64).reshape(len(points), -1)
        spread = deviations(targets, weights)
        self._units: Numbers = np.where(spread > 0.0, spread, 1.0)
        self._shape: tuple[int, ...] = np.shape(numbers)[1:]
        self._fit(points, targets / self._units, "absolute", weights)
        return self

    def predict(self, X: ArrayLike) -> Numbers:
        """Return numbers, float64 of shape (n,) or (n, targets), for events X (n, d)."""
        F = self._outputs(X) * self._units
        return np.asarray(F.reshape(len(F), *self._shape))


@estimator(GAMMA)
class _FeatureMachine(WithMetric, Estimator):
    """The common part of the classifier and the regressor."""

    random_state: int | np.random.RandomState | None = None

    @property
    def feature_importances_(self) -> Numbers:
        """The shares of the columns in the metric's diagonal, float64 (n_features_in_,)."""
        check_is_fitted(self, "learner_")
        learner: Any = self._model.learner
        with self._model.lock:
            shares: Numbers = learner.learner.column_shares
            if self._names is None:
                return shares
            owners = self._model.owners(self._names)
        return np.asarray(np.bincount(owners, shares, len(self._names)), np.float64)

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        seed = int(random.randint(2**31))
        return learners.create(
            "feature-machine", task=self._task, seed=seed, **chosen(self), **options
        )


class FeatureMachineClassifier(Classifier, _FeatureMachine):
    """Kernel classification in a metric of the columns that is learned, on a stream.

    A recursive feature machine (`streamk.learners.FeatureMachine`) behind an online scaling of the
    columns (`streamk.learners.Scaled`), so that no scaler is needed before it. NaN is missing and
    counts as the column's median. It is kernel ridge regression on classes, +1 and -1 for each,
    and learns anew from time to time which columns and directions matter. `fit` goes through its
    events once, in a random order, and `partial_fit` in the order given. For data that are there
    all at once `RFMClassifier` is the same method in batch, and compares more.

    Parameters
    ----------
    kernel : str or Kernel, optional
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy", or
        one of `streamk.kernels` of these. By default the best one of ``Matern(nu=0.5)``, the
        Laplace kernel of the L2 distance, with the bandwidths 1.5 and 6, "laplacian" and
        "power_exponential".
    bandwidth : float, optional
        Of ``Matern(nu=0.5)``, which then is the only one, or of a kernel given by name, 1.5 else;
        in units of the scaled columns: two events of the stream are sqrt(2) apart in the root of
        the mean square.
    metric : {"auto", "diagonal", "full"}, default "auto"
        A factor for each column, or a matrix; "auto" compares both up to 128 columns. "laplacian",
        "power_exponential" and "cauchy" have diagonal ones only.
    rounds : int, default 4
        Metrics that are learned one after the other, at most; 0 is kernel ridge regression.
    buffer_size : int, default 4096
        Last events that are kept.
    reservoir_size : int, default 28672
        Sample of older ones.
    first : int, default 64
        Events before the first metric is begun.
    every : int, default 16384
        Events between two metrics later on; fewer where a stream changes fast.
    swap_delay : int, default 256
        Events after which a new function takes over, or does not, at least. The last five are
        described in `streamk.learners.FeatureMachine`.
    random_state : int, RandomState or None, default None
        Of the order of the events, and of the learner.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    learner_ : Learner
        Its labels are the positions in `classes_`.
    feature_importances_ : float64 array of shape (d,)
        The diagonal of the metric over its sum, equal shares before the first metric. A data
        frame's column has the sum over what became of its texts and dates.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.adapters.sklearn import FeatureMachineClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FeatureMachineClassifier(random_state=0)
    >>> bool(cross_val_score(model, X, y, cv=3).mean() > 0.9)
    True
    """


class FeatureMachineRegressor(Regressor, _FeatureMachine):
    """As `FeatureMachineClassifier`, for numbers to be predicted, in any unit.

    Parameters
    ----------
    kernel : str or Kernel, optional
    bandwidth : float, optional
    metric : {"auto", "diagonal", "full"}, default "auto"
    rounds : int, default 4
    buffer_size : int, default 4096
    reservoir_size : int, default 28672
    first : int, default 64
    every : int, default 16384
    swap_delay : int, default 256
    random_state : int, RandomState or None, default None
        These are described in `FeatureMachineClassifier`.

    Attributes
    ----------
    learner_ : Learner
    feature_importances_ : float64 array of shape (d,)
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import FeatureMachineRegressor
    >>> X, y = make_friedman1(1200, random_state=0)
    >>> model = FeatureMachineRegressor(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.95)
    True
    >>> sorted(model.feature_importances_.argsort()[-5:].tolist())
    [0, 1, 2, 3, 4]
    """
