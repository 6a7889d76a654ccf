"""Margins of classes to probabilities and errors, row by row.

Of two classes there may be one margin f, which stands for (-f, f); else there is one for each
class. All arrays are float64 and C-contiguous. What is computed for a row is the same, bit for bit,
whatever rows are computed with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends.numba_backend.compiling import exact_part, short
from streamk.backends.threads import pieces

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
def _probabilities_of(F: Any, factor: Any, most: Any, P: Any) -> None:
    every = np.empty(P.shape[1])
    for i in range(P.shape[0]):
        _spread(F, i, factor, most, every, P[i])


def probabilities(F: Any, factor: float, most: float, P: Any) -> None:
    """Write ``softmax(factor f)`` of margins (n, outputs) within `most` into P (n, classes)."""
    for some in pieces(P):
        _probabilities_of(F[some], factor, most, P[some])


@short
def _add_slopes(F: Any, classes: Any, factor: Any, most: Any, sums: Any) -> None:
    count = max(2, F.shape[1])
    every, P = np.empty(count), np.empty(count)
    for i in range(F.shape[0]):
        _spread(F, i, factor, most, every, P)
        mean, curvature, true = 0.0, 0.0, int(classes[i])
        if not 0 <= true < count:
            raise IndexError("a class without a margin")
        for c in range(count):
            mean += P[c] * every[c]
        for c in range(count):
            curvature += P[c] * (every[c] - mean) ** 2
        sums[0] += mean - every[true]
        sums[1] += curvature


def slopes(F: Any, classes: Any, factor: float, most: float, sums: Any) -> None:
    """Add slope and curvature of the log loss, by the factor, to the sums (2,).

    Event by event; margins (n, outputs) within `most`, classes (n,).
    """
    for some in pieces(F):
        _add_slopes(F[some], classes[some], factor, most, sums)


@short
def _missed_by(F: Any, y: Any, classes: Any, furthest: Any, most: Any, total: Any) -> Any:
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


def missed(F: Any, y: Any, classes: bool, furthest: float, most: float, total: float) -> float:
    """Return the total with the errors of outputs (n, outputs) added, event by event.

    Of classes, whose targets are 1 and -1, an event's is the sum of squares of its margins'
    errors up to `furthest`, of numbers that of absolute errors; up to `most`.
    """
    for some in pieces(F):
        total = _missed_by(F[some], y[some], classes, furthest, most, total)
    return total
