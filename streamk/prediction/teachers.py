"""Models that are compiled: their predictions as targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, shown
from streamk.prediction.decisions import agreement, weights_of
from streamk.prediction.targets import Label, Targets, listed, plain

__all__ = ["importance_of", "predicted"]

Numbers = NDArray[Any]

_EXPLAINED = 0.97
"""Share of a model's decisions that weights of its classes explain, at least."""


def predicted(model: Any, X: Numbers, frame: Any = None) -> Targets:
    """Return the model's predictions of events X (n, d), as targets.

    Parameters
    ----------
    model
        A learner of streamk or what has its methods, a model of River, or a fitted estimator of
        scikit-learn or what has its methods: probabilities are taken where it has some, and how it
        decides by them, else classes or numbers.
    X : float64 array of shape (n, d)
    frame : data frame of n rows, optional
        The events with their names, for a model that is not streamk's.

    Raises
    ------
    InvalidInput
        If it is none of these, knows fewer than two classes, predicts several labels or numbers, or
        decides otherwise than by weights of its classes.
    """
    if hasattr(model, "predict_many") and hasattr(model, "is_classifier"):
        return _of_learner(model, X)
    if hasattr(model, "predict_one"):
        return _of_river(model, X, frame)
    if not hasattr(model, "predict"):
        raise InvalidInput(
            f"{type(model).__name__} cannot be compiled: it has neither predict_many, as learners "
            "of streamk, nor predict_one, as models of River, nor predict, as estimators of "
            "scikit-learn"
        )
    return _of_estimator(model, X if frame is None else frame)


def _of_learner(model: Any, X: Numbers) -> Targets:
    answers = model.predict_many(X)
    if not model.is_classifier:
        return Targets.numbers(answers, len(X))
    own = getattr(model, "class_weights", None)
    weights = None if own is None else own.of(model.classes)
    return _of_probabilities(model.predict_proba_many(X), model.classes, answers.tolist(), weights)


def _of_river(model: Any, X: Numbers, frame: Any) -> Targets:
    if frame is None:
        raise InvalidInput(
            f"{type(model).__name__} takes events by the names of their values, as River's models "
            "do: give X_sample as a data frame"
        )
    events = [dict(zip(frame.columns, row, strict=True)) for row in X.tolist()]
    answers = [model.predict_one(x) for x in events]
    try:
        told = [model.predict_proba_one(x) for x in events]
    except NotImplementedError:  # of a classifier that has none
        return Targets.labels(answers, len(X))
    except AttributeError:  # of a regressor, or of clusters: no number is between two of them
        made = Targets.numbers if getattr(model, "_supervised", True) else Targets.labels
        return made(answers, len(X))
    classes = list(dict.fromkeys(label for one in told for label in one))
    P = np.array([[one.get(label, 0.0) for label in classes] for one in told], np.float64)
    return _of_probabilities(P, classes, answers)


def _of_estimator(model: Any, X: Any) -> Targets:
    answers = model.predict(X)
    shape = np.shape(answers)
    if shape[1:] == (1,):
        answers = np.asarray(answers)[:, 0]
    elif len(shape) != 1:
        raise InvalidInput(
            f"{type(model).__name__} predicts {shape[-1]} numbers or labels for an event; one can "
            "be compiled"
        )
    if hasattr(model, "predict_proba") and hasattr(model, "classes_"):
        classes = listed(model.classes_)
        P = np.asarray(model.predict_proba(X), np.float64)
        return _of_probabilities(P, classes, listed(answers))
    tags = getattr(model, "__sklearn_tags__", None)
    kind = None if tags is None else tags().estimator_type
    # Clusters and outliers are numbered, and no number is between two of them.
    if hasattr(model, "classes_") or kind not in (None, "regressor"):
        return Targets.labels(answers, shape[0])
    return Targets.numbers(answers, shape[0])


def _of_probabilities(
    P: Numbers,
    classes: Sequence[Any],
    answers: Sequence[Any],
    weights: Numbers | None = None,
) -> Targets:
    """Return probabilities (n, classes), and the weights by which they explain n answers.

    The model's own `weights` are these unless they do not explain them.
    """
    if len(classes) < 2:
        raise InvalidInput(
            f"the model knows the classes {shown(list(classes))}; two are needed at least"
        )
    P = np.asarray(P, np.float64)
    known = Targets.probabilities(P, classes).classes
    places: dict[Label | None, int] = {label: k for k, label in enumerate(known)}
    fix = "train on its decisions instead: dc_pred(X, model.predict(X))"
    decided = np.array([places.get(plain(answer), -1) for answer in answers])
    if (decided < 0).any():
        strange = answers[int(decided.argmin())]
        raise InvalidInput(
            f"the model predicts {shown(strange)}, which is none of its classes; {fix}"
        )
    if weights is None or agreement(P, weights, decided) < _EXPLAINED:
        weights = weights_of(P, decided)
    explained = agreement(P, weights, decided)
    if explained < _EXPLAINED:
        raise InvalidInput(
            f"the model decides otherwise than by weights of its classes: these explain "
            f"{explained:.1%} of what it predicts of {len(P)} events; {fix}"
        )
    return Targets.probabilities(P, classes, weights)


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
