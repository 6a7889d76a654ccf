"""What scikit-learn estimators have in common: arrays in, labels and numbers out."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk import learners
from streamk.errors import InvalidInput
from streamk.learners import Learner

_EVENTS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""What events have to be."""


class Estimator(BaseEstimator):  # type: ignore[misc]
    """A learner of arrays, by passes over them or on a stream."""

    _task: ClassVar[str]
    learner_: Learner
    n_epochs: int
    random_state: int | np.random.RandomState | None

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        """Return a learner by the options of the estimator and these."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        saved = dict(super().__getstate__())
        if "learner_" in saved:
            saved["learner_"] = self.learner_.state()
        return saved

    def __setstate__(self, saved: dict[str, Any]) -> None:
        if "learner_" in saved:
            saved = {**saved, "learner_": learners.from_state(saved["learner_"])}
        super().__setstate__(saved)

    def _fit(self, X: NDArray[Any], y: NDArray[Any], **options: Any) -> None:
        """Pass over the events `n_epochs` times, each time in another order."""
        if self.n_epochs < 1:
            raise InvalidInput(f"n_epochs={self.n_epochs!r} must be at least 1")
        random = check_random_state(self.random_state)
        self.learner_ = self._make(random, **options)
        for _ in range(self.n_epochs):
            order = random.permutation(len(X))
            self.learner_.learn_many(X[order], y[order])

    def _check(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return the events and labels as arrays; NaN in an event is missing."""
        events, labels = validate_data(
            self, X, y, reset=reset, y_numeric=self._task == "regression", **_EVENTS
        )
        return events, labels

    def _check_events(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "learner_")
        events: NDArray[np.float64] = validate_data(self, X, reset=False, **_EVENTS)
        return events


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Of any number of classes."""

    _task = "classification"
    classes_: NDArray[Any]

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from events, forgetting what was learned before.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
            Labels of any kind that can be sorted.

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
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        self._fit(events, numbers, classes=range(len(self.classes_)))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn from more events, once and in their order.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
        classes : array of shape (n_classes,), optional
            All labels there will be; needed in the first call.

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
        first = not hasattr(self, "learner_")
        events, labels = self._check(X, y, reset=first)
        check_classification_targets(labels)
        if first and classes is None:
            raise InvalidInput("classes= is needed in the first call of partial_fit")
        known = self.classes_ if classes is None else np.unique(classes)
        if not first and not np.array_equal(known, self.classes_):
            raise InvalidInput(f"classes={classes!r} differ from those of before, {self.classes_}")
        strange = np.setdiff1d(labels, known)
        if len(strange):
            raise InvalidInput(f"label {strange[0]!r} is not one of the classes {known}")
        if first:
            self.learner_ = self._make(
                check_random_state(self.random_state), classes=range(len(known))
            )
            self.classes_ = known
        self.learner_.learn_many(events, np.searchsorted(known, labels))
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Outputs of the kernel function, before any decision.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        float64 array of shape (n,) or (n, n_classes)
            With two classes, positive where the second one is predicted; else the largest one of
            the row is.
        """
        events = self._check_events(X)
        F = self.learner_.decision_many(events)
        if len(self.classes_) > 2:
            return F
        return F[:, 0] if F.shape[1] == 1 else F[:, 1] - F[:, 0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels of events X (n, d), shape (n,)."""
        events = self._check_events(X)
        numbers = self.learner_.predict_many(events)
        return self.classes_[numbers.astype(np.intp)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of `classes_` for events X (n, d), float64 of shape (n, n_classes)."""
        events = self._check_events(X)
        return self.learner_.predict_proba_many(events)


class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Of numbers."""

    _task = "regression"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from events, forgetting what was learned before.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)

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
        self._fit(*self._check(X, y, reset=True))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from more events, once and in their order.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)

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
        first = not hasattr(self, "learner_")
        events, labels = self._check(X, y, reset=first)
        if first:
            self.learner_ = self._make(check_random_state(self.random_state))
        self.learner_.learn_many(events, labels)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Numbers predicted for events X (n, d), float64 of shape (n,)."""
        events = self._check_events(X)
        return self.learner_.predict_many(events)
