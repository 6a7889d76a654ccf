"""Kernel learners, of many kernels or of one, as River estimators."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from river import compose

from streamk.adapters.options import OF_ONE_KERNEL, make_learner
from streamk.adapters.river.estimators import Classifier, Estimator, Event, Regressor
from streamk.adapters.rows import Model
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners import Learner, MultiKernel, Step
from streamk.learners.classes import MOST_CLASSES
from streamk.learners.scaled import OfOneKernel
from streamk.losses import Loss


class _Kernels(Estimator):
    """What the classifier and the regressor have in common."""

    class_weight: Any = None
    max_classes: int = MOST_CLASSES

    def __init__(
        self,
        *,
        kernel: str | Kernel | None = None,
        bandwidth: float = 0.5,
        loss: str | Loss | None = None,
        step: float | Step | None = None,
        regularization: float = 0.0,
        batch_size: int = 1,
        block_size: int = 2048,
        max_features: int = 2048,
        sampler: str = "iid",
        guests: Sequence[OfOneKernel] | None = None,
        seed: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.loss = loss
        self.step = step
        self.regularization = regularization
        self.batch_size = batch_size
        self.block_size = block_size
        self.max_features = max_features
        self.sampler = sampler
        self.guests = guests
        self.seed = seed
        self._seed = secrets.randbits(63) if seed is None else seed
        self._model = Model(self._make())

    def _make(self) -> Learner:
        chosen = {name: getattr(self, name) for name in OF_ONE_KERNEL}
        return make_learner(
            self._task,
            self.kernel,
            chosen,
            self.class_weight,
            self.guests,
            self._seed,
            max_classes=self.max_classes,
        )


class KernelClassifier(_Kernels, Classifier):
    """Kernel classification of a stream, for any number of classes.

    By default many kernels, bandwidths and step sizes learn side by side and are mixed as the
    stream asks for (`streamk.learners.MultiKernel`): there is nothing to tune and no scaler is
    needed before it. `debug_one` tells what carries the weight.

    With a `kernel` it is a doubly stochastic learner of that one
    (`streamk.learners.DoublyStochastic`) behind an online scaling of the columns
    (`streamk.learners.Scaled`), faster and with all the options below. Every event learned is a
    step on its loss; by default that moves all random features, so the time of an event is the same
    from first to last.

    Parameters
    ----------
    kernel : str or Kernel, optional
        "gaussian", "laplacian", "matern", "rational_quadratic", "cauchy", "linear", or one of
        `streamk.kernels`; the options from `bandwidth` to `sampler` are for that one. Many kernels
        by default.
    bandwidth : float, default 0.5
        Of a kernel given by name, in units of the scaled columns: two events of the stream are
        sqrt(2) apart in the root of the mean square.
    loss : str or Loss, optional
        "softmax" by default; "logistic", "hinge", "squared_hinge", "squared", see `streamk.losses`.
    step : float or Step, optional
        Step size, 1 by default; a number is a constant one, see `streamk.learners.steps` for
        others.
    regularization : float, default 0
        Factor of half the squared norm that is added to the loss.
    batch_size : int, default 1
        Events that share a step. They are gathered, in whatever calls they come, until there are so
        many.
    block_size : int, default 2048
        Random features a step.
    max_features : int, default 2048
        All random features. Where it is more than `block_size`, steps take the blocks in turn.
    sampler : {"iid", "hadamard"}, default "iid"
        How random features are drawn. "hadamard" is faster from some 20 columns on, for kernels of
        the Euclidean distance, not "laplacian" or "cauchy".
    class_weight : "balanced" or dict of label to float, optional
        What it costs to miss each class, only without `kernel`: `predict_one` says the class with
        the largest product of weight and probability, and `predict_proba_one` is as ever.
        "balanced" weighs a class by one over its share among the last labels, see
        `streamk.learners.MultiKernel`. The weight of a label that never comes changes nothing, but
        where the first label is a boolean a weight for any but False and True is an error.
    max_classes : int, default 1000
        Classes that there may be; `learn_one` raises where a label would be one more.
    guests : sequence of OnlineNystrom, DoublyStochastic or StreamingMeka, optional
        Learners of `streamk.learners` that join the experts, only without `kernel`; see
        `streamk.learners.MultiKernel`.
    seed : int, optional
        From 0 to 2^64 - 1. Random by default.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import KernelClassifier
    >>> model = KernelClassifier(seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 9...%
    """

    def __init__(
        self,
        *,
        kernel: str | Kernel | None = None,
        bandwidth: float = 0.5,
        loss: str | Loss | None = None,
        step: float | Step | None = None,
        regularization: float = 0.0,
        batch_size: int = 1,
        block_size: int = 2048,
        max_features: int = 2048,
        sampler: str = "iid",
        class_weight: str | Mapping[Any, float] | None = None,
        max_classes: int = MOST_CLASSES,
        guests: Sequence[OfOneKernel] | None = None,
        seed: int | None = None,
    ) -> None:
        self.class_weight = class_weight
        self.max_classes = max_classes
        super().__init__(
            kernel=kernel,
            bandwidth=bandwidth,
            loss=loss,
            step=step,
            regularization=regularization,
            batch_size=batch_size,
            block_size=block_size,
            max_features=max_features,
            sampler=sampler,
            guests=guests,
            seed=seed,
        )


class KernelRegressor(_Kernels, Regressor):
    """Kernel regression on a stream.

    As `KernelClassifier`, for numbers to be predicted. They are standardised as they come, so
    the step size and the parameter of a loss do not depend on their unit.

    Parameters
    ----------
    kernel : str or Kernel, optional
    bandwidth : float, default 0.5
    loss : str or Loss, optional
        Of many kernels "squared", "huber" or "quantile", see `streamk.learners.MultiKernel`. Of one
        "squared" by default; "huber", "epsilon_insensitive", "quantile". One with a parameter is
        ``streamk.losses.loss("quantile", q=0.9)``, say.
    step : float or Step, optional
        0.5 by default.
    regularization : float, default 0
    batch_size : int, default 1
    block_size : int, default 2048
    max_features : int, default 2048
    sampler : {"iid", "hadamard"}, default "iid"
    guests : sequence of OnlineNystrom, DoublyStochastic or StreamingMeka, optional
    seed : int, optional
        These are described in `KernelClassifier`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import KernelRegressor
    >>> model = KernelRegressor(seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    """

    def predict_interval_one(self, x: Event, level: float = 0.9) -> tuple[float, float]:
        """Interval that holds the number with about that probability, as past errors say.

        Only without `kernel`.

        Parameters
        ----------
        x : dict
        level : float, default 0.9
            Between 0 and 0.99.

        Raises
        ------
        InvalidInput
            If a value or the level is of no use, or this is a learner of one kernel.
        """
        learner = self._model.learner
        if not isinstance(learner, MultiKernel):
            raise InvalidInput("intervals come without kernel=...: a single kernel has none")
        low, high = learner.predict_interval_many(self._model.row(x)[None], level)[0]
        return float(low), float(high)


def logistic_regression() -> compose.Pipeline:
    """River's own logistic regression of any number of classes, to compare with.

    Returns
    -------
    river.compose.Pipeline
        Softmax regression on standardised columns, River's defaults throughout.

    Examples
    --------
    >>> model = logistic_regression()
    >>> model.learn_one({"x": 1.0}, "a")
    >>> model.predict_one({"x": 1.0})
    'a'
    """
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
