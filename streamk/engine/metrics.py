"""Figures of progressive validation: each event is scored by the model that had not seen it.

Classification: accuracy, and log loss, the mean of -ln p(true label). A label that the model did
not know yet has probability 0; so that one such event does not make the mean infinite,
probabilities count as at least 1e-15 (a loss of 34.5), as in River and scikit-learn.
Regression: mean absolute error and root mean squared error.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.errors import StateError

__all__ = ["LEAST_PROBABILITY", "Metrics", "score_classes", "score_numbers"]

LEAST_PROBABILITY = 1e-15
HISTORY = 1024
"""Points kept for plotting; when there are more, every other one goes and the step doubles."""


def score_classes(
    probabilities: npt.NDArray[np.float64],
    answers: npt.NDArray[np.intp],
    classes: Sequence[Any],
    labels: Sequence[Any],
) -> tuple[float, float]:
    """Number of right answers (n,), and sum of the log losses of probabilities (n, classes)."""
    number = {label: k for k, label in enumerate(classes)}
    truth = np.fromiter((number.get(label, -1) for label in labels), np.intp, len(labels))
    p = np.where(truth < 0, 0.0, probabilities[np.arange(len(truth)), truth])
    hits = np.count_nonzero(answers == truth)
    return float(hits), float(-np.log(np.maximum(p, LEAST_PROBABILITY)).sum())


def score_numbers(
    predictions: npt.NDArray[np.float64], labels: Sequence[float]
) -> tuple[float, float]:
    """Sum of the absolute errors and sum of the squared errors."""
    errors = predictions - np.asarray(labels, dtype=np.float64)
    return float(np.abs(errors).sum()), float(np.square(errors).sum())


class Metrics:
    """Sums over the whole stream and over its last events.

    Parameters
    ----------
    classification : bool
    window : int
        Events in the windowed figures: the fewest last batches that hold as many.

    Examples
    --------
    >>> metrics = Metrics(classification=False, window=2)
    >>> for error in (3.0, 1.0, 1.0):
    ...     metrics.update(1, (error, error**2))
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
        self._sums = (0.0, 0.0)
        self._last: deque[tuple[int, float, float]] = deque()
        self._last_events = 0

    def update(self, events: int, sums: tuple[float, float]) -> None:
        """Add a batch: its number of scored events and the sums of `score_…` over them."""
        if not events:
            return
        before, self.scored = self.scored, self.scored + events
        self._sums = (self._sums[0] + sums[0], self._sums[1] + sums[1])
        self._last.append((events, *sums))
        self._last_events += events
        while self._last_events - self._last[0][0] >= self._window:
            self._last_events -= self._last.popleft()[0]
        if before // self._stride < self.scored // self._stride:
            self._remember()

    def whole(self) -> dict[str, float]:
        """Figures of the whole stream by name; empty before the first scored event."""
        return self._figures(self.scored, *self._sums)

    def window(self) -> dict[str, float]:
        """Figures of the last events by name; empty before the first scored event."""
        # Summed anew each time: figures must not depend on what has left the window.
        sums = [math.fsum(column) for column in zip(*self._last, strict=True)]
        return self._figures(self._last_events, *sums[1:]) if sums else {}

    def _figures(self, n: int, first: float, second: float) -> dict[str, float]:
        if not n:
            return {}
        if self.classification:
            return {"accuracy": first / n, "log_loss": second / n}
        return {"mae": first / n, "rmse": math.sqrt(second / n)}

    def _remember(self) -> None:
        first, second = self.window().values()
        self.history.append((self.scored, first, second))
        if len(self.history) > HISTORY:
            # The newest stays; the first point goes with every other one.
            self.history = self.history[::-2][::-1]
            self._stride = max(2 * self._stride, self.scored // HISTORY)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            "classification": self.classification,
            "window": self._window,
            "scored": self.scored,
            "sums": list(self._sums),
            "last": [list(batch) for batch in self._last],
            "history": [list(point) for point in self.history],
            "stride": self._stride,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Metrics:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        try:
            metrics = cls(classification=data["classification"], window=data["window"])
            metrics.scored, metrics._stride = data["scored"], data["stride"]
            first, second = data["sums"]
            metrics._sums = (first, second)
            metrics._last = deque((n, a, b) for n, a, b in data["last"])
            metrics._last_events = sum(n for n, _, _ in metrics._last)
            metrics.history = [(n, a, b) for n, a, b in data["history"]]
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the metrics in the checkpoint cannot be read: {error!r}") from error
        return metrics
