"""Margins of classes to probabilities and errors, row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends.numba_backend.compilation.compiling import exact_part, short

__all__ = ["missed", "probabilities", "slopes"]


@exact_part
def _spread(F: Any, i: Any, factor: Any, most: Any, every: Any, P: Any) -> None:
    """Write an event's margins of each class and their softmax."""
    outputs = F.shape[1]
    largest, total = -np.inf, 0.0
    for c in range(len(P)):
        f = F[i, c] if outputs > 1 else F[i, 0] if c == 1 else -F[i, 0]
        every[c] = min(max(f, -most), most)
        largest = max(largest, factor * every[c])
    for c in range(len(P)):
        P[c] = math.exp(factor * every[c] - largest)
        total += P[c]
    for c in range(len(P)):
        P[c] /= total


@short
def probabilities(F: Any, factor: Any, most: Any, P: Any) -> None:
    """Write the softmax of margins, times the factor, into P."""
    every = np.empty(P.shape[1])
    for i in range(P.shape[0]):
        _spread(F, i, factor, most, every, P[i])


@short
def slopes(F: Any, classes: Any, factor: Any, most: Any, sums: Any) -> None:
    """Add slope and curvature of the log loss, by the factor, to the sums."""
    count = max(2, F.shape[1])
    every, P = np.empty(count), np.empty(count)
    for i in range(F.shape[0]):
        _spread(F, i, factor, most, every, P)
        mean, curvature = 0.0, 0.0
        for c in range(count):
            mean += P[c] * every[c]
        for c in range(count):
            curvature += P[c] * (every[c] - mean) ** 2
        sums[0] += mean - every[int(classes[i])]
        sums[1] += curvature


@short
def missed(F: Any, y: Any, classes: Any, furthest: Any, most: Any, total: Any) -> Any:
    """Return the total with the errors of outputs added, event by event."""
    outputs = F.shape[1]
    for i in range(F.shape[0]):
        error = 0.0
        for o in range(outputs):
            if classes:
                true = y[i] == (o if outputs > 1 else 1)
                one = min(abs(F[i, o] - (1.0 if true else -1.0)), furthest)
                error += one * one
            else:
                error += abs(F[i, o] - y[i])
        total += min(error, most)
    return total
