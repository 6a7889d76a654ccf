"""The common part of River estimators: events and frames in, labels and numbers out."""

from __future__ import annotations

import secrets
from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np
from river import base
from river.utils import dataframe

from streamk import learners
from streamk.adapters.batches import Frame
from streamk.adapters.options import chosen, written
from streamk.adapters.rows import Model, Numbers
from streamk.adapters.weights import checked
from streamk.errors import InvalidInput
from streamk.learners import Learner

Event = dict[Hashable, Any]


def _frame(X: Any) -> Frame:
    return Frame(dataframe.into_frame(X))


def _rows(model: Model, frame: Frame) -> Numbers:
    """Return the rows of a frame, to be predicted by a model whose lock is held."""
    return np.concatenate(list(frame.rows(model)))


class Estimator:
    """A learner of events that are dicts, or rows of frames."""

    _task: ClassVar[str]
    _learner: ClassVar[str]
    """Its name, see `streamk.learners.create`."""
    _model: Model
    seed: int | None = None

    def __post_init__(self) -> None:
        self._seed = secrets.randbits(63) if self.seed is None else self.seed
        self._model = Model(self._make())
        self._y_name: Any = None

    def _make(self) -> Learner:
        return learners.create(self._learner, task=self._task, seed=self._seed, **chosen(self))

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
    """Of numbers."""

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
