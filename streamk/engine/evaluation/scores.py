"""Scores of single predictions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST_PROBABILITY", "score_classes", "score_numbers"]

LEAST_PROBABILITY = 1e-15

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
