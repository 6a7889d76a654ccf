"""DC-Pred++ as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk.adapters.options import estimator
from streamk.adapters.sharing import Shared
from streamk.adapters.sklearn.options import check_classes, drawn_seed, labels_of
from streamk.prediction.compiled import CompiledModel
from streamk.prediction.dc_pred import TreeOptions, dc_pred

__all__ = ["DCPredClassifier", "DCPredRegressor"]

Numbers = NDArray[Any]

_EVENTS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""Requirements of events."""


@estimator()
class _DCPred(Shared, BaseEstimator):  # type: ignore[misc]
    """The common part of the classifier and the regressor."""

    budget: float = TreeOptions.budget
    trees: int | None = None
    leaves: int | None = None
    landmarks: int | None = None
    products: int = TreeOptions.products
    halo: float = TreeOptions.halo
    balance: float = TreeOptions.balance
    weighted: bool = TreeOptions.weighted
    ridge: float = TreeOptions.ridge
    iterations: int = TreeOptions.iterations
    random_state: int | np.random.RandomState | None = None

    def _fit(self, X: Numbers, y: NDArray[Any], task: str) -> None:
        options = self.get_params(deep=False)
        seed = drawn_seed(options.pop("random_state"))
        self.model_: CompiledModel = dc_pred(X, y, task=task, seed=seed, **options)

    def _events(self, X: ArrayLike) -> Numbers:
        check_is_fitted(self, "model_")
        events: Numbers = validate_data(self, X, reset=False, **_EVENTS)
        return events

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class DCPredClassifier(ClassifierMixin, _DCPred):  # type: ignore[misc]
    """Trees of small kernel models, which predict in the time of some linear models (DC-Pred++).

    `streamk.prediction.dc_pred` has the method. Columns are scaled by the model itself, and NaN is
    missing.

    Parameters
    ----------
    budget : float, default 10
        Multiply-adds for a prediction over those of a linear model.
    trees, leaves, landmarks : int, optional
        Trees, leaves of each, and landmarks of each leaf. They follow from the budget by default.
    products : int, default 0
        Products of two kernel values that a leaf uses beside them.
    halo : float, default 3
        Events around a leaf that its model learns, over those in it.
    balance : float, default 0.5
        Least share of a node's events on each side of its hyperplane, at most 0.5.
    weighted : bool, default True
        Whether landmarks are found by weighted k-means.
    ridge : float, default 1e-6
        Factor of half the squares of the weights in the loss.
    iterations : int, default 100
        Of L-BFGS for each leaf.
    random_state : int, RandomState or None, default None

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    model_ : CompiledModel
        Its classes are the positions in `classes_`.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import DCPredClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DCPredClassifier(budget=5, random_state=0).fit(X[:1200], y[:1200])
    >>> model.score(X[1200:], y[1200:]) > 0.9, model.model_.cost < 5
    (True, True)
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on events X (n, d), float64, with labels y (n,) of any kind that can be sorted.

        Raises
        ------
        InvalidInput
            If an option is out of its domain, or all labels are of one class.
        ValueError
            If events or labels do not fit, as scikit-learn says it.
        """
        events, labels = validate_data(self, X, labels_of(y), **_EVENTS)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        check_classes(self.classes_)
        self._fit(events, numbers, "classification")
        return self

    def decision_function(self, X: ArrayLike) -> Numbers:
        """Return scores (n,) of two classes, positive for the second, or (n, n_classes)."""
        events = self._events(X)
        scores = self.model_.decision_many(events)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: ArrayLike) -> Numbers:
        """Return probabilities (n, n_classes) of events X (n, d)."""
        events = self._events(X)
        return self.model_.predict_proba_many(events)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (n,) of events X (n, d)."""
        events = self._events(X)
        return self.classes_[self.model_.predict_many(events).astype(np.intp)]


class DCPredRegressor(RegressorMixin, _DCPred):  # type: ignore[misc]
    """As `DCPredClassifier`, for numbers to be predicted, in any unit.

    Attributes
    ----------
    model_ : CompiledModel
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import DCPredRegressor
    >>> X, y = make_friedman1(3_000, random_state=0)
    >>> model = DCPredRegressor(budget=20, random_state=0).fit(X[:2_000], y[:2_000])
    >>> bool(model.score(X[2_000:], y[2_000:]) > 0.9)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on events X (n, d), float64, with numbers y (n,).

        Raises
        ------
        InvalidInput
            If an option is out of its domain.
        ValueError
            If events or numbers do not fit, as scikit-learn says it.
        """
        events, numbers = validate_data(self, X, y, ensure_min_samples=2, y_numeric=True, **_EVENTS)
        self._fit(events, numbers, "regression")
        return self

    def predict(self, X: ArrayLike) -> Numbers:
        """Return numbers (n,), float64, of events X (n, d)."""
        events = self._events(X)
        return self.model_.predict_many(events)
