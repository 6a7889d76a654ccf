"""Figures of progressive validation: each event is scored by the model that had not seen it.

Classification: accuracy, and log loss, the mean of -ln p(true label). A label that the model did
not know yet has probability 0; so that one such event does not make the mean infinite,
probabilities count as 1e-15 to 1 - 1e-15 (a loss of 34.5), as in River and scikit-learn.
Regression: mean absolute error and root mean squared error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.errors import StateError

__all__ = ["LEAST_PROBABILITY", "Metrics", "score_classes", "score_numbers"]

LEAST_PROBABILITY = 1e-15
HISTORY = 1024
"""Points kept for plotting; when there are more, every other one goes and the step doubles."""

Floats = npt.NDArray[np.float64]


def score_classes(
    probabilities: Floats, predictions: Sequence[Any], classes: Sequence[Any], labels: Sequence[Any]
) -> Floats:
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


def score_numbers(predictions: Floats, labels: Sequence[float]) -> Floats:
    """The absolute and the squared error of each prediction, float64 (n, 2)."""
    errors = predictions - np.asarray(labels, dtype=np.float64)
    return np.column_stack([np.abs(errors), np.square(errors)])


class Metrics:
    """Means over the whole stream and over its last events, however these are divided into calls.

    Parameters
    ----------
    classification : bool
    window : int
        Events in the windowed figures.

    Examples
    --------
    >>> metrics = Metrics(classification=False, window=2)
    >>> metrics.update(np.array([[3.0, 9.0], [1.0, 1.0], [1.0, 1.0]]))
    >>> metrics.window(), round(metrics.whole()["mae"], 2)
    ({'mae': 1.0, 'rmse': 1.0}, 1.67)
    """

    def __init__(self, *, classification: bool, window: int) -> None:
        self.classification = classification
        self.scored = 0
        """Events that had both a prediction and a label."""
        self.history: list[tuple[int, float, float]] = []
        """(events scored, windowed first figure, windowed second figure), for plotting."""
        self._window = window
        self._stride = max(1, window // 100)  # a finer line would show the same window again
        self._sums: Floats = np.zeros(2)
        self._last: Floats = np.zeros((0, 2))

    def update(self, scores: Floats) -> None:
        """Add the scores (n, 2) of further events, as `score_…` gives them."""
        before, self.scored = self.scored, self.scored + len(scores)
        # One after the other, so that the sums do not depend on the division into calls.
        self._sums = np.cumsum(np.concatenate([self._sums[None], scores]), axis=0)[-1]
        scores = np.concatenate([self._last, scores])
        offset = self.scored - len(scores)
        point = (before // self._stride + 1) * self._stride
        while point <= self.scored:
            self._last = scores[max(0, point - offset - self._window) : point - offset]
            self._remember(point)
            point = (point // self._stride + 1) * self._stride
        self._last = scores[-self._window :]

    def whole(self) -> dict[str, float]:
        """Figures of the whole stream by name; empty before the first scored event."""
        return self._figures(self.scored, self._sums)

    def window(self) -> dict[str, float]:
        """Figures of the last events by name; empty before the first scored event."""
        # Summed anew each time: figures must not depend on what has left the window.
        return self._figures(len(self._last), self._last.sum(axis=0))

    def _figures(self, n: int, sums: Floats) -> dict[str, float]:
        if not n:
            return {}
        first, second = (sums / n).tolist()
        if self.classification:
            return {"accuracy": first, "log_loss": second}
        return {"mae": first, "rmse": math.sqrt(second)}

    def _remember(self, scored: int) -> None:
        first, second = self.window().values()
        self.history.append((scored, first, second))
        if len(self.history) > HISTORY:
            # The newest stays; the first point goes with every other one.
            self.history = self.history[::-2][::-1]
            self._stride *= 2

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            "classification": self.classification,
            "window": self._window,
            "scored": self.scored,
            "sums": self._sums.tolist(),
            "last": self._last.tolist(),
            "history": [list(point) for point in self.history],
            "stride": self._stride,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Metrics:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        try:
            metrics = cls(classification=data["classification"], window=data["window"])
            metrics.scored, metrics._stride = data["scored"], data["stride"]
            metrics._sums = np.array(data["sums"], dtype=np.float64).reshape(2)
            metrics._last = np.array(data["last"], dtype=np.float64).reshape(-1, 2)
            metrics.history = [(n, a, b) for n, a, b in data["history"]]
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the metrics in the checkpoint cannot be read: {error!r}") from error
        return metrics
