"""Large kernel models on centers of their own, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk import learners
from streamk.adapters.options import GAMMA, OnCenters, chosen, estimator
from streamk.adapters.sklearn.estimators import Classifier, Estimator, Regressor
from streamk.learners import Learner

__all__ = ["EigenProClassifier", "EigenProRegressor"]


@estimator(GAMMA)
class _EigenPro(OnCenters, Estimator):
    """The common part of the classifier and the regressor."""

    n_epochs: int = 1
    random_state: int | np.random.RandomState | None = None

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        seed = int(random.randint(2**31))
        return learners.create("eigenpro", task=self._task, seed=seed, **chosen(self), **options)


class EigenProClassifier(Classifier, _EigenPro):
    """Kernel classification on centers chosen among the events, by passes or on a stream.

    A learner of one kernel (`streamk.learners.EigenPro`) behind an online scaling of the columns
    (`streamk.learners.Scaled`), so that no scaler is needed before it. NaN is missing and counts as
    the column's median.

    Parameters
    ----------
    kernel : str or Kernel, default "laplacian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", or one of `streamk.kernels` but Linear.
    bandwidth : float, default 2
        Of a kernel given by name, in units of the scaled columns: two events of the stream are
        sqrt(2) apart in the root of the mean square.
    n_centers : int, default 2000
        Points that carry the function, chosen among the events.
    selection : {"random", "k-means", "oasis", "rpcholesky"}, default "random"
        How they are chosen.
    solver : {"auto", "direct", "eigenpro"}, default "auto"
        Normal equations, or EigenPro's gradient steps; "auto" is "direct" up to 8,192 centers.
    regularization : float, optional
        Of "direct": the variance of the labels' noise for a function of variance 1; chosen among
        .1, .5, 2 and 8 by default.
    forgetting : float, default 1
        Of "direct": an event counts by this factor less for each one after it.
    batch_size : int, default 256
        Events that are learned together.
    n_epochs : int, default 1
        Passes of `fit` over its events, each in a new random order. "eigenpro" is better after
        some; "direct" counts each event as often. `partial_fit` makes one, in the order given.
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
    >>> from streamk.adapters.sklearn import EigenProClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(cross_val_score(EigenProClassifier(random_state=0), X, y, cv=3).mean() > 0.9)
    True
    """


class EigenProRegressor(Regressor, _EigenPro):
    """As `EigenProClassifier`, for numbers to be predicted, in any unit.

    Parameters
    ----------
    kernel : str or Kernel, default "laplacian"
    bandwidth : float, default 2
    n_centers : int, default 2000
    selection : {"random", "k-means", "oasis", "rpcholesky"}, default "random"
    solver : {"auto", "direct", "eigenpro"}, default "auto"
    regularization : float, optional
    forgetting : float, default 1
    batch_size : int, default 256
    n_epochs : int, default 1
    random_state : int, RandomState or None, default None
        These are described in `EigenProClassifier`.

    Attributes
    ----------
    learner_ : Learner
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.adapters.sklearn import EigenProRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = EigenProRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """
