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
    if not all(isinstance(label, str | int) for label in classes):
        raise InvalidInput(
            f"the model's classes {classes} must be texts, whole numbers or booleans"
        )
    return Targets.probabilities(P, classes)


def importance_of(model: Any, X: Any) -> Numbers:
    """Return the squared coefficients of a fitted kernel machine, as weights of `dc_pred`.

    Parameters
    ----------
    model
        `sklearn.svm.SVC`, `NuSVC` or `SVR`, `sklearn.kernel_ridge.KernelRidge`; `BlockSVC`,
        `BlockRidge`, `KernelRegression` (EigenPro 2.0), `EigenProClassifier`, `EigenProRegressor`,
        `KernelRidgeClassifier` and `KernelRidgeRegressor` of `streamk.adapters.sklearn`; and the
        learners `EigenPro` and `OnlineKernelRidge`, by themselves or in `Scaled`. An SVM of many
        classes has a coefficient for each pair of classes, and their squares are summed; so are
        those of several outputs. A learner's centers count for the events nearest to them.
    X : array of shape (n, d)
        The events it was fitted to, in the same order.

    Returns
    -------
    float64 array of shape (n,)

    Raises
    ------
    InvalidInput
        If the model has no coefficients of these events, or is not fitted.
    """
    n = int(np.shape(X)[0])
    learner = getattr(model, "learner_", model)
    if hasattr(learner, "coefficients_of"):
        return _squares(learner.coefficients_of(X))
    name, coefficients = type(model).__name__, getattr(model, "dual_coef_", None)
    if coefficients is None:
        raise InvalidInput(
            f"{name} has no dual_coef_, the coefficients of the events it was fitted to: it is not "
            "fitted, or no kernel machine with one for each event"
        )
    coefficients = np.asarray(
        coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients, np.float64
    )
    support = getattr(model, "support_", None)
    if support is None:
        _check_events(name, len(coefficients), n)
        return _squares(coefficients)
    fitted = getattr(model, "shape_fit_", None)
    if fitted is not None:
        _check_events(name, fitted[0], n)
    if len(support) and support.max() >= n:
        raise InvalidInput(
            f"{name} has a support vector in row {support.max()}, and {n} events were given"
        )
    found = np.zeros(n)
    found[support] = _squares(coefficients.T)
    return found


def _squares(coefficients: Numbers) -> Numbers:
    """Return the sum of the squares of each row (n,) of coefficients (n,) or (n, outputs)."""
    rows = coefficients.reshape(len(coefficients), -1)
    found: Numbers = np.einsum("ij,ij->i", rows, rows)
    return found


def _check_events(name: str, fitted: int, n: int) -> None:
    if fitted != n:
        raise InvalidInput(
            f"{name} has coefficients of {fitted} events, not of the {n} that were given"
        )
