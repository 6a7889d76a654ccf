"""Recursive feature machines on a stream, as River estimators."""

from __future__ import annotations

from streamk.adapters.options import GAMMA, WithMetric, estimator
from streamk.adapters.river.estimators import Classifier, Estimator, Regressor


@estimator(GAMMA)
class _FeatureMachine(WithMetric, Estimator):
    """The common part of the classifier and the regressor."""

    _learner = "feature-machine"
    seed: int | None = None


class FeatureMachineClassifier(_FeatureMachine, Classifier):
    """Kernel classification in a metric of the columns that is learned while the stream goes by.

    A recursive feature machine (`streamk.learners.FeatureMachine`) behind an online scaling of the
    columns (`streamk.learners.Scaled`): no scaler is needed before it. It is kernel ridge
    regression on classes, +1 and -1 for each, and learns anew from time to time which columns and
    directions matter. New functions are made in a background thread, and what is learned does not
    depend on how long that takes.

    Parameters
    ----------
    kernel : str or Kernel, optional
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy", or
        one of `streamk.kernels` of these. By default the best one of ``Matern(nu=0.5)``, the
        Laplace kernel of the L2 distance, with the bandwidths 1.5 and 6, "laplacian" and
        "power_exponential".
    bandwidth : float, optional
        Of ``Matern(nu=0.5)``, which then is the only one, or of a kernel given by name, 1.5 else;
        in units of the scaled columns: two events of the stream are sqrt(2) apart in the root of
        the mean square.
    metric : {"auto", "diagonal", "full"}, default "auto"
        A factor for each column, or a matrix; "auto" compares both up to 128 columns. "laplacian",
        "power_exponential" and "cauchy" have diagonal ones only.
    rounds : int, default 4
        Metrics that are learned one after the other, at most; 0 is kernel ridge regression.
    buffer_size : int, default 4096
        Last events that are kept.
    reservoir_size : int, default 28672
        Sample of older ones.
    first : int, default 64
        Events before the first metric is begun.
    every : int, default 16384
        Events between two metrics later on; fewer where a stream changes fast.
    swap_delay : int, default 256
        Events after which a new function takes over, or does not, at least. The last five are
        described in `streamk.learners.FeatureMachine`.
    seed : int, optional
        From 0 to 2^64 - 1. Random by default.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or kernel and metric do not fit.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import FeatureMachineClassifier
    >>> model = FeatureMachineClassifier(first=256, seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: ...%
    """


class FeatureMachineRegressor(_FeatureMachine, Regressor):
    """Kernel regression in a metric of the columns that is learned while the stream goes by.

    As `FeatureMachineClassifier`, for numbers to be predicted, in any unit.

    Parameters
    ----------
    kernel : str or Kernel, optional
    bandwidth : float, optional
    metric : {"auto", "diagonal", "full"}, default "auto"
    rounds : int, default 4
    buffer_size : int, default 4096
    reservoir_size : int, default 28672
    first : int, default 64
    every : int, default 16384
    swap_delay : int, default 256
    seed : int, optional
        These are described in `FeatureMachineClassifier`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or kernel and metric do not fit.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import FeatureMachineRegressor
    >>> model = FeatureMachineRegressor(first=256, seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    """
