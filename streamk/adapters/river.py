"""Kernel learners as River estimators, and what extensions add to these.

Events are dicts whose keys name columns: strings, whole numbers from 0, or tuples of such. A number
or a boolean is its column's value, a string `s` under the name `c` is the column "c=s" with value
1, and None or NaN is missing. The first 256 strings of a column have a column each; any further one
shares one of 64 columns, "c=#0" to "c=#63", with others of its hash. Where strings hardly repeat
and hold several words, a word is the column "c:word". Columns may come and go: a column is 0 in
events that lack it, and one that no learned event had is passed over in predicting.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from river import base
from river.utils import dataframe

from streamk import learners
from streamk.adapters.batches import Frame
from streamk.adapters.options import ENTITIES, LEFT_OUT, MANY, chosen, of_learner, written
from streamk.adapters.rows import Model, checked
from streamk.errors import InvalidInput
from streamk.extensions import find, provided
from streamk.learners.common.options import SEED as OF_LEARNERS
from streamk.learners.common.predictor import Turns
from streamk.options import Option

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "EigenProClassifier",
    "EigenProRegressor",
    "FeatureMachineClassifier",
    "FeatureMachineRegressor",
    "KernelClassifier",
    "KernelRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "NystromClassifier",
    "NystromRegressor",
    "StreamingMekaClassifier",
    "StreamingMekaRegressor",
    *provided("river"),
]

Event = dict[Hashable, Any]
SEED = replace(OF_LEARNERS, default=None, doc="From 0 to 2^64 - 1. Random by default.")


class InTurns(base.Base):
    """An object that is asked or taught by one thread at a time, which holds `_turns.lock`.

    Copies and pickles are of all that it has between two events.
    """

    if TYPE_CHECKING:  # see `streamk.adapters.options.estimator`

        def __init__(self, *arguments: Any, **options: Any) -> None: ...

    def _begin(self) -> None:
        super().__init__()
        self._turns = Turns()

    def __getstate__(self) -> dict[str, Any]:
        with self._turns.lock:
            return copy.deepcopy(self.__dict__)

    def clone(self, *arguments: Any, **options: Any) -> Self:
        """Return a new one, of new models, see River's `clone`."""
        with self._turns.lock:
            return super().clone(*arguments, **options)


class Estimator:
    """A learner of events that are dicts, or rows of frames.

    Data frames and series are of pandas, Polars or any other library that narwhals knows, and what
    is predicted of them is of the same.

    Raises
    ------
    InvalidInput
        If an option is out of its domain. Methods raise it if a value, a label or a weight is not
        usable, naming it: the event is not learned then, and those before it are.
    """

    _ABOUT: ClassVar[str] = (
        "The learner, `streamk.learners.{learner}`, is behind an online scaling of the columns\n"
        "(`streamk.learners.Scaled`): no scaler is needed before it."
    )
    _SEED: ClassVar[dict[str, Option]] = {"seed": SEED}
    _task: ClassVar[str]
    _model_name: ClassVar[str]
    _model: Model
    if TYPE_CHECKING:  # see `streamk.adapters.options.estimator`

        def __init__(self, **options: Any) -> None: ...

    def _begin(self) -> None:
        seed = getattr(self, "seed", None)
        self._seed = secrets.randbits(63) if seed is None else seed
        learner = learners.create(
            self._model_name, task=self._task, seed=self._seed, **chosen(self)
        )
        self._model = Model.of(self, learner)
        self._y_name: Any = None

    def __repr__(self) -> str:
        return written(self)

    def debug_one(self, x: Event) -> str:
        """Explain the prediction for an event by its experts and its most important fields."""
        model = self._model
        with model.lock:
            return model.report(x, model.row(x).copy())

    def _said(self, method: str, x: Event, before: Any) -> Any:
        """Return what a method of the learner says of an event, or said before it knew any."""
        model = self._model
        with model.lock:
            if not model.learner.n_events:
                return before
            return getattr(model.learner, method)(model.row(x))

    def _said_of_all(self, method: str, X: Any, before: NDArray[Any]) -> NDArray[Any]:
        """Return the same of the rows of a data frame."""
        model = self._model
        with model.lock:
            if not model.learner.n_events:
                return before
            rows = np.concatenate(list(Frame(X).rows(model)))
            return np.asarray(getattr(model.learner, method)(rows))

    def learn_one(self, x: Event, y: Any, w: float = 1.0) -> None:
        """Learn from one event.

        Parameters
        ----------
        x : dict
        y : label: str, int or bool, or a number for the regressor
        w : float, default 1
            How often the event counts, 0 to a million. It is learned a whole number of times; what
            is left comes in with the next event of the label, or the next one of the regressor.
        """
        model = self._model
        with model.lock:
            if w == 1.0:
                model.learner.learn_one(model.row(x, [y]), y)
            else:
                model.learn_weighted(x, y, w)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn from the rows of a data frame in their order, as `learn_one` does.

        Parameters
        ----------
        X : data frame of n rows
        y : series of n labels
        w : float or series of n floats, default 1
            As of `learn_one`.
        """
        frame, series = Frame(dataframe.into_frame(X)), dataframe.into_series(y)
        if len(frame) != len(series):
            raise InvalidInput(f"{len(frame)} events came with {len(series)} labels")
        self._y_name = series.name
        weights = None if isinstance(w, float | int) and w == 1 else checked(w, len(frame))
        frame.learn(self._model, series.to_list(), weights)


class Classifier(Estimator, base.MiniBatchClassifier):
    """Of any number of classes."""

    _task = "classification"
    _EXAMPLE = """\
