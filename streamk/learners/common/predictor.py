"""Decisions and probabilities by outputs: a learner's own, or those of one inside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from operator import attrgetter
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.declared import FINITE, Domain, listed
from streamk.errors import InvalidInput, NotLearned
from streamk.features.columns import Column
from streamk.features.random_features import check_events
from streamk.learners.common.base import Learner, Methods
from streamk.learners.common.classes import (
    Classes,
    ClassWeights,
    Label,
    check_labels,
    check_most,
    check_numbers,
)
from streamk.learners.common.prequential import labels_or_none, with_gaps
from streamk.options import Option

_METHODS = (
    *("learn_many", "predict_then_learn_many", "learn_one", "finish", "merge", "merge_replica"),
    *("add_columns", "add_classes", "add_centers", "state", "lent_state"),
    *("predict_many", "predict_proba_many", "decision_many"),
    *("predict_one", "predict_proba_one", "decision_one"),
    *("predict_held_many", "learn_held_many", "held_predictions", "restore_held_predictions"),
    *("predict_quantile_many", "predict_interval_many", "shares", "coefficients_of"),
    "looked",
)


class Turns:
    """A lock among the attributes of an object, whose copies and pickles have one of their own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()


class OneAtATime:
    """A learner whose methods wait for each other, whatever thread calls them.

    Those are the ones above that a class has, its own or inherited. Who holds `lock` has the
    learner to itself for several calls.
    """

    lock: threading.RLock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return one with a lock, however it is filled."""
        made = super().__new__(cls)
        made.lock = threading.RLock()
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _METHODS:
            method = getattr(cls, name, None)
            if method is not None and not hasattr(method, "_waits"):
                setattr(cls, name, _waiting(method))


def _waiting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def waiting(self: OneAtATime, *arguments: Any, **options: Any) -> Any:
        with self.lock:
            return method(self, *arguments, **options)

    waiting._waits = True  # type: ignore[attr-defined]
    return waiting


class Predictor(Methods):
    """Labels, numbers and probabilities out of outputs, of many events or of one.

    Copies and pickles go through the learner's state.
    """

    TYPE: ClassVar[str]
    takes_missing: bool = False
    """True if a value may be missing (NaN)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state(),)

    def __repr__(self) -> str:
        learner: Any = self
        task = "classification" if learner.is_classifier else "regression"
        columns = len(learner.columns or ())
        name = type(self).__name__
        return f"<{name} for {task}: {learner.n_events:,} events, {columns:,} columns>"

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        raise NotImplementedError

    def predictions(self, F: NDArray[np.float64]) -> NDArray[Any]:
        """Predicted labels or numbers, shape (n,), where `decision_many` gave F."""
        raise NotImplementedError

    def prediction(self, F: NDArray[np.float64]) -> Any:
        """Predicted label or number, where `decision_one` gave F."""
        raise NotImplementedError

    def probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities, shape (n, classes), where `decision_many` gave F."""
        raise NotImplementedError

    def choices(self, P: NDArray[np.float64]) -> NDArray[np.intp]:
        """Numbers of the predicted classes, shape (n,), where `predict_proba_many` gave P."""
        return np.asarray(P.argmax(axis=1))

    def predict_many(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted labels (object array) or numbers (float64), shape (n,), of events X (n, d).

        Raises
        ------
        NotLearned
            If no class is known yet.
        InvalidInput
            If the columns do not fit or a value is not finite.
        """
        return self.predictions(self.decision_many(X))

    def predict_proba_many(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities, float64 of shape (n, classes), of events X (n, d).

        "softmax" and "logistic" estimate them; see `streamk.losses.Loss.probabilities` for what
        the other losses give.

        Raises
        ------
        NotLearned
            If no class is known yet.
        InvalidInput
            If this is a regression, the columns do not fit or a value is not finite.
        """
        return self.probabilities(self.decision_many(X))

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x (d,) with label y."""
        self.learn_many(one_row(x), [y])

    def decision_one(self, x: ArrayLike) -> NDArray[np.float64]:
        """Outputs, float64 (n_outputs,), of one event x (d,); see `decision_many`."""
        return np.asarray(self.decision_many(one_row(x))[0])

    def predict_one(self, x: ArrayLike) -> Any:
        """Predicted label or number of one event x of shape (d,)."""
        return self.prediction(self.decision_one(x))

    def predict_proba_one(self, x: ArrayLike) -> dict[Label, float]:
        """Probability of each class for one event x of shape (d,)."""
        probabilities = self.probabilities(self.decision_one(x)[None])
        return dict(zip(self.classes, probabilities[0].tolist(), strict=True))


class Decider(Predictor):
    """A predictor that knows its classes, and decides among them by its outputs."""

    OPTIONS: ClassVar[dict[str, Option]]
    is_classifier: bool
    _columns: tuple[Column, ...] | None = None
    _classes: Classes
    THRESHOLD: ClassVar[float] = 0.0
    """A single output above this stands for the second of two classes."""
    _weights: ClassWeights | None = None
    """The cost of missing each class; only where outputs are probabilities."""

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._columns

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        return self._classes.labels

    @property
    def max_classes(self) -> int:
        """Classes that there may be; labels that would make more are refused."""
        return self._classes.most

    @property
    def class_weights(self) -> ClassWeights | None:
        """The cost of missing each class, None if all cost the same."""
        return self._weights

    def check_labels(self, y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[Any]:
        """Return the labels of n events, plain labels (object) or numbers (float64).

        Raises
        ------
        InvalidInput
            If there are not n, or one is not usable, naming its row.
        """
        if len(y) != n:
            raise InvalidInput(f"{n} events came with {len(y)} labels")
        if not self.is_classifier:
            return check_numbers(y, n)
        labels = check_labels(y)
        self._classes.check(labels)
        if self._weights is not None and not len(self._classes):
            known = self._classes.first(labels)
            if known:  # a class that has a weight must be one of them
                self._weights.check(known)
        return labels

    def _header(self) -> dict[str, Any]:
        """Return type, options and what is known of the stream, as JSON data."""
        learner: Any = self
        return {
            "type": self.TYPE,
            **options.to_header(self.OPTIONS, self),
            "task": "classification" if self.is_classifier else "regression",
            "columns": None if self.columns is None else list(self.columns),
            "classes": list(self.classes),
            "n_events": learner.n_events,
        }

    @classmethod
    def _new(cls, header: Mapping[str, Any], **more: Any) -> Self:
        """Return a learner that has learned nothing, by what `_header` gave and further options."""
        columns, made = header["columns"], cast("Callable[..., Self]", cls)
        return made(
            **options.from_header(cls.OPTIONS, header),
            **more,
            task=header["task"],
            columns=None if columns is None else listed(header, "columns", cls._owner()),
            classes=listed(header, "classes", cls._owner()),
        )

    @classmethod
    def _owner(cls) -> str:
        """The state, as messages name it."""
        return f"this {cls.TYPE!r} state"

    @property
    def _label_domain(self) -> Domain:
        """Labels as numbers."""
        if self.is_classifier:
            return Domain(0, max(0, len(self.classes) - 1), whole=True)
        return FINITE

    def choices(self, P: NDArray[np.float64]) -> NDArray[np.intp]:
        """Numbers of the predicted classes, shape (n,), where `predict_proba_many` gave P."""
        return np.asarray(self.weighted(P).argmax(axis=1))

    def weighted(self, P: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities P (n, classes) times what it costs to miss each class, if it does."""
        return P if self._weights is None else self._weights.scores(P, self.classes)

    def predictions(self, F: NDArray[np.float64]) -> NDArray[Any]:
        """Predicted labels or numbers, shape (n,), where `decision_many` gave F."""
        if not self.is_classifier:
            return F[:, 0]
        labels = self._known_classes()
        if self._weights is not None:
            F = self._weights.scores(F, labels)
        if F.shape[1] > 1:
            best = F.argmax(axis=1)
        else:
            best = ((F[:, 0] > self.THRESHOLD) & (len(labels) > 1)).astype(np.intp)
        return self._classes.decode(best)

    def prediction(self, F: NDArray[np.float64]) -> Any:
        """Predicted label or number, where `decision_one` gave F."""
        if not self.is_classifier:
            return F[0]
        labels = self._known_classes()
        if self._weights is not None:
            F = self._weights.scores(F, labels)
        if len(F) > 1:
            return labels[F.argmax()]
        return labels[len(labels) > 1 and F.item() > self.THRESHOLD]

    def probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities, shape (n, classes), where `decision_many` gave F."""
        if not self.is_classifier:
            raise InvalidInput("a regression has no class probabilities; use predict_many")
        if len(self._known_classes()) < 2:
            return np.ones((len(F), 1))
        return self._probabilities(F)

    def _probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what outputs say of two or more classes."""
        raise NotImplementedError

    def _known_classes(self) -> tuple[Label, ...]:
        """Return the labels seen so far, at least one."""
        labels = self._classes.labels
        if not labels:
            raise NotLearned("no class is known yet; learn from an event first or pass classes=")
        return labels


def inside(name: str) -> Any:
    """Return a property that is that of the learner inside."""
    return property(attrgetter(f"learner.{name}"), doc=getattr(Learner, name).__doc__)


class Wrapper(OneAtATime, Predictor):
    """A learner that is what the one inside, `learner`, is."""

    learner: Any

    innermost = inside("innermost")
    is_classifier = inside("is_classifier")
    columns = inside("columns")
    classes = inside("classes")
    max_classes = inside("max_classes")
    n_events = inside("n_events")
    n_features = inside("n_features")

    def check_labels(self, y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[Any]:
        """Return the labels of n events as the learner inside does, or raise InvalidInput."""
        return np.asarray(self.learner.check_labels(y, n))

    def expect_no_labels(self) -> None:
        """Have the learner inside do without what follows the labels closely."""
        self.learner.expect_no_labels()


class OwnClasses(Wrapper):
    """A wrapper that has an order of classes of its own, of which the learner inside knows some.

    So the order of probabilities stays when another learner comes inside.
    """

    _classes: list[Label]

    takes_missing = inside("takes_missing")

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        return tuple(self._classes)

    def _met(self, classes: Sequence[Label]) -> tuple[Label, ...]:
        """Add classes to those that are known; return them."""
        self._classes += [label for label in classes if label not in self._classes]
        return tuple(classes)

    def _checked(
        self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]
    ) -> tuple[NDArray[Any], list[Any], NDArray[np.bool_]]:
        """Return events, plain labels with None where one is not known, and which are known.

        Raises `InvalidInput`, also for more classes than there may be.
        """
        dtype = np.dtype(np.float64)
        events = check_events(X, dtype, self.columns, missing=self.takes_missing)
        checked, known = labels_or_none(self, y, len(events))
        labels = with_gaps(checked, known)
        if self.is_classifier:
            check_most(set(self._classes), labels, self.max_classes)
        return events, labels, known

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        """Learn from events X (n, d) with labels y (n,). Raises `InvalidInput` before learning."""
        self.check_labels(y, len(np.asarray(X)))
        self.predict_then_learn_many(X, y)

    def aside(self) -> AbstractContextManager[None]:
        """Predict without a trace in the learner inside."""
        found: AbstractContextManager[None] = self.learner.aside()
        return found

    def predict_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (object) or numbers (float64), shape (n,)."""
        return np.asarray(self.learner.predict_many(X))

    def predict_one(self, x: ArrayLike) -> Any:
        """Return the label or number of one event x (d,)."""
        return self.learner.predict_one(x)

    def predict_proba_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return probabilities (n, classes), float64, rows summing to 1."""
        P = np.asarray(self.learner.predict_proba_many(X))
        if tuple(self.learner.classes) == self.classes:
            return P
        spread = np.zeros((len(P), len(self._classes)))
        spread[:, self._places()] = P
        return spread

    def predict_proba_one(self, x: ArrayLike) -> dict[Label, float]:
        """Return the probability of each class for one event x (d,)."""
        row = self.predict_proba_many(one_row(x))[0].tolist()
        return dict(zip(self.classes, row, strict=True))

    def choices(self, P: NDArray[Any]) -> NDArray[np.intp]:
        """Return the numbers of the predicted classes where `predict_proba_many` gave P."""
        places = np.array(self._places(), np.intp)
        return np.asarray(places[self.learner.choices(np.asarray(P)[:, places])])

    def _places(self) -> list[int]:
        """Return the numbers of the classes that the learner inside knows."""
        return [self._classes.index(label) for label in self.learner.classes]

    def decision_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return the outputs of the learner inside before any decision, float64 (n, outputs)."""
        return np.asarray(self.learner.decision_many(X))

    def decision_one(self, x: ArrayLike) -> NDArray[Any]:
        """Return the outputs of one event x (d,) before any decision, float64 (outputs,)."""
        return np.asarray(self.learner.decision_one(x))


def one_row(x: ArrayLike) -> NDArray[Any]:
    """Return a batch of the event x of shape (d,)."""
    event = np.asarray(x)
    if event.ndim != 1:
        raise InvalidInput(f"one event has shape (columns,), not {event.shape}")
    return event[None]
