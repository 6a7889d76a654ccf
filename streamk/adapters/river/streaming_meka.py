"""Learners on a factorization that is renewed on the stream, as River estimators."""

from __future__ import annotations

from streamk.adapters.options import GAMMA, estimator
from streamk.adapters.river.estimators import Classifier, Estimator, Regressor
from streamk.kernels import Kernel
from streamk.learners import Step
from streamk.losses import Loss


@estimator(GAMMA)
class _Streaming(Estimator):
    """The common part of the classifier and the regressor."""

    _learner = "streaming-meka"
    kernel: str | Kernel = "gaussian"
    bandwidth: float = 0.5
    loss: str | Loss | None = None
    optimizer: str = "sgd"
    step: float | Step | None = None
    regularization: float | None = None
    forgetting: float = 1.0
    rank: int = 256
    n_clusters: int = 4
    buffer_size: int = 4096
    first: int = 2048
    every: int | None = 16384
    swap_delay: int = 2048
    max_error: float | None = 1.5
    max_shift: float | None = 0.3
    growth: int = 256
    tol: float = 0.1
    seed: int | None = None


class StreamingMekaClassifier(_Streaming, Classifier):
    """Kernel classification by clusters of events, which are found anew as the stream goes by.

    A learner on MEKA's features (`streamk.learners.StreamingMeka`) behind an online scaling of the
    columns (`streamk.learners.Scaled`): no scaler is needed before it. An event takes the kernels
    of the landmarks of its cluster alone. Factorizations are made in a background thread, and what
    is learned does not depend on how long they take.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy", or
        one of `streamk.kernels` but NTK and Linear.
    bandwidth : float, default 0.5
        Of a kernel given by name, in units of the scaled columns: two events of the stream are
        sqrt(2) apart in the root of the mean square.
    loss : str or Loss, optional
        "softmax" by default; "logistic", "hinge", "squared_hinge", "squared", see `streamk.losses`.
    optimizer : {"sgd", "newton"}, default "sgd"
    step : float or Step, optional
        Of "sgd" only, 1 by default; see `streamk.learners.common.steps`.
    regularization : float, optional
        Of "sgd" 0 by default, of "newton" 0.1; see `streamk.learners.OnlineNystrom`.
    forgetting : float, default 1
        Of "newton": an event counts by this factor less for each one after it.
    rank : int, default 256
    n_clusters : int, default 4
    buffer_size : int, default 4096
    first : int, default 2048
    every : int, optional, default 16384
    swap_delay : int, default 2048
    max_error : float, optional, default 1.5
    max_shift : float, optional, default 0.3
    growth : int, default 256
    tol : float, default 0.1
        These are described in `streamk.learners.StreamingMeka`.
    seed : int, optional
        From 0 to 2^64 - 1. Random by default.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import StreamingMekaClassifier
    >>> model = StreamingMekaClassifier(rank=8, n_clusters=4, first=256)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: ...%
    """


class StreamingMekaRegressor(_Streaming, Regressor):
    """Kernel regression by clusters of events, which are found anew as the stream goes by.

    As `StreamingMekaClassifier`, for numbers to be predicted. They are standardised as they come,
    so the parameter of a loss and a step size do not depend on their unit.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
    bandwidth : float, default 0.5
    loss : str or Loss, optional
        "squared" by default; "huber", "epsilon_insensitive", "quantile".
    optimizer : {"sgd", "newton"}, default "sgd"
    step : float or Step, optional
        0.1 by default.
    regularization : float, optional
    forgetting : float, default 1
    rank : int, default 256
    n_clusters : int, default 4
    buffer_size : int, default 4096
    first : int, default 2048
    every : int, optional, default 16384
    swap_delay : int, default 2048
    max_error : float, optional, default 1.5
    max_shift : float, optional, default 0.3
    growth : int, default 256
    tol : float, default 0.1
    seed : int, optional
        These are described in `StreamingMekaClassifier`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import StreamingMekaRegressor
    >>> model = StreamingMekaRegressor(rank=8, n_clusters=4, first=256)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: ...
    """
