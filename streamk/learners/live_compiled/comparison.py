"""Figures of the predictions that are served, beside those of the learner."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import NON_NEGATIVE, Declared, taken
from streamk.state import JSON, State

__all__ = ["Comparison"]

Numbers = NDArray[Any]

_LEAST = 1e-4
"""Least probability whose logarithm counts."""
_SUMS = ("events", "agreed", "learner", "served", "learner_loss", "served_loss")


class Comparison:
    """Sums over the events that were learned since a copy was taken into service.

    Examples
    --------
    >>> comparison = Comparison()
    >>> mine, served = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[0.8, 0.2], [0.7, 0.3]])
    >>> comparison.add(mine, served, np.array([0, 1]), is_classifier=True)
    >>> found = comparison.figures(is_classifier=True)
    >>> found["agreement"], found["learner_accuracy"], found["served_accuracy"]
    (0.5, 1.0, 0.5)
    """

    TYPE = "comparison"
    FORMAT = 1

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_SUMS, 0.0)

    def add(self, mine: Numbers, served: Numbers, y: Numbers, *, is_classifier: bool) -> None:
        """Take in predictions (n, outputs) of the learner and of what is served, and labels (n,).

        Labels are numbers of classes, or numbers.
        """
        self._add("events", np.ones(len(y)))
        if is_classifier:
            first, second, rows = mine.argmax(axis=1), served.argmax(axis=1), np.arange(len(y))
            self._add("agreed", first == second)
            self._add("learner", first == y)
            self._add("served", second == y)
            self._add("learner_loss", -np.log(np.maximum(mine[rows, y], _LEAST)))
            self._add("served_loss", -np.log(np.maximum(served[rows, y], _LEAST)))
            return
        self._add("agreed", np.abs(mine[:, 0] - served[:, 0]))
        for name, answers in (("learner", mine[:, 0]), ("served", served[:, 0])):
            self._add(name, np.abs(answers - y))
            self._add(f"{name}_loss", np.square(answers - y))

    def _add(self, name: str, values: Numbers) -> None:
        # In turn, so that the sum does not depend on how a stream is cut.
        self._sums[name] = float(np.cumsum(np.concatenate([[self._sums[name]], values]))[-1])

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
                "served_accuracy": mean["served"],
                "learner_log_loss": mean["learner_loss"],
                "served_log_loss": mean["served_loss"],
            }
        return {
            "events": n,
            "mean_difference": mean["agreed"],
            "learner_mae": mean["learner"],
            "served_mae": mean["served"],
            "learner_rmse": mean["learner_loss"] ** 0.5,
            "served_rmse": mean["served_loss"] ** 0.5,
        }

    def behind(self, share: float) -> bool:
        """Return whether what is served loses more than the learner by such a share."""
        return self._sums["served_loss"] > (1.0 + share) * self._sums["learner_loss"]

    def state(self) -> State:
        """Return the sums."""
        header: dict[str, JSON] = {"type": self.TYPE, "format": self.FORMAT}
        return State(header, {"sums": np.array(list(self._sums.values()))})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the comparison whose state this is.

        Raises
        ------
        StateError
            If the state is something else's, of a newer format, or does not fit.
        """
        state.expect(cls.TYPE, format=cls.FORMAT)
        declared = (Declared("sums", "float64", (len(_SUMS),), NON_NEGATIVE),)
        found, _ = taken(declared, state.arrays, {}, "a comparison")
        comparison = cls()
        comparison._sums = dict(zip(_SUMS, found["sums"].tolist(), strict=True))
        return comparison
