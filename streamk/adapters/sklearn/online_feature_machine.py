"""Recursive feature machines on a stream, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from streamk import learners
from streamk.adapters.options import GAMMA, WithMetric, chosen, estimator
from streamk.adapters.rows import Numbers
from streamk.adapters.sklearn.estimators import Classifier, Estimator, Regressor
from streamk.learners import Learner

__all__ = ["FeatureMachineClassifier", "FeatureMachineRegressor"]


@estimator(GAMMA)
class _FeatureMachine(WithMetric, Estimator):
    """The common part of the classifier and the regressor."""

    random_state: int | np.random.RandomState | None = None

    @property
    def feature_importances_(self) -> Numbers:
        """The shares of the columns in the metric's diagonal, float64 (n_features_in_,)."""
        check_is_fitted(self, "learner_")
        learner: Any = self._model.learner
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
        "gaussian", "laplacian", "matern", "rational_quadratic", "cauchy", or one of
        `streamk.kernels` of these. By default ``Matern(nu=0.5)``, the Laplace kernel of the L2
        distance.
    bandwidth : float, optional
        Of the default kernel, whose bandwidths 1.5 and 6 are compared else, or of one given by
        name, 1.5 else; in units of the scaled columns: two events of the stream are sqrt(2) apart
        in the root of the mean square.
    metric : {"auto", "diagonal", "full"}, default "auto"
        A factor for each column, or a matrix; "auto" compares both up to 128 columns. "laplacian"
        and "cauchy" have diagonal ones only.
    rounds : int, default 4
        Metrics that are learned one after the other, at most; 0 is kernel ridge regression.
    buffer_size : int, default 4096
        Last events that are kept.
    reservoir_size : int, default 4096
        Sample of older ones.
    first : int, default 512
        Events before the first metric is begun.
    every : int, default 16384
        Events between two metrics later on; fewer where a stream changes fast.
    swap_delay : int, default 256
        Events after which a new function takes over, or does not. The last five are described
        in `streamk.learners.FeatureMachine`.
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
    reservoir_size : int, default 4096
    first : int, default 512
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
