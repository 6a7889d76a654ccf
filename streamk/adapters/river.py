"""Kernel learners as River estimators.

Events are dicts whose keys name columns: strings, whole numbers from 0, or tuples of such. A number
or a boolean is its column's value, a string `s` under the name `c` is the column "c=s" with value
1, and None or NaN is missing. The first 256 strings of a column have a column each; any further one
shares one of 64 columns, "c=#0" to "c=#63", with others of its hash. Columns may come and go: a
column is 0 in events that lack it, and one that no learned event had is passed over in predicting.
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from river import base, compose
from river.utils import dataframe

from streamk.adapters.cells import frame_events
from streamk.adapters.options import OF_ONE_KERNEL, make_learner
from streamk.adapters.rows import Model as _Model  # by which older pickles know it
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners import Learner, MultiKernel, Step
from streamk.learners.report import report
from streamk.losses import Loss

__all__ = ["KernelClassifier", "KernelRegressor", "logistic_regression"]

Event = dict[Hashable, Any]


class _Estimator:
    """What the classifier and the regressor have in common."""

    _task: ClassVar[str]
    class_weight: Any = None

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
        self.seed = seed
        self._seed = secrets.randbits(63) if seed is None else seed
        self._model = _Model(self._make())
        self._y_name: Any = None

    def _make(self, **options: Any) -> Learner:
        chosen = {name: getattr(self, name) for name in OF_ONE_KERNEL}
        return make_learner(
            self._task, self.kernel, chosen, self.class_weight, self._seed, **options
        )

    def _rows(self, frame: Any, *, learn: bool) -> NDArray[np.float64]:
        """Return the rows of a narwhals frame as an array of shape (rows, columns)."""
        if all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values()):
            numbers = dataframe.to_numpy(frame)
            return self._model.rows_of_columns(frame.columns, numbers, learn=learn)
        return self._model.rows(frame_events(frame), learn=learn)

    def _start(self, label: Any) -> None:
        """Prepare for the first label."""

    def debug_one(self, x: Event) -> str:
        """Tell what is predicted for an event, which experts carry the weight, and which columns.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        return report(self._model.learner, self._model.row(x, learn=False))

    def learn_one(self, x: Event, y: Any) -> None:
        """Learn from one event, a step by itself.

        Parameters
        ----------
        x : dict
        y : label: str, int or bool, or a number for the regressor

        Raises
        ------
        InvalidInput
            If a value or the label is of no use, naming it; the event is not learned.
        """
        self._start(y)
        self._model.learner.learn_one(self._model.row(x, learn=True), y)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame in their order, in mini-batches of `batch_size`.

        With ``batch_size=1`` this is `learn_one` for every row.

        Parameters
        ----------
        X : data frame of n rows
            Of pandas, Polars or any other library that narwhals knows.
        y : series of n labels

        Raises
        ------
        InvalidInput
            If a value or label is of no use, naming it; the mini-batches before it are learned.
        """
        frame, series = dataframe.into_frame(X), dataframe.into_series(y)
        if len(frame) != len(series):
            raise InvalidInput(f"{len(frame)} events came with {len(series)} labels")
        if not len(frame):
            return
        labels = series.to_list()
        self._start(labels[0])
        self._y_name = series.name
        events = self._rows(frame, learn=True)
        # Piece by piece, so that the scaling does not run ahead of what is learned.
        for first in range(0, len(events), self.batch_size):
            some = slice(first, first + self.batch_size)
            self._model.learner.learn_many(events[some], labels[some])


class KernelClassifier(_Estimator, base.MiniBatchClassifier):
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
        Events that share a step in `learn_many`. `learn_one` is always a step.
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

    _task = "classification"

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
        seed: int | None = None,
    ) -> None:
        self.class_weight = class_weight
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
            seed=seed,
        )

    def _start(self, label: Any) -> None:
        if self._model.learner.n_events:
            return
        # River's binary classifiers know both labels from the start.
        known = (False, True) if isinstance(label, bool | np.bool_) else ()
        if self._model.learner.classes != known:  # also after a first event that was refused
            self._model = _Model(self._make(classes=known) if known else self._make())

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Event, **kwargs: Any) -> dict[Any, float]:
        """Probability of each label seen so far, summing to 1; {} before the first.

        Where the first label is a boolean, False and True count as seen.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        learner = self._model.learner
        if not learner.classes:
            return {}
        return learner.predict_proba_one(self._model.row(x, learn=False))

    def predict_one(self, x: Event, **kwargs: Any) -> Any:
        """Most probable label, or by `class_weight`; None before the first has been learned.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        learner = self._model.learner
        if not learner.classes:
            return None
        return learner.predict_one(self._model.row(x, learn=False))

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of each label seen so far, a column each, of the rows of a data frame.

        Parameters
        ----------
        X : data frame of n rows

        Returns
        -------
        data frame of n rows, of the same library

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        frame, learner = dataframe.into_frame(X), self._model.learner
        probabilities = np.zeros((len(frame), 0))
        if learner.classes:
            probabilities = learner.predict_proba_many(self._rows(frame, learn=False))
        return dataframe.to_native_frame(
            dict(zip(learner.classes, probabilities.T, strict=True)), like=frame
        )

    def predict_many(self, X: Any) -> Any:
        """Label of each row of a data frame as `predict_one` says, None before the first.

        Parameters
        ----------
        X : data frame of n rows

        Returns
        -------
        series of n labels, of the same library

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        frame, learner = dataframe.into_frame(X), self._model.learner
        labels: list[Any] = [None] * len(frame)
        if learner.classes:
            labels = learner.predict_many(self._rows(frame, learn=False)).tolist()
        return dataframe.to_native_series(labels, name=self._y_name, like=frame)


class KernelRegressor(_Estimator, base.MiniBatchRegressor):
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

    _task = "regression"

    def predict_one(self, x: Event) -> float:
        """Predicted number, 0 before anything is learned.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        learner = self._model.learner
        if not learner.n_events:
            return 0.0
        return float(learner.predict_one(self._model.row(x, learn=False)))

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
        low, high = learner.predict_interval_many(self._model.row(x, learn=False)[None], level)[0]
        return float(low), float(high)

    def predict_many(self, X: Any) -> Any:
        """Predicted number of each row of a data frame.

        Parameters
        ----------
        X : data frame of n rows

        Returns
        -------
        series of n numbers, of the same library

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        frame, learner = dataframe.into_frame(X), self._model.learner
        numbers = np.zeros(len(frame))
        if learner.n_events:
            numbers = learner.predict_many(self._rows(frame, learn=False))
        return dataframe.to_native_series(numbers, name=self._y_name, like=frame)


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
