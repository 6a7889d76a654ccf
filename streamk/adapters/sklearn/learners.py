"""Kernel learners as scikit-learn estimators."""

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
from streamk.kernels import Kernel
from streamk.learners import Learner, Step
from streamk.losses import Loss

__all__ = ["KernelClassifier", "KernelRegressor"]

_EVENTS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""What events have to be."""


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor have in common."""

    _task: ClassVar[str]
    learner_: Learner

    def __init__(
        self,
        *,
        kernel: str | Kernel = "gaussian",
        bandwidth: float = 0.7,
        loss: str | Loss | None = None,
        step: float | Step = 1.0,
        regularization: float = 0.0,
        batch_size: int = 8,
        block_size: int = 2048,
        max_features: int = 2048,
        sampler: str = "iid",
        n_epochs: int = 10,
        random_state: int | np.random.RandomState | None = None,
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
        self.n_epochs = n_epochs
        self.random_state = random_state

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

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        return learners.create(
            "doubly-stochastic",
            task=self._task,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            loss=self.loss,
            step=self.step,
            regularization=self.regularization,
            batch_size=self.batch_size,
            block_size=self.block_size,
            max_features=self.max_features,
            sampler=self.sampler,
            seed=int(random.randint(2**31)),
            **options,
        )

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


class KernelClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Kernel classification, for any number of classes, by passes over the data or on a stream.

    A doubly stochastic kernel learner (`streamk.learners.DoublyStochastic`) behind an online
    scaling of the columns (`streamk.learners.Scaled`), so that no scaler is needed before it. NaN
    is missing and counts as the column's mean.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "matern", "rational_quadratic", "cauchy", "linear", or one of
        `streamk.kernels`.
    bandwidth : float, default 0.7
        Of a kernel given by name, in units of the scaled columns: two events are sqrt(2) apart in
        the root of the mean square. The default is about that of `sklearn.svm.SVC`, whose
        ``gamma="scale"`` is ``bandwidth = sqrt(1/2)`` here.
    loss : str or Loss, optional
        "softmax" by default; "logistic", "hinge", "squared_hinge", "squared", see `streamk.losses`.
    step : float or Step, default 1.0
        Step size; a number is a constant one, see `streamk.learners.steps` for others.
    regularization : float, default 0
        Factor of half the squared norm that is added to the loss.
    batch_size : int, default 8
        Events a step.
    block_size : int, default 2048
        Random features a step.
    max_features : int, default 2048
        All random features. Where it is more than `block_size`, steps take the blocks in turn.
    sampler : {"iid", "hadamard"}, default "iid"
        How random features are drawn. "hadamard" is faster from some 20 columns on, for kernels of
        the Euclidean distance, not "laplacian" or "cauchy".
    n_epochs : int, default 10
        Passes of `fit` over its events, each in a new random order. `partial_fit` makes one, in
        the order given.
    random_state : int, RandomState or None, default None
        Of the random features and of the orders.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    learner_ : Learner
        Its labels are the positions in `classes_`.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.adapters.sklearn import KernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(cross_val_score(KernelClassifier(random_state=0), X, y, cv=3).mean() > 0.9)
    True
    """

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


class KernelRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Kernel regression, by passes over the data or on a stream.

    As `KernelClassifier`, for numbers to be predicted. They are standardised as they come, so
    the step size and the parameter of a loss do not depend on their unit.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
    bandwidth : float, default 0.7
    loss : str or Loss, optional
        "squared" by default; "huber", "epsilon_insensitive", "quantile", see `streamk.losses`.
    step : float or Step, default 1.0
    regularization : float, default 0
    batch_size : int, default 8
    block_size : int, default 2048
    max_features : int, default 2048
    sampler : {"iid", "hadamard"}, default "iid"
    n_epochs : int, default 10
    random_state : int, RandomState or None, default None
        These are described in `KernelClassifier`.

    Attributes
    ----------
    learner_ : Learner
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.adapters.sklearn import KernelRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

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
