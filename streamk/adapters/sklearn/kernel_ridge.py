"""Kernel ridge regression on the last events, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk import learners
from streamk.adapters.options import GAMMA, OnEvents, chosen, estimator
from streamk.adapters.sklearn.estimators import Classifier, Estimator, Regressor
from streamk.learners import Learner

__all__ = ["KernelRidgeClassifier", "KernelRidgeRegressor"]


@estimator(GAMMA)
class _KernelRidge(OnEvents, Estimator):
    """The common part of the classifier and the regressor."""

    random_state: int | np.random.RandomState | None = None

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        seed = int(random.randint(2**31))
        return learners.create(
            "kernel-ridge", task=self._task, seed=seed, **chosen(self), **options
        )


class KernelRidgeClassifier(Classifier, _KernelRidge):
    """Kernel ridge regression on classes, +1 and -1 for each, all at once or on a stream.

    A learner of one kernel (`streamk.learners.OnlineKernelRidge`) behind an online scaling of the
    columns (`streamk.learners.Scaled`), so that no scaler is needed before it. NaN is missing and
    counts as the column's median. Its coefficients go toward those of
    `sklearn.kernel_ridge.KernelRidge` and its regularization is chosen by itself; of more events
    than `max_centers` the last ones count.

    Parameters
    ----------
    kernel : str or Kernel, default "laplacian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", or one of `streamk.kernels` but Linear.
    bandwidth : float, default 1
        Of a kernel given by name, in units of the scaled columns: two events of the stream are
        sqrt(2) apart in the root of the mean square.
    regularization : float, optional
        The variance of the labels' noise for a function of variance 1; chosen among .1, .5, 2 and 8
        by default.
    max_centers : int, default 32768
        Events that carry the function, the last ones; at least 64.
    corrections : int, default 1
        Blocks of older events that are corrected after each 64 events, for 65,536 centers; of fewer
        centers there are as many more.
    random_state : int, RandomState or None, default None
        Of the order of the events, and of the learner.

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
    >>> from streamk.adapters.sklearn import KernelRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(cross_val_score(KernelRidgeClassifier(random_state=0), X, y, cv=3).mean() > 0.9)
    True
    """


class KernelRidgeRegressor(Regressor, _KernelRidge):
    """As `KernelRidgeClassifier`, for numbers to be predicted, in any unit.

    Parameters
    ----------
    kernel : str or Kernel, default "laplacian"
    bandwidth : float, default 1
    regularization : float, optional
    max_centers : int, default 32768
    corrections : int, default 1
    random_state : int, RandomState or None, default None
        These are described in `KernelRidgeClassifier`.

    Attributes
    ----------
    learner_ : Learner
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.adapters.sklearn import KernelRidgeRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = KernelRidgeRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """
