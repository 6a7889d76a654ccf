"""Models that are compiled: their predictions as targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.prediction.targets import Targets

__all__ = ["importance_of", "predicted"]

Numbers = NDArray[Any]


def predicted(model: Any, X: Numbers) -> Targets:
    """Return the model's predictions of events X (n, d), as targets.

    Parameters
    ----------
    model
        A learner of streamk or what has its methods, or a fitted estimator of scikit-learn or what
        has its methods: probabilities are taken where it has some, else classes or numbers.
    X : float64 array of shape (n, d)

    Raises
    ------
    InvalidInput
        If it is neither, knows fewer than two classes, or predicts several numbers.
    """
    if hasattr(model, "predict_many"):
        return _of_learner(model, X)
    if not hasattr(model, "predict"):
        raise InvalidInput(
            f"{type(model).__name__} cannot be compiled: it has neither predict_many, as learners "
            "of streamk, nor predict, as estimators of scikit-learn"
        )
    if hasattr(model, "predict_proba") and hasattr(model, "classes_"):
        P = np.asarray(model.predict_proba(X), np.float64)
        return _of_probabilities(P, np.asarray(model.classes_).tolist())
    y = np.asarray(model.predict(X))
    if hasattr(model, "classes_"):
        return Targets.labels(y, len(X))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InvalidInput(
            f"{type(model).__name__} predicts {y.shape[1]} numbers for an event; one can be "
            "compiled"
        )
    return Targets.numbers(y, len(X))


def _of_learner(model: Any, X: Numbers) -> Targets:
    if not model.is_classifier:
        return Targets.numbers(model.predict_many(X), len(X))
    return _of_probabilities(np.asarray(model.predict_proba_many(X)), list(model.classes))


def _of_probabilities(P: Numbers, classes: list[Any]) -> Targets:
    if len(classes) < 2:
        raise InvalidInput(f"the model knows the classes {classes}; two are needed at least")
    if all(isinstance(label, float) and label.is_integer() for label in classes):
        classes = [int(label) for label in classes]
    return Targets.probabilities(P, classes)


def importance_of(model: Any, X: Any) -> Numbers:
    """Return the squared coefficients of a fitted kernel machine, as weights of `dc_pred`.

    Parameters
    ----------
    model
        `sklearn.svm.SVC` or `SVR`, `sklearn.kernel_ridge.KernelRidge`, and
        `streamk.adapters.sklearn.KernelRegression` or `BlockSVC`.
    X : array of shape (n, d)
        The events it was fitted to, in the same order.

    Returns
    -------
    float64 array of shape (n,)

    Raises
    ------
    InvalidInput
        If the model has no coefficients of these events.
    """
    n = len(X)
    found = np.zeros(n)
    coefficients = getattr(model, "dual_coef_", None)
    if coefficients is None:
        raise InvalidInput(
            f"{type(model).__name__} has no dual_coef_, the coefficients of the events it was "
            "fitted to"
        )
    coefficients = np.asarray(
        coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients, np.float64
    )
    support = getattr(model, "support_", None)
    if support is not None:
        found[support] = np.square(coefficients).sum(axis=0)
        return found
    if coefficients.shape[0] != n:
        raise InvalidInput(
            f"{type(model).__name__} has coefficients of {coefficients.shape[0]} events, not of "
            f"the {n} that were given"
        )
    squares: Numbers = np.square(coefficients.reshape(n, -1)).sum(axis=1)
    return squares
