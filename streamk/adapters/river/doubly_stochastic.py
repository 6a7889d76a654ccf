"""Learners of one kernel by random features, as River estimators."""

from __future__ import annotations

from streamk.adapters.options import GAMMA, OneKernel, estimator
from streamk.adapters.river.estimators import Classifier, Estimator, Regressor


@estimator(GAMMA)
class _OneKernel(OneKernel, Estimator):
    """The common part of the classifier and the regressor."""

    _learner = "doubly-stochastic"
    seed: int | None = None


class DoublyStochasticClassifier(_OneKernel, Classifier):
    """Kernel classification of a stream by one kernel, for any number of classes.

    A doubly stochastic learner (`streamk.learners.DoublyStochastic`) behind an online scaling of
    the columns (`streamk.learners.Scaled`): no scaler is needed before it. Every event learned is a
    step on its loss; by default that moves all random features, so the time of an event is the same
    from first to last. It is faster than `KernelClassifier`, and has all the options below.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian" (also called "rbf"), "laplacian", "matern", "rational_quadratic", "cauchy",
        "linear", or one of `streamk.kernels` but NTK and PowerExponential.
    bandwidth : float, default 0.5
        Of a kernel given by name, in units of the scaled columns: two events of the stream are
        sqrt(2) apart in the root of the mean square. ``gamma`` of ``exp(-gamma |x - y|^2)`` is
        ``bandwidth = 1 / sqrt(2 gamma)``.
    loss : str or Loss, optional
        "softmax" by default; "logistic", "hinge", "squared_hinge", "squared", see `streamk.losses`.
    step : float or Step, optional
        A number is a constant size, see `streamk.learners.common.steps` for others. By default
        several sizes are learned by, and that of least recent loss predicts; with a preconditioner
        the size is found at each step.
    regularization : float, default 0
        Factor of half the squared norm that is added to the loss.
    preconditioner : {"block"}, optional
        By the covariance of a block's features on the events of a step: fewer and larger steps, for
        streams that do not drift, with blocks of some hundred features, see
        `streamk.learners.DoublyStochastic`.
    batch_size : int, optional
        Events that share a step, 1 by default, and twice the block with a preconditioner. They are
        gathered, in whatever calls they come, until there are so many.
    block_size : int, default 2048
        Random features a step.
    max_features : int, default 2048
        All random features. Where it is more than `block_size`, steps take the blocks in turn.
    sampler : {"iid", "hadamard"}, default "iid"
        How random features are drawn. "hadamard" is faster from some 20 columns on, for kernels of
        the Euclidean distance, not "laplacian" or "cauchy".
    seed : int, optional
        From 0 to 2^64 - 1. Random by default.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import DoublyStochasticClassifier
    >>> model = DoublyStochasticClassifier(kernel="rbf", bandwidth=0.7, seed=1)
    >>> model
    DoublyStochasticClassifier(kernel='rbf', bandwidth=0.7, seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: ...%
    """


class DoublyStochasticRegressor(_OneKernel, Regressor):
    """Kernel regression on a stream by one kernel.

    As `DoublyStochasticClassifier`, for numbers to be predicted. They are standardised as they
    come, so the step size and the parameter of a loss do not depend on their unit.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
    bandwidth : float, default 0.5
    loss : str or Loss, optional
        "squared" by default; "huber", "epsilon_insensitive", "quantile". One with a parameter is
        ``streamk.losses.loss("quantile", q=0.9)``, say.
    step : float or Step, optional
    regularization : float, default 0
    preconditioner : {"block"}, optional
    batch_size : int, optional
    block_size : int, default 2048
    max_features : int, default 2048
    sampler : {"iid", "hadamard"}, default "iid"
    seed : int, optional
        These are described in `DoublyStochasticClassifier`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import DoublyStochasticRegressor
    >>> model = DoublyStochasticRegressor(seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: ...
    """
