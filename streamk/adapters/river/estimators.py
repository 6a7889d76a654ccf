"""The common part of River estimators: events and frames in, labels and numbers out."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from river import base
from river.utils import dataframe

from streamk import learners
from streamk.adapters.batches import Frame
from streamk.adapters.options import chosen, written
from streamk.adapters.rows import Model, Numbers
from streamk.adapters.weights import checked
from streamk.errors import InvalidInput
from streamk.learners.common.options import SEED as OF_LEARNERS
from streamk.learners.common.predictor import Turns
from streamk.options import Option

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


def _frame(X: Any) -> Frame:
    return Frame(dataframe.into_frame(X))


def _rows(model: Model, frame: Frame) -> Numbers:
    """Return the rows of a frame, to be predicted by a model whose lock is held."""
    return np.concatenate(list(frame.rows(model)))


class Estimator:
    """A learner of events that are dicts, or rows of frames.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.
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
        self._model = Model(learner)
        self._y_name: Any = None

    def __repr__(self) -> str:
        return written(self)

    def debug_one(self, x: Event) -> str:
        """Tell what is predicted for an event, which experts carry the weight, and which fields.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        model = self._model
        with model.lock:
            return model.report(x, model.row(x).copy())

    def learn_one(self, x: Event, y: Any, w: float = 1.0) -> None:
        """Learn from one event.

        Parameters
        ----------
        x : dict
        y : label: str, int or bool, or a number for the regressor
        w : float, default 1
            How often the event counts, 0 to a million. It is learned a whole number of times; what
            is left comes in with the next event of the label, or the next one of the regressor.

        Raises
        ------
        InvalidInput
            If a value, the label or the weight is of no use, naming it; the event is not learned.
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
            Of pandas, Polars or any other library that narwhals knows.
        y : series of n labels
        w : float or series of n floats, default 1
            As of `learn_one`.

        Raises
        ------
        InvalidInput
            If a value, label or weight is of no use, naming it. The rows before one whose value is
            of no use are learned.
        """
        frame, series = _frame(X), dataframe.into_series(y)
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

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        model = self._model
        with model.lock:
            if not model.learner.classes:
                return {}
            return model.learner.predict_proba_one(model.row(x))

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
        model = self._model
        with model.lock:
            if not model.learner.classes:
                return None
            return model.learner.predict_one(model.row(x))

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
        frame, model = dataframe.into_frame(X), self._model
        with model.lock:
            classes = model.learner.classes
            probabilities = np.zeros((len(frame), 0))
            if classes:
                probabilities = model.learner.predict_proba_many(_rows(model, Frame(frame)))
        return dataframe.to_native_frame(
            dict(zip(classes, probabilities.T, strict=True)), like=frame
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
        frame, model = dataframe.into_frame(X), self._model
        labels: list[Any] = [None] * len(frame)
        with model.lock:
            if model.learner.classes:
                labels = model.learner.predict_many(_rows(model, Frame(frame))).tolist()
        return dataframe.to_native_series(labels, name=self._y_name, like=frame)


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
        """Predicted number, 0 before anything is learned.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        model = self._model
        with model.lock:
            if not model.learner.n_events:
                return 0.0
            return float(model.learner.predict_one(model.row(x)))

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
        frame, model = dataframe.into_frame(X), self._model
        numbers = np.zeros(len(frame))
        with model.lock:
            if model.learner.n_events:
                numbers = model.learner.predict_many(_rows(model, Frame(frame)))
        return dataframe.to_native_series(numbers, name=self._y_name, like=frame)
