"""Predictions of events by a model that had learned all events before them, and not the event."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.learners.common.classes import Label, stand_in

LEAST_PROBABILITY = 1e-15
"""Of a true class, for the logarithm, as in River and scikit-learn."""


class Prequential(NamedTuple):
    """Predictions of `predict_then_learn_many`, one a row.

    Attributes
    ----------
    predictions : array of shape (n,)
        Labels (object), None where no class was known yet; or numbers (float64).
    probabilities : float64 array of shape (n, classes), or None for regression
        A column for each class known after the last row, in the order of `classes`; NaN where a
        class was not known yet when the event was predicted.
    """

    predictions: NDArray[Any]
    probabilities: NDArray[np.float64] | None


class Recorder:
    """Collects outputs of n events, piece by piece; the learner decides each as it is then.

    Examples
    --------
    >>> from streamk.learners import MultiKernel
    >>> recorder = Recorder(MultiKernel(task="regression"), 2)
    >>> recorder.add(np.array([[1.5], [2.5]]))
    >>> recorder.result().predictions
    array([1.5, 2.5])
    """

    def __init__(self, learner: Any, n: int) -> None:
        self._learner, self._n, self._done = learner, n, 0
        self._predictions = np.empty(n, object) if learner.is_classifier else np.empty(n)
        self._parts: list[tuple[int, NDArray[np.float64]]] = []

    def add(self, F: NDArray[np.float64]) -> None:
        """Take the outputs F (m, outputs) that the next m events had before they were learned.

        They are decided by the classes of now, which may not have changed among these events.
        """
        learner, first = self._learner, self._done
        self._done += len(F)
        if learner.is_classifier and not learner.classes:
            return
        self._predictions[first : self._done] = learner.predictions(F)
        if learner.is_classifier:
            self._parts.append((first, learner.probabilities(F)))

    def result(self) -> Prequential:
        """All predictions, with the classes that the learner knows by now."""
        if not self._learner.is_classifier:
            return Prequential(self._predictions, None)
        P = np.full((self._n, len(self._learner.classes)), np.nan)
        for first, part in self._parts:
            P[first : first + len(part), : part.shape[1]] = part
        return Prequential(self._predictions, P)


def labels_or_none(
    learner: Any, y: Sequence[Any] | NDArray[Any], n: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels of n events as they are learned, and which of them are known: not None.

    An unknown label is replaced by anything. Raises `InvalidInput` if there are
    not n, or one is not usable, naming its row.

    Examples
    --------
    >>> from streamk.learners import MultiKernel
    >>> labels_or_none(MultiKernel(task="regression"), [1.5, None], 2)
    (array([1.5, 0. ]), array([ True, False]))
    """
    if isinstance(y, np.ndarray) and y.dtype != object:
        return learner.check_labels(y, n), np.ones(n, bool)
    known = np.array([label is not None for label in y], bool)
    if not known.all():
        filler: Any = stand_in(learner.classes, y) if learner.is_classifier else 0.0
        y = [filler if label is None else label for label in y]
    return learner.check_labels(y, n), known


def with_gaps(labels: NDArray[Any], known: NDArray[np.bool_]) -> list[Any]:
    """Return labels as they came to `labels_or_none`: plain ones, None where one is not known.

    Examples
    --------
    >>> with_gaps(np.array([1.5, 0.0]), np.array([True, False]))
    [1.5, None]
    """
    pairs = zip(labels.tolist(), known.tolist(), strict=True)
    return [label if there else None for label, there in pairs]


def runs(known: NDArray[np.bool_]) -> Iterator[slice]:
    """Yield the longest slices in which all labels are known, or none, in their order.

    Examples
    --------
    >>> list(runs(np.array([True, True, False])))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    if known.all():  # as they mostly are
        ends = [len(known)]
    else:
        ends = [*(np.flatnonzero(known[1:] != known[:-1]) + 1).tolist(), len(known)]
    for first, stop in zip([0, *ends], ends, strict=False):
        if first < stop:
            yield slice(first, stop)


def nothing(learner: Any, n: int) -> Prequential:
    """Return the predictions of n events by a learner that has met no column: no class, or 0."""
    if not learner.is_classifier:
        return Prequential(np.zeros(n), None)
    return Prequential(np.full(n, None, object), np.full((n, len(learner.classes)), np.nan))


def joined(parts: Sequence[Prequential], learner: Any) -> Prequential:
    """Return consecutive predictions of a learner as one, with all classes that it knows by now."""
    classes = learner.classes
    widths = [0 if P is None else P.shape[1] for _, P in parts]
    if len(parts) == 1 and widths[0] == len(classes):
        return parts[0]
    found = [Followed(part, classes[:width]) for part, width in zip(parts, widths, strict=True)]
    return joined_by_class(found, classes if learner.is_classifier else None)


class Followed(NamedTuple):
    """Predictions of some events, and the classes that their probabilities are of."""

    prequential: Prequential
    classes: tuple[Label, ...]


def joined_by_class(found: Sequence[Followed], classes: Sequence[Label] | None) -> Prequential:
    """Return consecutive predictions of learners that know different classes as one.

    Classes are those that any of them knew, in the order of the probabilities; None for regression.

    Examples
    --------
    >>> one = Prequential(np.array(["a"], object), np.array([[1.0]]))
    >>> two = Prequential(np.array(["b"], object), np.array([[0.25, 0.75]]))
    >>> parts = [Followed(one, ("a",)), Followed(two, ("a", "b"))]
    >>> joined_by_class(parts, ["a", "b"]).probabilities
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


def score_classes(
    probabilities: NDArray[np.float64],
    predictions: Sequence[Any],
    classes: Sequence[Any],
    labels: Sequence[Any],
) -> NDArray[np.float64]:
    """Return the hit, 0 or 1, and the log loss of each prediction, float64 (n, 2).

    Probabilities (n, classes) are NaN where a class was not known.
    """
    number = {label: k for k, label in enumerate(classes)}
    truth = [number.get(label, -1) for label in labels]
    p = probabilities[np.arange(len(truth)), truth]
    if -1 in truth:
        p[[k < 0 for k in truth]] = 0.0
    scores = np.empty((len(truth), 2))
    scores[:, 0] = list(map(operator.eq, predictions, labels))
    # The greater of NaN and a number is the number.
    scores[:, 1] = -np.log(np.fmin(np.fmax(p, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY))
    return scores


def score_numbers(predictions: NDArray[np.float64], labels: Sequence[float]) -> NDArray[np.float64]:
    """The absolute and the squared error of each prediction, float64 (n, 2)."""
    errors = predictions - np.asarray(labels, dtype=np.float64)
    return np.column_stack([np.abs(errors), np.square(errors)])
