"""Predictions of several shards, with the probabilities of all classes that any of them knew."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.learners.common.classes import Label
from streamk.learners.common.predictor import Wrapper, aside, one_row
from streamk.learners.common.prequential import Prequential


class Followed(NamedTuple):
    """Predictions of some events, and the classes that their probabilities are of."""

    prequential: Prequential
    classes: tuple[Label, ...]


def joined(found: Sequence[Followed], classes: Sequence[Label] | None) -> Prequential:
    """Return the predictions of shards as one.

    Parameters
    ----------
    found : sequence of Followed
        In the order of their events.
    classes : sequence of labels or None
        Those that any of them knew, in the order of the probabilities; None for regression.

    Examples
    --------
    >>> one = Prequential(np.array(["a"], object), np.array([[1.0]]))
    >>> two = Prequential(np.array(["b"], object), np.array([[0.25, 0.75]]))
    >>> joined([Followed(one, ("a",)), Followed(two, ("a", "b"))], ["a", "b"]).probabilities
    array([[1.  ,  nan],
           [0.25, 0.75]])
    """
    n = sum(len(one.prequential.predictions) for one in found)
    dtype: Any = np.float64 if classes is None else object
    predictions = np.empty(n, dtype)
    P = None if classes is None else np.full((n, len(classes)), np.nan)
    places = {label: place for place, label in enumerate(classes or ())}
    first = 0
    for (labels, given), known in found:
        part = slice(first, first + len(labels))
        predictions[part], first = labels, part.stop
        if P is not None and given is not None and known:
            P[part, [places[label] for label in known]] = given
    return Prequential(predictions, P)


class ByReplica(Wrapper):
    """Base of a learner that predicts by one replica, which may not know all of its classes."""

    _classes: list[Label]

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """Whether a value may be missing (NaN)."""
        return bool(self.learner.takes_missing)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        return tuple(self._classes)

    def aside(self) -> AbstractContextManager[None]:
        """Predict without a trace, see `MultiKernel.aside`."""
        return aside(self.learner)

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
        found: NDArray[np.intp] = places[self.learner.choices(np.asarray(P)[:, places])]
        return found

    def _places(self) -> list[int]:
        """Return the numbers of the classes that the open replica knows."""
        return [self._classes.index(label) for label in self.learner.classes]

    def decision_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return the open replica's outputs before any decision, float64 (n, outputs)."""
        return np.asarray(self.learner.decision_many(X))

    def decision_one(self, x: ArrayLike) -> NDArray[Any]:
        """Return the outputs of one event x (d,) before any decision, float64 (outputs,)."""
        return np.asarray(self.learner.decision_one(x))
