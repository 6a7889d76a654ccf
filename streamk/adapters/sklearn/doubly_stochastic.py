"""Learners of one kernel by random features, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk import learners
from streamk.adapters.options import GAMMA, OneKernel, chosen, estimator
from streamk.adapters.sklearn.estimators import Classifier, Estimator, Regressor
from streamk.learners import Learner

__all__ = ["DoublyStochasticClassifier", "DoublyStochasticRegressor"]


@estimator(GAMMA)
class _OneKernel(OneKernel, Estimator):
    """The common part of the classifier and the regressor."""

    bandwidth: float = 0.7
    n_epochs: int = 10
    random_state: int | np.random.RandomState | None = None

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        given = {**chosen(self), "seed": int(random.randint(2**31)), **options}
        if self.preconditioner is None:
            given["batch_size"] = 8 if self.batch_size is None else self.batch_size
        return learners.create("doubly-stochastic", task=self._task, **given)


class DoublyStochasticClassifier(Classifier, _OneKernel):
    """Classification by one kernel, for any number of classes, by passes or on a stream.

    A doubly stochastic kernel learner (`streamk.learners.DoublyStochastic`) behind an online
    scaling of the columns (`streamk.learners.Scaled`), so that no scaler is needed before it. NaN
    is missing and counts as the column's median.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian" (also called "rbf"), "laplacian", "matern", "rational_quadratic", "cauchy",
        "linear", or one of `streamk.kernels` but NTK and PowerExponential.
    bandwidth : float, default 0.7
        Of a kernel given by name, in units of the scaled columns: two events are sqrt(2) apart in
        the root of the mean square. The default is about that of `sklearn.svm.SVC`, whose
        ``gamma="scale"`` is ``bandwidth = sqrt(1/2)`` here.
    loss : str or Loss, optional
        "softmax" by default; "logistic", "hinge", "squared_hinge", "squared", see `streamk.losses`.
    step : float or Step, optional
        A number is a constant size, see `streamk.learners.common.steps` for others. By default
        several sizes are learned by, and that of least recent loss predicts; with a preconditioner
        the size is found at each step.
    regularization : float, default 0
        Factor of half the squared norm that is added to the loss.
    preconditioner : {"block"}, optional
        By the covariance of a block's features on the events of a step: fewer and larger steps,
        best with blocks of some hundred features, see `streamk.learners.DoublyStochastic`.
    batch_size : int, optional
        Events a step, 8 by default, and twice the block with a preconditioner. `partial_fit`
        gathers them over its calls; `fit` ends with a step of what is left.
    block_size : int, default 2048
        Random features a step.
    max_features : int, default 2048
        All random features. Where it is more than `block_size`, steps take the blocks in turn.
    sampler : {"iid", "hadamard"}, default "iid"
        How random features are drawn. "hadamard" is faster from some 20 columns on, for kernels of
        the Euclidean distance, not "laplacian" or "cauchy".
    n_epochs : int, default 10
        Passes of `fit` over its events, each in a new random order. `partial_fit` makes one, in
        the order given.
    random_state : int, RandomState or None, default None
        Of the random features and of the orders.

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
    >>> from streamk.adapters.sklearn import DoublyStochasticClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(cross_val_score(DoublyStochasticClassifier(random_state=0), X, y, cv=3).mean() > 0.9)
    True
    """


class DoublyStochasticRegressor(Regressor, _OneKernel):
    """Regression by one kernel, by passes over the data or on a stream.

    As `DoublyStochasticClassifier`, for numbers to be predicted. They are standardised as they
    come, so the step size and the parameter of a loss do not depend on their unit.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
    bandwidth : float, default 0.7
    loss : str or Loss, optional
        "squared" by default; "huber", "epsilon_insensitive", "quantile", see `streamk.losses`.
    step : float or Step, optional
    regularization : float, default 0
    preconditioner : {"block"}, optional
    batch_size : int, optional
    block_size : int, default 2048
    max_features : int, default 2048
    sampler : {"iid", "hadamard"}, default "iid"
    n_epochs : int, default 10
    random_state : int, RandomState or None, default None
        These are described in `DoublyStochasticClassifier`.

    Attributes
    ----------
    learner_ : Learner
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.adapters.sklearn import DoublyStochasticRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = DoublyStochasticRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """
