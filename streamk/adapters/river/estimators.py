"""What River estimators have in common: events and frames in, labels and numbers out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
from river import base
from river.utils import dataframe

from streamk.adapters.cells import frame_events
from streamk.adapters.rows import Model, Numbers
from streamk.errors import InvalidInput
from streamk.learners import Learner
from streamk.learners.report import report

Event = dict[Hashable, Any]


def _numeric(frame: Any) -> bool:
    return all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values())


def _rows(model: Model, frame: Any) -> Numbers:
    """Return the rows of a narwhals frame, to be predicted."""
    if _numeric(frame):
        return model.rows_of_columns(frame.columns, dataframe.to_numpy(frame))
    return model.rows(frame_events(frame))


class Estimator:
    """A learner of events that are dicts, or rows of frames."""

    _task: ClassVar[str]
    _model: Model
    _y_name: Any = None

    def _make(self, **options: Any) -> Learner:
        """Return a learner by the options of the estimator and these."""
        raise NotImplementedError

    def _started(self, label: Any) -> Model:
        """Return the model that learns, a new one where the first label tells its classes."""
        return self._model

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
        return report(self._model.learner, self._model.row(x))

    def learn_one(self, x: Event, y: Any) -> None:
        """Learn from one event.

        Parameters
        ----------
        x : dict
        y : label: str, int or bool, or a number for the regressor

        Raises
        ------
        InvalidInput
            If a value or the label is of no use, naming it; the event is not learned.
        """
        model = self._started(y)
        model.learner.learn_one(model.row(x, [y]), y)
        self._model = model

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame in their order, as `learn_one` of every row.

        Parameters
        ----------
        X : data frame of n rows
            Of pandas, Polars or any other library that narwhals knows.
        y : series of n labels

        Raises
        ------
        InvalidInput
            If a value or label is of no use, naming it. Nothing of a frame of numbers is learned
            then; of one with strings the rows before it are.
        """
        frame, series = dataframe.into_frame(X), dataframe.into_series(y)
        if len(frame) != len(series):
            raise InvalidInput(f"{len(frame)} events came with {len(series)} labels")
        if not len(frame):
            return
        labels = series.to_list()
        model = self._started(labels[0])
        for events, some in _pieces(model, frame, labels):
            model.learner.learn_many(events, some)
            self._model, self._y_name = model, series.name


def _pieces(model: Model, frame: Any, labels: list[Any]) -> Iterator[tuple[Numbers, list[Any]]]:
    """Yield the rows of a narwhals frame and their labels, where there are strings one by one.

    What is new in a string's column is a column more, which comes when its row is learned.
    """
    if _numeric(frame):
        yield model.rows_of_columns(frame.columns, dataframe.to_numpy(frame), labels), labels
    else:
        for event, label in zip(frame_events(frame), labels, strict=True):
            yield model.rows([event], [label]), [label]


class Classifier(Estimator, base.MiniBatchClassifier):
    """Of any number of classes."""

    _task = "classification"

    def _started(self, label: Any) -> Model:
        # River's binary classifiers know both labels from the start.
        if self._model.learner.n_events or not isinstance(label, bool | np.bool_):
            return self._model
        return Model(self._make(classes=(False, True)))

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
        return learner.predict_proba_one(self._model.row(x))

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
        return learner.predict_one(self._model.row(x))

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
            probabilities = learner.predict_proba_many(_rows(self._model, frame))
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
            labels = learner.predict_many(_rows(self._model, frame)).tolist()
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
        learner = self._model.learner
        if not learner.n_events:
            return 0.0
        return float(learner.predict_one(self._model.row(x)))

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
            numbers = learner.predict_many(_rows(self._model, frame))
        return dataframe.to_native_series(numbers, name=self._y_name, like=frame)
