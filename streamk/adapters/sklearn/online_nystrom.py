"""Learners on landmarks that follow the events, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk import learners
from streamk.adapters.options import GAMMA, OnLandmarks, chosen, estimator
from streamk.adapters.sklearn.estimators import Classifier, Estimator, Regressor
from streamk.learners import Learner

__all__ = ["NystromClassifier", "NystromRegressor"]


@estimator(GAMMA)
class _Nystrom(OnLandmarks, Estimator):
    """The common part of the classifier and the regressor."""

    bandwidth: float = 0.7
    optimizer: str = "newton"
    n_epochs: int = 2
    random_state: int | np.random.RandomState | None = None

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        own = chosen(self)
        if self.regularization is None and self.optimizer == "newton":
            own["regularization"] = 1.0
        return learners.create("online-nystrom", task=self._task, **own, **options)


class NystromClassifier(Classifier, _Nystrom):
    """Kernel classification on landmarks, by passes over the data or on a stream.

    A learner on events that stand for the others (`streamk.learners.OnlineNystrom`) behind an
    online scaling of the columns (`streamk.learners.Scaled`), so that no scaler is needed before
    it. NaN is missing and counts as the column's median. A prediction takes as many kernels as
    there are landmarks.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", or one of `streamk.kernels` but Linear.
    bandwidth : float, default 0.7
        Of a kernel given by name, as of `DoublyStochasticClassifier`.
    loss : str or Loss, optional
        "softmax" by default; "logistic", "hinge", "squared_hinge", "squared", see `streamk.losses`.
    optimizer : {"newton", "sgd"}, default "newton"
        Steps of second order, or gradient steps, which the hinge, epsilon-insensitive and quantile
        losses need.
    step : float or Step, optional
        Of "sgd" only, 1 by default; see `streamk.learners.common.steps`.
    regularization : float, optional
        Of "newton" 1 by default, of "sgd" 0; see `streamk.learners.OnlineNystrom`.
    forgetting : float, default 1
        Of "newton": an event counts by this factor less for each one after it.
    max_landmarks : int, default 512
    tol : float, default 1e-3
        Squared distance that an event's kernel must have from the landmarks' span to become one.
    half_life : float, optional
        Events in which the claim of a landmark halves that nothing leans on.
    n_epochs : int, default 2
        Passes of `fit` over its events, each in a new random order: the first one finds the
        landmarks. `partial_fit` makes one, in the order given.
    random_state : int, RandomState or None, default None
        Of the orders.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    learner_ : Learner
        Its labels are the positions in `classes_`.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.adapters.sklearn import NystromClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(cross_val_score(NystromClassifier(random_state=0), X, y, cv=3).mean() > 0.9)
    True
    """


class NystromRegressor(Regressor, _Nystrom):
    """Kernel regression on landmarks, by passes over the data or on a stream.

    As `NystromClassifier`, for numbers to be predicted. They are standardised as they come, so
    the parameter of a loss and a step size do not depend on their unit.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
    bandwidth : float, default 0.7
    loss : str or Loss, optional
        "squared" by default, which is recursive least squares; "huber", "epsilon_insensitive",
        "quantile".
    optimizer : {"newton", "sgd"}, default "newton"
    step : float or Step, optional
        0.5 by default.
    regularization : float, optional
    forgetting : float, default 1
    max_landmarks : int, default 512
    tol : float, default 1e-3
    half_life : float, optional
    n_epochs : int, default 2
    random_state : int, RandomState or None, default None
        These are described in `NystromClassifier`.

    Attributes
    ----------
    learner_ : Learner
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.adapters.sklearn import NystromRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = NystromRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """
