"""Targets of trees: labels, or the predictions of a model, with its coefficients as weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, shown
from streamk.prediction.compiled import Label

Numbers = NDArray[Any]
Places = NDArray[np.intp]

_ROUNDS = 20
"""In which each class has its weight moved, at most."""
_MOST = 1e150
"""Weight over another one, at most."""
_LEAST_MASS = 0.5
"""Sum of a class's probabilities over the events of a leaf from which on the leaf has the class."""
_EXPLAINED = 0.97
"""Share of a model's decisions that weights of its classes explain, at least."""


def agreement(P: Numbers, weights: Numbers, decided: Places) -> float:
    """Return the share of decisions (n,) that weights (classes,) of P (n, classes) explain."""
    return float(np.mean((P * weights).argmax(axis=1) == decided))


def weights_of(P: Numbers, decided: Places) -> Numbers:
    """Return the weights of classes that explain most decisions.

    Each class in turn gets the weight with which most events are decided as they were, in the
    middle of all that do as well; where 1 does, it stays.

    Examples
    --------
    >>> P = np.array([[0.95, 0.05], [0.85, 0.15], [0.8, 0.2]])
    >>> weights = weights_of(P, np.array([0, 1, 1]))  # by a threshold of 0.1
    >>> (P * weights).argmax(axis=1)
    array([0, 1, 1])
    """
    weights = np.ones(P.shape[1])
    explained = agreement(P, weights, decided)
    for _ in range(_ROUNDS):
        wrong = (P * weights).argmax(axis=1) != decided
        for k in np.union1d(decided[wrong], (P[wrong] * weights).argmax(axis=1)).tolist():
            weights[k] = _weight(P, weights, decided, k)
        before, explained = explained, agreement(P, weights, decided)
        if explained <= before:
            break
    return weights


def _weight(P: Numbers, weights: Numbers, decided: Places, k: int) -> float:
    """Return the weight of class k with which most events are decided as they were."""
    others = P * weights
    others[:, k] = 0.0
    best = others.argmax(axis=1)
    # The class is chosen where its weight is above this. Without a probability it never is.
    given = P[:, k] > 0.0
    with np.errstate(over="ignore"):
        least = np.clip(others[given].max(axis=1) / P[given, k], 1.0 / _MOST, _MOST)
    gains = np.where(decided == k, 1, np.where(best == decided, -1, 0))[given]
    order = np.argsort(least)
    edges = np.concatenate([[0.0], least[order], [np.inf]])
    right = np.concatenate([[0], np.cumsum(gains[order])])
    right[edges[:-1] == edges[1:]] = -len(P)  # no weight is between the two
    places = np.flatnonzero(right == right.max())
    low, high = edges[places], edges[places + 1]
    if ((low < weights[k]) & (weights[k] <= high)).any():
        return float(weights[k])
    # Neighbours that do as well are one; the widest is the surest.
    first = np.concatenate([[True], low[1:] != high[:-1]])
    low, high = low[first], high[np.concatenate([first[1:], [True]])]
    widest = int(np.argmax(np.minimum(high, _MOST) / np.maximum(low, 1.0 / _MOST)))
    from_, to = float(low[widest]), float(high[widest])
    if np.isinf(to):
        return 2.0 * from_
    return 0.5 * to if from_ == 0.0 else float(np.sqrt(from_ * to))


