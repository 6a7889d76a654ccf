"""Large kernel models on centers of their own, as River estimators."""

from __future__ import annotations

from streamk.adapters.options import GAMMA, OnCenters, estimator
from streamk.adapters.river.estimators import Classifier, Estimator, Regressor


@estimator(GAMMA)
class _EigenPro(OnCenters, Estimator):
    """The common part of the classifier and the regressor."""

    _learner = "eigenpro"
    seed: int | None = None


class EigenProClassifier(_EigenPro, Classifier):
    """A kernel model on classes, +1 and -1 for each, with centers of its own.

    A learner of one kernel (`streamk.learners.EigenPro`) behind an online scaling of the columns
    (`streamk.learners.Scaled`): no scaler is needed before it. Its memory is that of the centers,
    and all events of the stream are learned on them.

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
    seed : int, optional
        From 0 to 2^64 - 1. Random by default.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import EigenProClassifier
    >>> model = EigenProClassifier(n_centers=200, batch_size=32, seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: ...%
    """


class EigenProRegressor(_EigenPro, Regressor):
    """A kernel model on numbers with centers of its own.

    As `EigenProClassifier`, for numbers to be predicted, in any unit.

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
    seed : int, optional
        These are described in `EigenProClassifier`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import EigenProRegressor
    >>> model = EigenProRegressor(n_centers=200, batch_size=32, seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    """
