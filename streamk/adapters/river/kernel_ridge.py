"""Kernel ridge regression on the last events, as River estimators."""

from __future__ import annotations

from streamk.adapters.options import GAMMA, OnEvents, estimator
from streamk.adapters.river.estimators import Classifier, Estimator, Regressor


@estimator(GAMMA)
class _KernelRidge(OnEvents, Estimator):
    """The common part of the classifier and the regressor."""

    _learner = "kernel-ridge"
    seed: int | None = None


class KernelRidgeClassifier(_KernelRidge, Classifier):
    """Kernel ridge regression on classes, +1 and -1 for each, with the last events as centers.

    A learner of one kernel (`streamk.learners.OnlineKernelRidge`) behind an online scaling of the
    columns (`streamk.learners.Scaled`): no scaler is needed before it, and its regularization is
    chosen on the stream. It is the most that one kernel can tell of a stream; an event takes time
    in proportion to the centers.

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
    seed : int, optional
        From 0 to 2^64 - 1. Random by default.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import KernelRidgeClassifier
    >>> model = KernelRidgeClassifier(seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: ...%
    """


class KernelRidgeRegressor(_KernelRidge, Regressor):
    """Kernel ridge regression with the last events as centers.

    As `KernelRidgeClassifier`, for numbers to be predicted, in any unit.

    Parameters
    ----------
    kernel : str or Kernel, default "laplacian"
    bandwidth : float, default 1
    regularization : float, optional
    max_centers : int, default 32768
    corrections : int, default 1
    seed : int, optional
        These are described in `KernelRidgeClassifier`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import KernelRidgeRegressor
    >>> model = KernelRidgeRegressor(seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    """
