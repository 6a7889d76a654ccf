"""Kernel learners as scikit-learn estimators, whose options are those of `streamk.learners`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from streamk.adapters.options import LEFT_OUT, MANY, of_learner
from streamk.adapters.rows import Numbers
from streamk.adapters.sklearn.estimators import Classifier, Estimator, Regressor
from streamk.errors import InvalidInput, shown
from streamk.options import Whole

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "EigenProClassifier",
    "EigenProRegressor",
    "FeatureMachineClassifier",
    "FeatureMachineRegressor",
    "KernelClassifier",
    "KernelRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "NystromClassifier",
    "NystromRegressor",
]

_N_EPOCHS = Whole(
    default=1,
    doc="Passes of `fit` over its events, each in a new random order. `partial_fit` makes one, in "
    "the order given.",
)


@of_learner("multi-kernel", leave_out=LEFT_OUT | {"loss"}, advice=MANY)
class KernelClassifier(Classifier):
    """Kernel classification, for any number of classes, by a pass over the data or on a stream.

    Many kernels, bandwidths and step sizes learn side by side and are mixed as the data ask for
    (`streamk.learners.MultiKernel`), as in River's `streamk.adapters.river.KernelClassifier`: there
    is nothing to tune and no scaler is needed before it. `fit` goes through the events once, in a
    random order; `partial_fit` in the order given. A second pass would weigh the experts by what
    they remember. A single kernel, with options, is `DoublyStochasticClassifier`.

    Events are rows of an array, dense or CSR, or of a data frame of pandas, Polars, Arrow or
    another library that narwhals knows. Columns of a data frame may hold texts, categories, dates,
    lists and missing values, which become numbers as in River's estimators and on the command line
    (`streamk.encoding.columns`). NaN and null are missing.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.adapters.sklearn import KernelClassifier
    >>> model = KernelClassifier(random_state=0)
    >>> model
    KernelClassifier(random_state=0)
    >>> X, y = load_wine(return_X_y=True)
    >>> bool(cross_val_score(model, X, y, cv=3).mean() > 0.9)
    True
    """

    def _chosen(self) -> dict[str, Any]:
        found = super()._chosen()
        weights = found["class_weight"]
        if isinstance(weights, Mapping):
            numbers = {label: n for n, label in enumerate(self.classes_.tolist())}
            strange = [label for label in weights if label not in numbers]
            if strange:
                raise InvalidInput(
                    f"class_weight has a weight for {shown(strange[0])}, which is not one of the "
                    f"classes {shown(self.classes_)}"
                )
            found["class_weight"] = {numbers[label]: weights[label] for label in weights}
        return found

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of probabilities, times the weights of classes if there are any.

        Returns
        -------
        float64 array of shape (n,) or (n, n_classes)
            With two classes their difference, positive where the second one is predicted; else the
            largest one of the row is.
        """
        P = self.predict_proba(X)
        learner: Any = self.learner_
        with np.errstate(divide="ignore"):
            scores = np.log(learner.weighted(P))
        if len(self.classes_) > 2:
            return np.asarray(scores)
        return np.asarray(scores[:, -1] - scores[:, 0])


