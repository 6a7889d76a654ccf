"""Learners of many kernels as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import learners
from streamk.adapters.options import MANY, estimator
from streamk.adapters.sklearn.estimators import Classifier, Regressor
from streamk.errors import InvalidInput, shown
from streamk.learners import Learner
from streamk.learners.scaled import OfOneKernel
from streamk.losses import Loss

__all__ = ["KernelClassifier", "KernelRegressor"]


def _many_kernels(task: str, random: np.random.RandomState, **options: Any) -> Learner:
    seed = int(random.randint(2**31))
    return learners.create("multi-kernel", task=task, seed=seed, **options)


@estimator(MANY)
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

    Parameters
    ----------
    class_weight : "balanced" or dict of label to float, optional
        What it costs to miss each class: `predict` says the class with the largest product of
        weight and probability, and `predict_proba` is as ever; see `streamk.learners.MultiKernel`.
    external_experts : sequence of learners of one kernel, optional
        Learners of `streamk.learners` that join the experts: a `FeatureMachine` by default, ``[]``
        for none, which is several times as fast; see `streamk.learners.MultiKernel`.
    random_state : int, RandomState or None, default None
        Of the random features and of the order of `fit`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    learner_ : Learner
        Its labels are the positions in `classes_`.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        If events are rows of a data frame whose columns are named by texts.

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

    class_weight: str | Mapping[Any, float] | None = None
    external_experts: Sequence[OfOneKernel] | None = None
    random_state: int | np.random.RandomState | None = None

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        weights = self.class_weight
        if isinstance(weights, Mapping):
            numbers = {label: n for n, label in enumerate(self.classes_.tolist())}
            strange = [label for label in weights if label not in numbers]
            if strange:
                raise InvalidInput(
                    f"class_weight has a weight for {shown(strange[0])}, which is not one of the "
                    f"classes {shown(self.classes_)}"
                )
            weights = {numbers[label]: weight for label, weight in weights.items()}
        return _many_kernels(
            self._task,
            random,
            class_weight=weights,
            external_experts=self.external_experts,
            **options,
        )

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of probabilities, times the weights of classes if there are any.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)

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


@estimator(MANY)
class KernelRegressor(Regressor):
    """Kernel regression, by a pass over the data or on a stream.

    As `KernelClassifier`, for numbers to be predicted, in any unit. A single kernel is
    `DoublyStochasticRegressor`.

    Parameters
    ----------
    loss : {"squared", "huber", "quantile"} or Loss, optional
        See `streamk.learners.MultiKernel`: by default for the mean absolute error. One with a
        parameter is ``streamk.losses.loss("quantile", q=0.9)``, say.
    external_experts : sequence of learners of one kernel, optional
    random_state : int, RandomState or None, default None
        These are described in `KernelClassifier`.

    Attributes
    ----------
    learner_ : Learner
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)

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

    loss: str | Loss | None = None
    external_experts: Sequence[OfOneKernel] | None = None
    random_state: int | np.random.RandomState | None = None

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        return _many_kernels(
            self._task, random, loss=self.loss, external_experts=self.external_experts, **options
        )

    def predict_quantile(self, X: Any, levels: ArrayLike) -> NDArray[np.float64]:
        """Quantiles of the numbers to come, as past errors say.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)
        levels : array of shape (m,)
            Between 0 and 1.

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

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)
        level : float, default 0.9
            Between 0 and 0.99.

        Raises
        ------
        InvalidInput
            If the level is out of range.
        """
        return self._joined(X, "predict_interval_many", level)