@dataclass(frozen=True)
class Targets:
    """The numbers or probabilities to predict, one row for each event."""

    values: Numbers
    """float64 (n, 1) or (n, classes): numbers, in units of their deviation; probabilities, those of
    the second of two classes"""
    classes: tuple[Label, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    weights: Numbers | None = None
    """float64 (classes,), of the classes in decisions; 1 by default"""

    @classmethod
    def numbers(cls, y: Any, n: int) -> Targets:
        """Return the targets of n numbers."""
        try:
            values = np.asarray(y, np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                "labels of a regression must be numbers; choose task='classification' for classes"
            ) from None
        _check_length(values.shape, n)
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InvalidInput(f"the label of row {row} is {values[row]}, which must be finite")
        # In units of a power of 2 near the greatest number, so that no sum or square overflows.
        power = int(np.frexp(np.abs(values).max(initial=0.0))[1])
        scaled = np.ldexp(values, -power)
        mean, deviation = float(scaled.mean()), float(scaled.std()) or 1.0
        mean_in_unit, deviation_in_unit = np.ldexp([mean, deviation], power).tolist()
        return cls(((scaled - mean) / deviation)[:, None], (), mean_in_unit, deviation_in_unit)

    @classmethod
    def labels(cls, y: Any, n: int) -> Targets:
        """Return the targets of n labels: texts, whole numbers or booleans."""
        _check_length(np.shape(y), n)
        found: list[Label] = []
        for row, label in enumerate(listed(y)):
            one = plain(label)
            if one is None:
                raise InvalidInput(
                    f"the label of row {row}, {label!r}, must be a text, a whole number or a "
                    "boolean; choose task='regression' for numbers"
                )
            found.append(one)
        classes = list(dict.fromkeys(found))
        if len({(type(label), label) for label in found}) > len(classes):
            raise InvalidInput("labels such as 1 and True are the same; make them all texts")
        try:
            classes.sort()
        except TypeError:
            raise InvalidInput("labels are of several types; make them all texts") from None
        if len(classes) < 2:
            raise InvalidInput(f"all labels are {classes[0]!r}; there must be two classes at least")
        places = {label: place for place, label in enumerate(classes)}
        codes = np.array([places[label] for label in found])
        if len(classes) == 2:
            return cls(codes[:, None].astype(np.float64), tuple(classes))
        values = np.zeros((n, len(classes)))
        values[np.arange(n), codes] = 1.0
        return cls(values, tuple(classes))

    @classmethod
    def probabilities(
        cls, P: Numbers, classes: Sequence[Any], weights: Numbers | None = None
    ) -> Targets:
        """Return the targets of probabilities (n, classes), scaled to sum to 1."""
        known = tuple(one for label in classes if (one := plain(label)) is not None)
        if len(known) < len(classes):
            raise InvalidInput(
                f"the model's classes {shown(list(classes))} must be texts, whole numbers or "
                "booleans"
            )
        if P.ndim != 2 or P.shape[1] != len(classes):
            raise InvalidInput(
                f"probabilities of shape {P.shape} do not fit {len(classes)} classes"
            )
        if not (np.isfinite(P) & (P >= 0.0)).all():
            row = int(np.flatnonzero(~(np.isfinite(P) & (P >= 0.0)).all(axis=1))[0])
            raise InvalidInput(f"the probabilities of row {row} are {P[row]}")
        totals = P.sum(axis=1, keepdims=True)
        nothing = totals == 0.0
        values = np.where(nothing, 1.0 / len(classes), P / np.where(nothing, 1.0, totals))
        return cls(values[:, 1:] if len(classes) == 2 else values, known, weights=weights)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_classifier(self) -> bool:
        """True for classes, False for numbers."""
        return bool(self.classes)

    def take(self, rows: Any) -> Targets:
        """Return the targets of some events."""
        return replace(self, values=self.values[rows])

    def of_leaf(self, rows: NDArray[np.intp]) -> tuple[Numbers, NDArray[np.int64], float]:
        """Return the targets (n, q) of a leaf's events, its outputs, and the rest of the mass.

        The leaf has the classes whose probabilities sum up to at least one half, and those that an
        event is decided on, and its targets sum to 1. The rest is the mean probability of the
        others; of labels that are certain the share of those that are the only ones of their class
        (Good and Turing).
        """
        values = self.values[rows]
        if values.shape[1] == 1:
            return values, np.zeros(1, np.int64), 0.0
        mass = values.sum(axis=0)
        has = mass >= min(_LEAST_MASS, float(mass.max()))
        has[(values if self.weights is None else values * self.weights).argmax(axis=1)] = True
        (outputs,) = np.nonzero(has)
        rest = 1.0 - float(mass[outputs].sum()) / len(rows)
        single = float((mass[outputs] == 1.0).sum()) / len(rows)
        chosen = values[:, outputs]
        totals = chosen.sum(axis=1, keepdims=True)
        even = np.full(len(outputs), 1.0 / len(outputs))
        chosen = np.where(totals > 0.0, chosen / np.where(totals > 0.0, totals, 1.0), even)
        return chosen, outputs.astype(np.int64), max(rest, single)


def listed(y: Any) -> list[Any]:
    """Return labels as a list, each as it is."""
    return y.tolist() if hasattr(y, "tolist") else list(y)


def plain(label: Any) -> Label | None:
    """Return a label as a str, int or bool of Python's own, as a file has it; None of another."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, bool):
        return label
    if isinstance(label, str):
        return str.__str__(label)  # of a member of an enum, too
    if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        return int(label)
    return None


def _check_length(shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise InvalidInput(f"labels of shape {shape} must have shape ({n},), one for each event")


def predicted(model: Any, X: Numbers, frame: Any = None) -> Targets:
    """Return the model's predictions of events X (n, d), as targets.

    It is a learner of streamk or what has its methods, a model of River, or a fitted estimator of
    scikit-learn or what has its methods: probabilities are taken where it has some, and how it
    decides by them, else classes or numbers. The frame has the events with their names, for a model
    that is not streamk's.
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
            f"{type(model).__name__} takes events with named values, as River's models do: give "
            "X_sample as a data frame"
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
            f"the model predicts {shown(strange)}, which is not one of its classes; {fix}"
        )
    if weights is None or agreement(P, weights, decided) < _EXPLAINED:
        weights = weights_of(P, decided)
    explained = agreement(P, weights, decided)
    if explained < _EXPLAINED:
        raise InvalidInput(
            f"the model does not decide by weights of its classes: these explain {explained:.1%} "
            f"of its predictions for {len(P)} events; {fix}"
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
            f"{name} has no dual_coef_, the coefficients of the events it was fitted to: it is "
            "not fitted, or is not such a kernel machine"
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
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _check_events(name: str, fitted: int, n: int) -> None:
    if fitted != n:
        raise InvalidInput(
            f"{name} has coefficients for {fitted} events, not for the {n} given ones"
        )
