"""Kernel learners as River estimators, whose options are those of `streamk.learners`."""

from __future__ import annotations

from typing import Any

from streamk.adapters.options import LEFT_OUT, MANY, of_learner
from streamk.adapters.river.estimators import Classifier, Event, Regressor


@of_learner("multi-kernel", leave_out=LEFT_OUT - {"max_classes"} | {"loss"}, advice=MANY)
class KernelClassifier(Classifier):
    """Kernel classification of a stream, for any number of classes.

    Many kernels, bandwidths and step sizes learn side by side and are mixed as the stream asks for
    (`streamk.learners.MultiKernel`): there is nothing to tune and no scaler is needed before it.
    `debug_one` tells what carries the weight. A single kernel, with options and faster, is
    `DoublyStochasticClassifier`.

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


@of_learner("multi-kernel", leave_out=LEFT_OUT | {"class_weight"}, advice=MANY, example="seed=1")
class KernelRegressor(Regressor):
    """Kernel regression on a stream.

    As `KernelClassifier`, for numbers to be predicted, in any unit. A single kernel is
    `DoublyStochasticRegressor`.
    """

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


@of_learner("doubly-stochastic", example='kernel="rbf", bandwidth=0.7, seed=1')
class DoublyStochasticClassifier(Classifier):
    """Kernel classification of a stream by one kernel and random features, of any classes.

    Every event learned is a step on its loss; by default that moves all random features, so the
    time of an event is the same from first to last. It is faster than `KernelClassifier`, and has
    all the options below.
    """


@of_learner("doubly-stochastic", example="seed=1")
class DoublyStochasticRegressor(Regressor):
    """Kernel regression on a stream by one kernel and random features.

    Numbers are standardised as they come, so the step size and the parameter of a loss do not
    depend on their unit.
    """


@of_learner("online-nystrom", example="max_landmarks=64")
class NystromClassifier(Classifier):
    """Kernel classification on landmarks that are chosen while the stream goes by.

    A few hundred events of the stream, the landmarks, carry the function, so a prediction is a few
    hundred kernels. Nothing in it is random.
    """


@of_learner("online-nystrom", example="max_landmarks=64")
class NystromRegressor(Regressor):
    """Kernel regression on landmarks that are chosen while the stream goes by.

    Numbers are standardised as they come, so the parameter of a loss and a step size do not depend
    on their unit. Nothing in it is random.
    """


@of_learner("streaming-meka", example="rank=8, n_clusters=4, first=256")
class StreamingMekaClassifier(Classifier):
    """Kernel classification by clusters of events, which are found anew as the stream goes by.

    An event takes the kernels of the landmarks of its cluster alone. Factorizations are made in a
    background thread, and what is learned does not depend on how long they take.
    """


@of_learner("streaming-meka")
class StreamingMekaRegressor(Regressor):
    """Kernel regression by clusters of events, which are found anew as the stream goes by.

    Numbers are standardised as they come, so the parameter of a loss and a step size do not depend
    on their unit.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamk.adapters.river import StreamingMekaRegressor
    >>> model = StreamingMekaRegressor(rank=8, n_clusters=4, first=256)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 1...
    """


@of_learner("kernel-ridge", example="seed=1")
class KernelRidgeClassifier(Classifier):
    """Kernel ridge regression on classes, +1 and -1 for each, with the last events as centers.

    Its regularization is chosen on the stream. It is the most that one kernel can tell of a stream;
    an event takes time in proportion to the centers.
    """


@of_learner("kernel-ridge", example="seed=1")
class KernelRidgeRegressor(Regressor):
    """Kernel ridge regression with the last events as centers, on numbers in any unit."""


@of_learner("eigenpro", example="n_centers=200, batch_size=32, seed=1")
class EigenProClassifier(Classifier):
    """A kernel model on classes, +1 and -1 for each, with centers of its own.

    Its memory is that of the centers, and all events of the stream are learned on them.
    """


@of_learner("eigenpro", example="n_centers=200, batch_size=32, seed=1")
class EigenProRegressor(Regressor):
    """A kernel model on numbers, in any unit, with centers of its own."""


@of_learner("feature-machine", example="first=256, seed=1")
class FeatureMachineClassifier(Classifier):
    """Kernel classification in a metric of the columns that is learned while the stream goes by.

    It is kernel ridge regression on classes, +1 and -1 for each, and learns anew from time to time
    which columns and directions matter. New functions are made in a background thread, and what is
    learned does not depend on how long that takes.
    """


@of_learner("feature-machine", example="first=256, seed=1")
class FeatureMachineRegressor(Regressor):
    """Kernel regression in a metric of the columns that is learned while the stream goes by."""