>>> from river import datasets, evaluate, metrics
>>> from streamk.adapters.river import {name}
>>> model = {name}({options})
>>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
Accuracy: ...%"""

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Event, **kwargs: Any) -> dict[Any, float]:
        """Probability of each label seen so far, summing to 1; {} before the first.

        Where the first label is a boolean, False and True count as seen.
        """
        found: dict[Any, float] = self._said("predict_proba_one", x, {})
        return found

    def predict_one(self, x: Event, **kwargs: Any) -> Any:
        """Most probable label, or by `class_weight`; None before the first has been learned."""
        return self._said("predict_one", x, None)

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of each label seen so far, of the rows of a data frame: a column each."""
        frame, model = dataframe.into_frame(X), self._model
        with model.lock:
            P = self._said_of_all("predict_proba_many", frame, np.zeros((len(frame), 0)))
            columns = dict(zip(model.learner.classes, P.T, strict=True))
        return dataframe.to_native_frame(columns, like=frame)

    def predict_many(self, X: Any) -> Any:
        """Label of each row of a data frame as `predict_one` says, None before the first."""
        frame = dataframe.into_frame(X)
        labels = self._said_of_all("predict_many", frame, np.full(len(frame), None))
        return dataframe.to_native_series(labels.tolist(), name=self._y_name, like=frame)


class Regressor(Estimator, base.MiniBatchRegressor):
    """Of numbers, in any unit."""

    _task = "regression"
    _EXAMPLE = """\
>>> from river import datasets, evaluate, metrics
>>> from streamk.adapters.river import {name}
>>> model = {name}({options})
>>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
MAE: 0..."""

    def predict_one(self, x: Event) -> float:
        """Predicted number, 0 before anything is learned."""
        return float(self._said("predict_one", x, 0.0))

    def predict_many(self, X: Any) -> Any:
        """Predicted number of each row of a data frame."""
        frame = dataframe.into_frame(X)
        numbers = self._said_of_all("predict_many", frame, np.zeros(len(frame)))
        return dataframe.to_native_series(numbers, name=self._y_name, like=frame)


@of_learner(
    "multi-kernel", leave_out=LEFT_OUT - {"max_classes"} | {"loss"}, advice=MANY, **ENTITIES
)
class KernelClassifier(Classifier):
    """Kernel classification of a stream, for any number of classes.

    Many kernels, bandwidths and step sizes learn side by side and are mixed as the stream asks for
    (`streamk.learners.MultiKernel`): there is nothing to tune and no scaler is needed before it.
    `debug_one` explains a prediction. A single kernel, with options and faster, is
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


@of_learner(
    "multi-kernel",
    leave_out=LEFT_OUT | {"class_weight"},
    advice=MANY,
    example="seed=1",
    **ENTITIES,
)
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
    """Kernel classification on landmarks that the model chooses along the stream.

    A few hundred events of the stream, the landmarks, carry the function, so a prediction is a few
    hundred kernels. Nothing in it is random.
    """


@of_learner("online-nystrom", example="max_landmarks=64")
class NystromRegressor(Regressor):
    """Kernel regression on landmarks that the model chooses along the stream.

    Numbers are standardised as they come, so the parameter of a loss and a step size do not depend
    on their unit. Nothing in it is random.
    """


@of_learner("streaming-meka", example="rank=8, n_clusters=4, first=256")
class StreamingMekaClassifier(Classifier):
    """Kernel classification by clusters of events, found again and again along the stream.

    An event takes the kernels of the landmarks of its cluster alone. Factorizations are made in a
    background thread, and what is learned does not depend on how long they take.
    """


@of_learner("streaming-meka")
class StreamingMekaRegressor(Regressor):
    """Kernel regression by clusters of events, found again and again along the stream.

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
    """Kernel classification in a metric of the columns that the model learns along the stream.

    It is kernel ridge regression on classes, +1 and -1 for each, and learns anew from time to time
    which columns and directions matter. New functions are made in a background thread, and what is
    learned does not depend on how long that takes.
    """


@of_learner("feature-machine", example="first=256, seed=1")
class FeatureMachineRegressor(Regressor):
    """Kernel regression in a metric of the columns that the model learns along the stream."""


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Return an estimator of an extension, by its name."""
    found = find("river", name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
