"""A confusion matrix of any number of classes: which one was taken for which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

MOST_PAIRS = 1 << 16
"""Pairs of a class and another one it was taken for that are counted apart. A matrix of 1,000
classes may have a million; those that come up after so many others are counted by class only."""
MOST_OTHERS = 1000
"""Labels that are told apart beside the classes of a model that learns none of them."""
_OTHERS = "(others)"
_SHIFT = 1 << 31

Codes = npt.NDArray[np.int64]


class Margins(NamedTuple):
    """Events by class, int64 arrays (classes,): a confusion matrix's margins and its diagonal.

    Attributes
    ----------
    events : events that were of the class
    predicted : events that the class was predicted for
    right : events of the class that it was predicted for
    """

    events: Codes
    predicted: Codes
    right: Codes


def counted(truth: Codes, answers: Codes, classes: int) -> Margins:
    """Return the counts of events that were of classes `truth` (n,) and taken for `answers` (n,).

    >>> counted(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    Margins(events=array([2, 1]), predicted=array([1, 2]), right=array([1, 1]))
    """
    return Margins(
        np.bincount(truth, minlength=classes),
        np.bincount(answers, minlength=classes),
        np.bincount(truth[truth == answers], minlength=classes),
    )


class Confusion:
    """Counts of what was predicted by what it was, and the numbers by which classes are known here.

    Examples
    --------
    >>> confusion = Confusion()
    >>> confusion.add(*confusion.codes(["a", "a", "b"], ["a", "b", None]))
    >>> confusion.labels, confusion.cells()
    (['a', 'b'], [('a', 'a', 1), ('a', 'b', 1)])
    """

    def __init__(self) -> None:
        self.labels: list[Any] = []
        """Classes in the order of their first appearance as a label or a prediction."""
        self.counts = Margins(*np.zeros((3, 0), np.int64))
        self._index: dict[Any, int] = {None: -1}
        self._pairs: dict[int, int] = {}
        """Events by class and the other one it was taken for, which make one number."""

    def codes(
        self, labels: Sequence[Any], answers: Sequence[Any], classes: Sequence[Any] = ()
    ) -> tuple[Codes, Codes]:
        """Return the numbers of labels (n,) and of predictions (n,), -1 where there is none.

        Of labels that are not classes of the model, those that come after `MOST_OTHERS` others are
        one.
        """
        number = self._index.__getitem__
        n = len(labels)
        try:
            truth = np.fromiter(map(number, labels), np.int64, n)
            return truth, np.fromiter(map(number, answers), np.int64, n)
        except KeyError:
            known = set(classes)
            both = chain.from_iterable(zip(labels, answers, strict=True))
            codes = np.array([self._number(label, known) for label in both], np.int64)
            return codes[::2], codes[1::2]

    def _number(self, label: Any, known: set[Any]) -> int:
        """Return the number of a label, which it gets if it has none."""
        index = self._index
        if label not in index:
            is_one_more = label not in known and len(index) > len(known) + MOST_OTHERS
            label = _OTHERS if is_one_more else label
            if label not in index:
                index[label] = len(self.labels)
                self.labels.append(label)
        return index[label]

    def add(self, truth: Codes, answers: Codes) -> None:
        """Count further events; those without a prediction (-1) are left out."""
        told = answers >= 0
        if not told.all():
            truth, answers = truth[told], answers[told]
        more, before = counted(truth, answers, len(self.labels)), self.counts
        n = len(before.events)  # classes
        more.events[:n] += before.events
        more.predicted[:n] += before.predicted
        more.right[:n] += before.right
        self.counts = more
        wrong, pairs = truth != answers, self._pairs
        found = Counter((truth[wrong] * _SHIFT + answers[wrong]).tolist())
        for pair, events in found.items():  # in the order in which they came up
            if pair in pairs:
                pairs[pair] += events
            elif len(pairs) < MOST_PAIRS:
                pairs[pair] = events

    def cells(self) -> list[tuple[Any, Any, int]]:
        """Return the cells of the matrix that are not 0, as (label, prediction, events).

        Of mistakes only `MOST_PAIRS` kinds are told apart.
        """
        right = [(k, k, n) for k, n in enumerate(self.counts.right.tolist()) if n]
        cells = sorted([*right, *self._mistakes()])
        return [(self.labels[label], self.labels[answer], n) for label, answer, n in cells]

    def _mistakes(self) -> list[tuple[int, int, int]]:
        return [(*divmod(pair, _SHIFT), events) for pair, events in self._pairs.items()]

    def recall(self) -> list[dict[str, Any]]:
        """Return label, events, recall and how often predicted of each class, most events first."""
        events, predicted, right = (column.tolist() for column in self.counts)
        rows = [
            {
                "label": self.labels[k],
                "events": events[k],
                "recall": right[k] / events[k] if events[k] else None,
                "predicted": predicted[k],
            }
            for k in range(len(events))
        ]
        return sorted(rows, key=lambda row: -row["events"])

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            "labels": list(self.labels),
            **{name: column.tolist() for name, column in self.counts._asdict().items()},
            "mistakes": [list(mistake) for mistake in self._mistakes()],
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called. Raises `ValueError` if the data is not its own."""
        self.labels = list(data["labels"])
        self._index = {None: -1} | {label: k for k, label in enumerate(self.labels)}
        self.counts = Margins(
            *(np.array(data[name], np.int64).reshape(-1) for name in Margins._fields)
        )
        if any(len(column) > len(self.labels) for column in self.counts):
            raise ValueError("a confusion matrix counts more classes than it has labels")
        self._pairs = {int(a) * _SHIFT + int(b): int(n) for a, b, n in data["mistakes"]}


Floats = npt.NDArray[np.float64]

_NO_CLASS = 2**31 - 1
_BASELINE_SHIFT = 2**31
"""A class's count times this, less its number: the greatest is the most frequent class's, and of
several the first one's."""


class ClassBaselines:
    """No change and majority.

    Examples
    --------
    >>> ClassBaselines().hits(np.array([0, 0, 1, 1, 1, 1]))
    array([[0., 0.],
           [1., 1.],
           [0., 0.],
           [1., 0.],
           [1., 0.],
           [1., 1.]])
    """

    NAMES = ("no_change", "majority")

    def __init__(self) -> None:
        self._last = _NO_CLASS
        self._counts: Codes = np.zeros(0, np.int64)

    def hits(self, codes: Codes) -> Floats:
        """Return whether each baseline knew the classes (n,) of further events, float64 (n, 2)."""
        n = len(codes)
        before = np.concatenate([[self._last], codes])
        least = int(codes.max(initial=-1)) + 1
        if least > len(self._counts):
            self._counts = np.pad(self._counts, (0, least - len(self._counts)))
        # How often the class of each event had come up by then, the event included.
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        sizes = np.diff(first, append=n)
        counts = np.empty(n, np.int64)
        counts[order] = self._counts[ordered] + np.arange(1, n + 1) - np.repeat(first, sizes)
        leaders = np.maximum.accumulate(
            np.concatenate([[self._leader], counts * _BASELINE_SHIFT - codes])
        )
        self._counts[ordered[first]] += sizes
        self._last = int(before[-1])
        hits = np.empty((n, 2))
        hits[:, 0] = codes == before[:-1]
        hits[:, 1] = codes == -leaders[:-1] % _BASELINE_SHIFT
        return hits

    @property
    def _leader(self) -> int:
        if not self._counts.any():
            return -_NO_CLASS
        code = int(self._counts.argmax())  # of several the first
        return int(self._counts[code]) * _BASELINE_SHIFT - code

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"last": self._last, "counts": self._counts.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClassBaselines:
        """Go on where `to_json` was called."""
        baselines = cls()
        baselines._last = int(data["last"])
        baselines._counts = np.array(data["counts"], np.int64).reshape(-1)
        return baselines


class NumberBaselines:
    """Last value and mean.

    Examples
    --------
    >>> NumberBaselines().errors(np.array([2.0, 4.0, 3.0]))
    array([[ 2.,  2.],
           [ 2.,  2.],
           [-1.,  0.]])
    """

    NAMES = ("last_value", "mean")

    def __init__(self) -> None:
        self._last = 0.0
        self._sum = 0.0
        self._n = 0

    def errors(self, labels: Floats) -> Floats:
        """Return further labels (n,) less what each baseline says of them, float64 (n, 2)."""
        before = np.concatenate([[self._last], labels])
        # One after the other, so that the sums do not depend on the division into calls.
        sums = np.cumsum(np.concatenate([[self._sum], labels]))
        n = np.arange(self._n, self._n + len(labels))
        means = sums[:-1] / np.maximum(n, 1)
        self._last, self._sum = float(before[-1]), float(sums[-1])
        self._n += len(labels)
        return np.column_stack([labels - before[:-1], labels - means])

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"last": self._last, "sum": self._sum, "n": self._n}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NumberBaselines:
        """Go on where `to_json` was called."""
        baselines = cls()
        baselines._last, baselines._sum = float(data["last"]), float(data["sum"])
        baselines._n = int(data["n"])
        return baselines
