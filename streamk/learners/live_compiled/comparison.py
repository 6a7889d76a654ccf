"""Figures of the predictions of a compiled copy, beside those of the learner."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import FINITE, NON_NEGATIVE, Declared, number, taken
from streamk.state import JSON, State

__all__ = ["Comparison"]

Numbers = NDArray[Any]

_LEAST = 1e-4
"""Least probability whose logarithm counts."""
_SUMS = ("events", "agreed", "learner", "copy", "learner_loss", "copy_loss")
_LAST = ("events", "errors", "loss", "label", "label_squared")
"""Of the labels that count for `excess`: their number, errors and losses of the copy less those of
the learner, and labels that are numbers."""
_MEMORY = 5_000
"""Labels after which one counts for 1/e."""
_FAR = 30.0
"""Standard deviations of the labels of before: a label further out, and a larger error, count as
that for `excess`. Else one label of -9999 would hide all losses for thousands of labels."""
_LARGEST = 1e140
"""The largest error of a number that counts: sums of squares of these are numbers."""


class Comparison:
    """Sums over the events that were learned since a copy came, and over the last of these.

    Examples
    --------
    >>> comparison = Comparison()
    >>> mine, copy = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[0.8, 0.2], [0.7, 0.3]])
    >>> comparison.add(mine, copy, np.array([0, 1]), is_classifier=True)
    >>> found = comparison.figures(is_classifier=True)
    >>> found["agreement"], found["learner_accuracy"], found["copy_accuracy"]
    (0.5, 1.0, 0.5)
    >>> comparison.close()
    >>> comparison.excess(is_classifier=True)
    0.5
    """

    TYPE = "comparison"

    def __init__(self) -> None:
        self._shift: float | None = None
        """The first label that is a number: the variance is computed about it."""
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._last = dict.fromkeys(_LAST, 0.0)
        self._step = dict.fromkeys(_LAST, 0.0)
        """Of the labels since `close`."""

    @property
    def events(self) -> float:
        """Labels since the copy came."""
        return self._sums["events"]

    def add(self, mine: Numbers, copy: Numbers, y: Numbers, *, is_classifier: bool) -> None:
        """Take in predictions (n, outputs) of the learner and by the copy, and labels (n,).

        Labels are numbers of classes, or numbers.
        """
        ones = np.ones(len(y))
        if is_classifier:
            first, second, rows = mine.argmax(axis=1), copy.argmax(axis=1), np.arange(len(y))
            agreed, right = first == second, (first == y, second == y)
            losses = tuple(-np.log(np.maximum(P[rows, y], _LEAST)) for P in (mine, copy))
            label = np.zeros(len(y))
            errors = right[0] * 1.0 - right[1]
        else:
            agreed = _distance(mine[:, 0], copy[:, 0])
            right = (_distance(mine[:, 0], y), _distance(copy[:, 0], y))
            losses = (np.square(right[0]), np.square(right[1]))
            self._shift = float(y[0]) if self._shift is None else self._shift
            mean, reach = self._usual()
            label = np.clip(y - self._shift, mean - reach, mean + reach)
            errors = np.zeros(len(y))
        _add(self._sums, (ones, agreed, *right, *losses))
        if not is_classifier:
            losses = tuple(np.square(np.minimum(error, reach)) for error in right)
        _add(self._step, (ones, errors, losses[1] - losses[0], label, label * label))

    def _usual(self) -> tuple[float, float]:
        """Return the mean of the labels before the last `close`, and how far from it one counts."""
        n, variance = self._last["events"], self._variance()
        if variance <= 0.0:
            return 0.0, math.inf
        return self._last["label"] / n, _FAR * math.sqrt(variance)

    def _variance(self) -> float:
        """Return the variance of the labels that count for `excess`."""
        n = self._last["events"]
        if not n:
            return 0.0
        return self._last["label_squared"] / n - (self._last["label"] / n) ** 2

    def close(self) -> None:
        """Count the labels since the last call for `excess`, and those before a little less."""
        kept = math.exp(-self._step["events"] / _MEMORY)
        for name, sum_ in self._step.items():
            self._last[name] = kept * self._last[name] + sum_
        self._step = dict.fromkeys(_LAST, 0.0)

    def excess(self, *, is_classifier: bool) -> float:
        """Return how much more is lost by the copy than by the learner, over the last labels.

        Of classes that is the share of errors or the log loss, whichever is larger; of numbers the
        mean squared error over the variance of the labels, what is far out being brought nearer.
        """
        n = self._last["events"]
        if not n:
            return 0.0
        loss = self._last["loss"] / n
        if is_classifier:
            return max(loss, self._last["errors"] / n)
        variance = self._variance()
        if loss <= 0.0:
            return loss
        return loss / variance if variance > 0.0 else math.inf

    def figures(self, *, is_classifier: bool) -> dict[str, float]:
        """Return the figures by name, of classes or of numbers; none before the first event."""
        n = self._sums["events"]
        if not n:
            return {}
        mean = {name: value / n for name, value in self._sums.items()}
        if is_classifier:
            return {
                "events": n,
                "agreement": mean["agreed"],
                "learner_accuracy": mean["learner"],
                "copy_accuracy": mean["copy"],
                "learner_log_loss": mean["learner_loss"],
                "copy_log_loss": mean["copy_loss"],
            }
        return {
            "events": n,
            "mean_difference": mean["agreed"],
            "learner_mae": mean["learner"],
            "copy_mae": mean["copy"],
            "learner_rmse": mean["learner_loss"] ** 0.5,
            "copy_rmse": mean["copy_loss"] ** 0.5,
        }

    def state(self) -> State:
        """Return the sums."""
        header: dict[str, JSON] = {"type": self.TYPE, "shift": self._shift}
        sums = {"sums": self._sums, "last": self._last, "step": self._step}
        return State(header, {name: np.array(list(one.values())) for name, one in sums.items()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the comparison whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or does not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        declared = (
            Declared("sums", "float64", (len(_SUMS),), NON_NEGATIVE),
            Declared("last", "float64", (len(_LAST),), FINITE),
            Declared("step", "float64", (len(_LAST),), FINITE),
        )
        found, _ = taken(declared, state.arrays, {}, "a comparison")
        comparison = cls()
        if header.get("shift") is not None:
            comparison._shift = number(header, "shift", "a comparison")
        comparison._sums = dict(zip(_SUMS, found["sums"].tolist(), strict=True))
        comparison._last = dict(zip(_LAST, found["last"].tolist(), strict=True))
        comparison._step = dict(zip(_LAST, found["step"].tolist(), strict=True))
        return comparison


def _distance(one: Numbers, other: Numbers) -> Numbers:
    found: Numbers = np.minimum(np.abs(one - other), _LARGEST)
    return found


def _add(sums: dict[str, float], values: tuple[Numbers, ...]) -> None:
    # In turn, so that a sum does not depend on how a stream is cut.
    for name, some in zip(sums, values, strict=True):
        sums[name] = float(np.cumsum(np.concatenate([[sums[name]], some]))[-1])
