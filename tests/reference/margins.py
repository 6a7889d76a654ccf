"""Margins of classes to probabilities and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.losses import softmax

Array = NDArray[Any]


def probabilities(F: Array, factor: float, most: float, P: Array) -> None:
    """Write the softmax of margins, times the factor, into P."""
    P[...] = softmax(factor * np.clip(of_each_class(F), -most, most))


def slopes(F: Array, classes: Array, factor: float, most: float, sums: Array) -> None:
    """Add slope and curvature of the log loss, by the factor, to the sums."""
    every = np.clip(of_each_class(F), -most, most)
    P = softmax(factor * every)
    mean = (P * every).sum(axis=1)
    slopes = mean - every[np.arange(len(F)), classes.astype(np.int64)]
    curvatures = (P * (every - mean[:, None]) ** 2).sum(axis=1)
    for slope, curvature in zip(slopes, curvatures, strict=True):
        sums += slope, curvature


def missed(F: Array, y: Array, classes: bool, furthest: float, most: float, total: float) -> float:
    """Return the total with the errors of outputs added, event by event."""
    if classes:
        true = y[:, None] == (np.arange(F.shape[1]) if F.shape[1] > 1 else 1)
        y = np.where(true, 1.0, -1.0)
    errors = np.abs(F - (y if classes else y[:, None]))
    if classes:
        errors = np.square(np.minimum(errors, furthest))
    for one in np.minimum(errors.sum(axis=1), most).tolist():
        total += one
    return total


def of_each_class(F: Array) -> Array:
    """Return margins of each class (n, classes), where one output f stands for (-f, f)."""
    return np.hstack([-F, F]) if F.shape[1] == 1 else F
