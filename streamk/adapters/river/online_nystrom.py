"""Learners on landmarks that follow the stream, as River estimators."""

from __future__ import annotations

from streamk.adapters.options import GAMMA, OnLandmarks, estimator
from streamk.adapters.river.estimators import Classifier, Estimator, Regressor


@estimator(GAMMA)
class _Nystrom(OnLandmarks, Estimator):
    """The common part of the classifier and the regressor."""

    _learner = "online-nystrom"


class NystromClassifier(_Nystrom, Classifier):
    """Kernel classification on landmarks that are chosen while the stream goes by.

    A learner of one kernel (`streamk.learners.OnlineNystrom`) behind an online scaling of the
    columns (`streamk.learners.Scaled`): no scaler is needed before it. A few hundred events of the
    stream, the landmarks, carry the function, so a prediction is a few hundred kernels. Nothing
    in it is random.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "ntk", or one of `streamk.kernels` but Linear.
    bandwidth : float, default 0.5
        Of a kernel given by name, in units of the scaled columns: two events of the stream are
        sqrt(2) apart in the root of the mean square.
    loss : str or Loss, optional
        "softmax" by default; "logistic", "hinge", "squared_hinge", "squared", see `streamk.losses`.
    optimizer : {"sgd", "newton"}, default "sgd"
        "newton" takes steps of second order, for streams that do not drift.
    step : float or Step, optional
        Of "sgd" only, 1 by default; see `streamk.learners.common.steps`.
    regularization : float, optional
        Of "sgd" 0 by default, of "newton" 0.1; see `streamk.learners.OnlineNystrom`.
    forgetting : float, default 1
        Of "newton": an event counts by this factor less for each one after it.
    max_landmarks : int, default 512
    tol : float, default 1e-3
        Squared distance that an event's kernel must have from the landmarks' span to become one.
    half_life : float, optional
        Events in which the claim of a landmark halves that nothing leans on.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import NystromClassifier
    >>> model = NystromClassifier(max_landmarks=64)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: ...%
    """


class NystromRegressor(_Nystrom, Regressor):
    """Kernel regression on landmarks that are chosen while the stream goes by.

    As `NystromClassifier`, for numbers to be predicted. They are standardised as they come, so
    the parameter of a loss and a step size do not depend on their unit.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
    bandwidth : float, default 0.5
    loss : str or Loss, optional
        "squared" by default; "huber", "epsilon_insensitive", "quantile".
    optimizer : {"sgd", "newton"}, default "sgd"
    step : float or Step, optional
        0.5 by default.
    regularization : float, optional
    forgetting : float, default 1
    max_landmarks : int, default 512
    tol : float, default 1e-3
    half_life : float, optional
        These are described in `NystromClassifier`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import NystromRegressor
    >>> model = NystromRegressor(max_landmarks=64)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    """
