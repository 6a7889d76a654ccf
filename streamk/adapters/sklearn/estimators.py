"""The common part of scikit-learn estimators: arrays and frames in, labels and numbers out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from streamk.adapters.batches import Batch, Frame, as_frame
from streamk.adapters.rows import Model, Numbers
from streamk.adapters.sharing import Shared
from streamk.adapters.sklearn.options import labels_of
from streamk.adapters.weights import checked, relative, repeats
from streamk.errors import InvalidInput, shown
from streamk.landmarks.selection import check_count
from streamk.learners import Learner

_EVENTS: dict[str, Any] = {
    "dtype": np.float64,
    "ensure_all_finite": "allow-nan",
    "accept_sparse": "csr",
}
"""Requirements of events."""


class Array(Batch):
    """The rows of an array, dense or CSR, whose columns may have names.

    Parameters
    ----------
    X : float64 array of shape (n, d)
    names : list of d str, optional
        They are numbered by default.
    """

    def __init__(self, X: Any, names: list[Hashable] | None = None) -> None:
        self._X, self._names = X, names

    def __len__(self) -> int:
        return int(self._X.shape[0])

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return int(self._X.shape[1])

    def take(self, places: NDArray[np.intp]) -> Self:
        """Return the rows at these places."""
        return type(self)(self._X[places], self._names)

    def _dense(self, some: slice) -> Numbers:
        rows = self._X[some]
        return np.ascontiguousarray(rows.toarray() if scipy.sparse.issparse(rows) else rows)

    def numbers(self, model: Model, some: slice) -> Numbers | None:
        """Return rows for the model; None where columns by name are new to it."""
        rows = self._dense(some)
        return rows if self._names is None else model.rows_of_columns(self._names, rows)

    def contents(self, some: slice) -> Iterator[bytes]:
        """Yield what rows are."""
        return (row.tobytes() for row in self._dense(some) + 0.0)

    def dicts(self, some: slice) -> list[dict[Hashable, Any]]:
        """Return rows as dicts, with NaN where a value is missing."""
        names = self._names or []
        return [dict(zip(names, row, strict=True)) for row in self._dense(some).tolist()]


def _weights(sample_weight: ArrayLike, n: int) -> Numbers:
    """Return the weights of n events. Raises ValueError as scikit-learn says it."""
    found: Numbers = _check_sample_weight(
        sample_weight, np.zeros((n, 1)), dtype=np.float64, ensure_non_negative=True
    )
    return found


def _check_size(frame: Frame) -> None:
    for what, n in (("sample", len(frame)), ("feature", frame.width)):
        if not n:
            raise InvalidInput(f"found a data frame with 0 {what}(s); at least 1 is needed")


class Estimator(Shared, BaseEstimator):  # type: ignore[misc]
    """A learner of arrays or data frames, by passes over them or on a stream."""

    _task: ClassVar[str]
    _model: Model
    _names: list[Hashable] | None
    """Of the columns, if data frames are learned and not arrays."""
    random_state: int | np.random.RandomState | None

    @property
    def learner_(self) -> Learner:
        """Return the fitted learner; there is none before the first fit."""
        return self._model.learner

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        """Return a learner by the options of the estimator and these."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    @property
    def _passes(self) -> int:
        """Return how often `fit` passes over its events."""
        n: int = getattr(self, "n_epochs", 1)
        check_count("n_epochs", n)
        return n

    def _counting(
        self, X: Batch, y: NDArray[Any], sample_weight: Any
    ) -> tuple[Batch, NDArray[Any], Numbers | None]:
        """Return the events that are to be learned in `fit`, their labels and relative weights."""
        if sample_weight is None:
            return X, y, None
        weights = relative(_weights(sample_weight, len(X)))
        counting = np.flatnonzero(weights)
        return X.take(counting), y[counting], weights[counting]

    def _fit(self, X: Batch, y: NDArray[Any], weights: Numbers | None, **options: Any) -> None:
        """Pass over the events, each time in another order, and learn the last ones in any case."""
        passes, random = self._passes, check_random_state(self.random_state)
        self._model = Model(self._make(random, **options))
        order = X.order(y, weights)
        for turn in range(passes):
            often = 1 if weights is None else repeats(weights[order], turn, passes)
            places = random.permutation(np.repeat(order, often))
            X.take(places).learn(self._model, y[places].tolist())
        self._model.learner.finish()

    def _learn(self, X: Batch, y: NDArray[Any], sample_weight: Any) -> None:
        """Learn events of a stream in their order."""
        weights = None
        if sample_weight is not None:
            weights = checked(_weights(sample_weight, len(X)), len(X), "sample_weight")
        X.learn(self._model, y.tolist(), weights)

    def _check(self, X: Any, y: Any, *, reset: bool) -> tuple[Batch, NDArray[Any]]:
        """Return the events and labels; a NaN or null in an event is missing."""
        numeric = self._task == "regression"
        y = y if numeric else labels_of(y)
        frame = as_frame(X) if reset or self._names is not None else None
        if frame is None:
            array, labels = validate_data(self, X, y, reset=reset, y_numeric=numeric, **_EVENTS)
            if reset:
                self._names = None
            return Array(array, self._names), labels
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_consistent_length(X, labels)
        _check_size(frame)
        if reset:
            self._names = frame.names
        return frame, np.asarray(labels, np.float64 if numeric else None)

    def _parts(self, X: Any) -> Iterator[Numbers]:
        """Yield arrays of events that are to be predicted."""
        check_is_fitted(self, "learner_")
        frame = None if self._names is None else as_frame(X)
        if frame is None:
            X = validate_data(self, X, reset=False, **_EVENTS)
            return Array(X, self._names).rows(self._model)
        validate_data(self, X, reset=False, skip_check_array=True)
        _check_size(frame)
        return frame.rows(self._model)

    def _joined(self, X: Any, method: str, *arguments: Any) -> NDArray[Any]:
        """Return what a method of the learner says of all events."""
        parts, model = self._parts(X), self._model
        say = getattr(model.learner, method)
        with model.lock, model.learner.aside():  # predictions change nothing
            return np.concatenate([say(rows, *arguments) for rows in parts])


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Of any number of classes."""

    _task = "classification"
    classes_: NDArray[Any]

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from events, forgetting what was learned before.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)
        y : array of shape (n,)
            Labels of any kind that can be sorted.
        sample_weight : array of shape (n,), optional
            What each event counts beside the others: 0 is as if it were not there, 2 beside 1 as if
            it were there twice. All of them times a number are the same: they are taken in the
            smallest whole numbers of their ratio, 4 on average at most, or divided by their mean.
            An event is learned a whole number of times in a pass; over the passes fractions even
            out.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain.
        ValueError
            If events or labels do not fit, as scikit-learn says it.
        """
        events, labels = self._check(X, y, reset=True)
        check_classification_targets(labels)
        events, labels, weights = self._counting(events, labels, sample_weight)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        self._fit(events, numbers, weights, classes=range(len(self.classes_)))
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from more events, once and in their order.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)
        y : array of shape (n,)
        classes : array of shape (n_classes,), optional
            All labels there will be; needed in the first call.
        sample_weight : array of shape (n,), optional
            How often each event counts, 0 to a million, and not beside others as in `fit`. It is
            learned a whole number of times; what is left of a fraction comes in with the next
            event of the label, in a later call too.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If `classes` is missing in the first call or differs later, a label is not one of
            them, or an option is out of its domain.
        ValueError
            If events or labels do not fit, as scikit-learn says it.
        """
        first = not hasattr(self, "_model")
        events, labels = self._check(X, y, reset=first)
        check_classification_targets(labels)
        if first and classes is None:
            raise InvalidInput("classes= is needed in the first call of partial_fit")
        known = self.classes_ if classes is None else np.unique(labels_of(classes))
        if not first and not np.array_equal(known, self.classes_):
            before = shown(self.classes_)
            raise InvalidInput(f"classes={shown(classes)} differ from those of before, {before}")
        strange = np.setdiff1d(labels, known)
        if len(strange):
            raise InvalidInput(
                f"label {shown(strange[0])} is not one of the classes {shown(known)}; the first "
                "call of partial_fit needs all labels there will be, as classes="
            )
        if first:
            self.classes_ = known
            random = check_random_state(self.random_state)
            self._model = Model(self._make(random, classes=range(len(known))))
        self._learn(events, np.searchsorted(known, labels), sample_weight)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Outputs of the kernel function, before any decision.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)

        Returns
        -------
        float64 array of shape (n,) or (n, n_classes)
            With two classes, positive where the second one is predicted; else the largest one of
            the row is.
        """
        F = self._joined(X, "decision_many")
        if len(self.classes_) > 2:
            return F
        return F[:, 0] if F.shape[1] == 1 else F[:, 1] - F[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of events X (n, d), shape (n,)."""
        numbers = self._joined(X, "predict_many")
        return self.classes_[numbers.astype(np.intp)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of `classes_` for events X (n, d), float64 of shape (n, n_classes)."""
        return self._joined(X, "predict_proba_many")


class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Of numbers."""

    _task = "regression"

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from events, forgetting what was learned before.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            What each event counts beside the others: 0 is as if it were not there, 2 beside 1 as if
            it were there twice. All of them times a number are the same: they are taken in the
            smallest whole numbers of their ratio, 4 on average at most, or divided by their mean.
            An event is learned a whole number of times in a pass; over the passes fractions even
            out.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain.
        ValueError
            If events or labels do not fit, as scikit-learn says it.
        """
        self._fit(*self._counting(*self._check(X, y, reset=True), sample_weight))
        return self

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from more events, once and in their order.

        Parameters
        ----------
        X : array, CSR matrix or data frame of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            How often each event counts, 0 to a million, and not beside others as in `fit`. It is
            learned a whole number of times; what is left of a fraction comes in with the next
            event, in a later call too.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain.
        ValueError
            If events or labels do not fit, as scikit-learn says it.
        """
        first = not hasattr(self, "_model")
        events, labels = self._check(X, y, reset=first)
        if first:
            self._model = Model(self._make(check_random_state(self.random_state)))
        self._learn(events, labels, sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Numbers predicted for events X (n, d), float64 of shape (n,)."""
        return self._joined(X, "predict_many")
