"""Kernel learners of many kernels as River estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamk.adapters.options import MANY, estimator
from streamk.adapters.river.estimators import Classifier, Event, Regressor
from streamk.learners.common.classes import MOST_CLASSES
from streamk.learners.scaled import OfOneKernel
from streamk.losses import Loss


@estimator(MANY)
class KernelClassifier(Classifier):
    """Kernel classification of a stream, for any number of classes.

    Many kernels, bandwidths and step sizes learn side by side and are mixed as the stream asks for
    (`streamk.learners.MultiKernel`): there is nothing to tune and no scaler is needed before it.
    `debug_one` tells what carries the weight. A single kernel, with options and faster, is
    `DoublyStochasticClassifier`.

    Parameters
    ----------
    class_weight : "balanced" or dict of label to float, optional
        What it costs to miss each class: `predict_one` says the class with the largest product of
        weight and probability, and `predict_proba_one` is as ever. "balanced" weighs a class by one
        over its share among the last labels, see `streamk.learners.MultiKernel`. The weight of a
        label that never comes changes nothing, but where the first label is a boolean a weight for
        any but False and True is an error.
    max_classes : int, default 1000
        Classes that there may be; `learn_one` raises where a label would be one more.
    external_experts : sequence of learners of one kernel, optional
        Learners of `streamk.learners` that join the experts: a `FeatureMachine` by default, ``[]``
        for none, which is several times as fast; see `streamk.learners.MultiKernel`.
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
    >>> model
    KernelClassifier(seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 9...%
    """

    _learner = "multi-kernel"
    class_weight: str | Mapping[Any, float] | None = None
    max_classes: int = MOST_CLASSES
    external_experts: Sequence[OfOneKernel] | None = None
    seed: int | None = None


@estimator(MANY)
class KernelRegressor(Regressor):
    """Kernel regression on a stream.

    As `KernelClassifier`, for numbers to be predicted, in any unit. A single kernel is
    `DoublyStochasticRegressor`.

    Parameters
    ----------
    loss : {"squared", "huber", "quantile"} or Loss, optional
        See `streamk.learners.MultiKernel`. One with a parameter is
        ``streamk.losses.loss("quantile", q=0.9)``, say.
    external_experts : sequence of learners of one kernel, optional
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

    _learner = "multi-kernel"
    loss: str | Loss | None = None
    external_experts: Sequence[OfOneKernel] | None = None
    seed: int | None = None

    def predict_interval_one(self, x: Event, level: float = 0.9) -> tuple[float, float]:
        """Interval that holds the number with about that probability, as past errors say.

        Parameters
        ----------
        x : dict
        level : float, default 0.9
            Between 0 and 0.99.

        Raises
        ------
        InvalidInput
            If a value or the level is of no use.
        """
        model = self._model
        learner: Any = model.learner
        with model.lock:
            low, high = learner.predict_interval_many(model.row(x)[None], level)[0]
        return float(low), float(high)
