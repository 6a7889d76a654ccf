"""Kernel learners as River estimators.

Events are dicts whose keys name columns: strings, whole numbers from 0, or tuples of such. A number
or a boolean is its column's value, a string `s` under the name `c` is the column "c=s" with value
1, and None or NaN is missing. The first 256 strings of a column have a column each; any further one
shares one of 64 columns, "c=#0" to "c=#63", with others of its hash. Columns may come and go: a
column is 0 in events that lack it, and one that no learned event had is passed over in predicting.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from river import base, compose
from river.utils import dataframe

from streamk import learners
from streamk.adapters.cells import OneHot, Texts, column_name, frame_events
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners import Learner, MultiKernel, Step
from streamk.learners.report import report
from streamk.losses import Loss

__all__ = ["KernelClassifier", "KernelRegressor", "logistic_regression"]

Event = dict[Hashable, Any]
Numbers = NDArray[np.float64]


class _Model:
    """A learner that is fed dicts and data frames, and the columns it has met.

    Copies and pickles go through the learner's state.
    """

    def __init__(
        self,
        learner: Learner,
        names: Sequence[Hashable] = (),
        texts: Mapping[Hashable, Iterable[str]] | None = None,
    ) -> None:
        self.learner = learner
        self._hot = OneHot(texts)
        self._index = {name: number for number, name in enumerate(names)}
        self._lay_out()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "learner": self.learner.state(),
            "names": list(self._index),
            "texts": self._hot.state(),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        learner = learners.from_state(saved["learner"])
        _Model.__init__(self, learner, saved["names"], saved["texts"])

    def _lay_out(self) -> None:
        """Prepare the fast way, for events that have every column and only numbers."""
        names = tuple(self._index)
        self._row = np.zeros(len(names))
        self._bytes = self._row.data.cast("B") if names else memoryview(bytearray())
        self._pack = struct.Struct(f"{len(names)}d").pack
        # With a single name itemgetter gives no tuple.
        self._get = itemgetter(*names) if len(names) > 1 else None

    def row(self, x: Mapping[Hashable, Any], *, learn: bool) -> Numbers:
        """Return an event as an array of shape (columns,), which the next call overwrites."""
        if self._get is not None and isinstance(x, dict) and len(x) == len(self._index):
            try:
                self._bytes[:] = self._pack(*self._get(x))
                return self._row
            except (KeyError, OverflowError, struct.error):
                pass  # another column, a string, None or a number past the range of floats
        if not hasattr(x, "items"):
            raise InvalidInput(f"an event is a dict of columns, not {x!r:.60}")
        row: Numbers = self._rows([x], learn=learn)[0]
        return row

    def rows(self, frame: Any, *, learn: bool) -> Numbers:
        """Return the rows of a narwhals frame as an array of shape (rows, columns)."""
        if not all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values()):
            return self._rows(frame_events(frame), learn=learn)
        if learn:
            self._meet(frame.columns)
        rows = np.zeros((len(frame), len(self._index)))
        for name, column in zip(frame.columns, dataframe.to_numpy(frame).T, strict=True):
            if name in self._index:
                rows[:, self._index[name]] = column
        return rows

    def _rows(self, events: Sequence[Mapping[Hashable, Any]], *, learn: bool) -> Numbers:
        new: Texts | None = {} if learn else None
        cells = [self._hot.cells(event, new) for event in events]
        if new is not None:
            self._meet([name for event in cells for name in event])
            self._hot.keep(new)
        rows = np.zeros((len(cells), len(self._index)))
        for row, event in zip(rows, cells, strict=True):
            for name, value in event.items():
                number = self._index.get(name)
                if number is not None:
                    row[number] = value
        return rows

    def _meet(self, names: Sequence[Hashable]) -> None:
        """Give names not met before their columns, in an order that is not the event's."""
        new = {name: column_name(name) for name in names if name not in self._index}
        if new or self.learner.columns is None:
            ordered = sorted(new, key=lambda name: (isinstance(new[name], str), new[name]))
            self.learner.add_columns([new[name] for name in ordered])
            for name in ordered:
                self._index[name] = len(self._index)
            self._lay_out()


_OF_ONE_KERNEL: dict[str, Any] = {
    "bandwidth": 0.5,
    "loss": None,
    "step": None,
    "regularization": 0.0,
    "batch_size": 1,
    "block_size": 2048,
    "max_features": 2048,
    "sampler": "iid",
}
"""Options of a learner of a single kernel, and their defaults; of numbers, many take a loss too."""


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
        chosen = {name: getattr(self, name) for name in _OF_ONE_KERNEL}
        if self.kernel is not None:
            if self.class_weight is not None:
                raise InvalidInput(
                    f"class_weight={self.class_weight!r} is for many kernels: leave kernel= out, "
                    "or weigh the probabilities of predict_proba_one"
                )
            return learners.create(
                "doubly-stochastic",
                task=self._task,
                kernel=self.kernel,
                seed=self._seed,
                **chosen,
                **options,
            )
        for name, value in chosen.items():
            if name == "loss" and self._task == "regression":
                options["loss"] = value
            elif value != _OF_ONE_KERNEL[name]:
                raise InvalidInput(
                    f"{name}={value!r} is for a learner of one kernel: give kernel='gaussian', "
                    "say, or leave it out"
                )
        if self.class_weight is not None:
            options["class_weight"] = self.class_weight
        return learners.create("multi-kernel", task=self._task, seed=self._seed, **options)

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
        events = self._model.rows(frame, learn=True)
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
            probabilities = learner.predict_proba_many(self._model.rows(frame, learn=False))
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
            labels = learner.predict_many(self._model.rows(frame, learn=False)).tolist()
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
            numbers = learner.predict_many(self._model.rows(frame, learn=False))
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
