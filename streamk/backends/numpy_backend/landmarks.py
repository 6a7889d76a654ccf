"""The growing factor of a kernel matrix, a column at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def extend(
    K: NDArray[Any], L: NDArray[Any], F: NDArray[Any], start: int, delta: NDArray[np.float64]
) -> None:
    """Append columns to the factor, from column `start` on, and take their squares off delta."""
    for m, (k, row) in enumerate(zip(K, L, strict=True), start):
        # No matrix product: a row's sum is then the same in whatever batch it comes.
        total = (F[:, :m] * row[:m]).sum(axis=1)
        F[:, m] = (k - total) * (F.dtype.type(1.0) / row[m])
        delta -= np.square(F[:, m], dtype=np.float64)


def choose(
    K: NDArray[Any],
    F: NDArray[Any],
    start: int,
    delta: NDArray[np.float64],
    least: float,
    places: NDArray[np.int64],
    schur: NDArray[np.float64],
) -> int:
    """Append a column for the row of the largest delta, and go on while that exceeds `least`."""
    for m in range(len(places)):
        place = int(delta.argmax())  # that of a NaN if there is one
        if m > 0 and not delta[place] > least:
            return m
        places[m], schur[m] = place, delta[place]
        row = F[place : place + 1, : start + m + 1].copy()
        row[0, -1] = math.sqrt(delta[place])
        extend(K[place : place + 1], row, F, start + m, delta)
        delta[place] = -np.inf
    return len(places)
