"""What River estimators have in common: events and frames in, labels and numbers out."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from river import base
from river.utils import dataframe

from streamk.adapters.cells import frame_events
from streamk.adapters.rows import Model
from streamk.errors import InvalidInput
from streamk.learners import Learner
from streamk.learners.report import report

Event = dict[Hashable, Any]


class Estimator:
    """A learner of events that are dicts, or rows of frames."""

    _task: ClassVar[str]
    _model: Model
    _y_name: Any = None
    batch_size: int = 1

    def _make(self, **options: Any) -> Learner:
        """Return a learner by the options of the estimator and these."""
        raise NotImplementedError

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


class Classifier(Estimator, base.MiniBatchClassifier):
    """Of any number of classes."""

    _task = "classification"

    def _start(self, label: Any) -> None:
        if self._model.learner.n_events:
            return
        # River's binary classifiers know both labels from the start.
        known = (False, True) if isinstance(label, bool | np.bool_) else ()
        if self._model.learner.classes != known:  # also after a first event that was refused
            self._model = Model(self._make(classes=known) if known else self._make())

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
        return float(learner.predict_one(self._model.row(x, learn=False)))

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