@of_learner("multi-kernel", leave_out=LEFT_OUT | {"class_weight"}, advice=MANY)
class KernelRegressor(Regressor):
    """Kernel regression, by a pass over the data or on a stream.

    As `KernelClassifier`, for numbers to be predicted, in any unit. A single kernel is
    `DoublyStochasticRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.adapters.sklearn import KernelRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    >>> model.predict_interval(X).shape
    (500, 2)
    """

    def predict_quantile(self, X: Any, levels: ArrayLike) -> NDArray[np.float64]:
        """Quantiles of the numbers to come, as past errors say.

        Returns
        -------
        float64 array of shape (n, m)

        Raises
        ------
        InvalidInput
            If a level is out of range.
        """
        return self._joined(X, "predict_quantile_many", levels)

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Intervals that hold so large a part of the numbers to come, float64 (n, 2).

        Raises
        ------
        InvalidInput
            If the level is out of range.
        """
        return self._joined(X, "predict_interval_many", level)


class _OneKernel(Estimator):
    def _chosen(self) -> dict[str, Any]:
        found = super()._chosen()
        if self.preconditioner is None and self.batch_size is None:
            found["batch_size"] = 8  # of several passes an event a step gets no more
        return found


@of_learner("doubly-stochastic", bandwidth=0.7, n_epochs=replace(_N_EPOCHS, default=10))
class DoublyStochasticClassifier(Classifier, _OneKernel):
    """Classification by one kernel and random features, of any number of classes.

    Without a preconditioner a step is of 8 events by default. The default bandwidth is about that
    of `sklearn.svm.SVC`, whose ``gamma="scale"`` is ``bandwidth = sqrt(1/2)`` here.
    """


@of_learner("doubly-stochastic", bandwidth=0.7, n_epochs=replace(_N_EPOCHS, default=10))
class DoublyStochasticRegressor(Regressor, _OneKernel):
    """Regression by one kernel and random features, by passes over the data or on a stream.

    As `DoublyStochasticClassifier`, for numbers to be predicted. They are standardised as they
    come, so the step size and the parameter of a loss do not depend on their unit.
    """


class _Nystrom(Estimator):
    def _chosen(self) -> dict[str, Any]:
        found = super()._chosen()
        if self.regularization is None and self.optimizer == "newton":
            found["regularization"] = 1.0
        return found


@of_learner(
    "online-nystrom", bandwidth=0.7, optimizer="newton", n_epochs=replace(_N_EPOCHS, default=2)
)
class NystromClassifier(Classifier, _Nystrom):
    """Kernel classification on landmarks, by passes over the data or on a stream.

    A prediction takes as many kernels as there are landmarks, which the first pass finds. Of
    "newton" the regularization is 1 by default.
    """


@of_learner(
    "online-nystrom", bandwidth=0.7, optimizer="newton", n_epochs=replace(_N_EPOCHS, default=2)
)
class NystromRegressor(Regressor, _Nystrom):
    """Kernel regression on landmarks, by passes over the data or on a stream.

    As `NystromClassifier`, for numbers to be predicted. They are standardised as they come, so
    the parameter of a loss and a step size do not depend on their unit.
    """


@of_learner("kernel-ridge")
class KernelRidgeClassifier(Classifier):
    """Kernel ridge regression on classes, +1 and -1 for each, all at once or on a stream.

    Its coefficients go toward those of `sklearn.kernel_ridge.KernelRidge` and its regularization is
    chosen by itself; of more events than `max_centers` the last ones count.
    """


@of_learner("kernel-ridge")
class KernelRidgeRegressor(Regressor):
    """As `KernelRidgeClassifier`, for numbers to be predicted, in any unit."""


@of_learner("eigenpro", n_epochs=_N_EPOCHS)
class EigenProClassifier(Classifier):
    """Kernel classification on centers chosen among the events, by passes or on a stream.

    The solver "eigenpro" is better after some passes; "direct" counts each event as often.
    """


@of_learner("eigenpro", n_epochs=_N_EPOCHS)
class EigenProRegressor(Regressor):
    """As `EigenProClassifier`, for numbers to be predicted, in any unit."""


class _FeatureMachine(Estimator):
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


@of_learner("feature-machine")
class FeatureMachineClassifier(Classifier, _FeatureMachine):
    """Kernel classification in a metric of the columns that is learned, on a stream.

    It is kernel ridge regression on classes, +1 and -1 for each, and learns anew from time to time
    which columns and directions matter: `feature_importances_` has the shares of the columns. For
    data that are there all at once `RFMClassifier` is the same method in batch, and compares more.
    """


@of_learner("feature-machine")
class FeatureMachineRegressor(Regressor, _FeatureMachine):
    """As `FeatureMachineClassifier`, for numbers to be predicted, in any unit.

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
