"""Generated events for the cases."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLUMNS = 8


def events(n: int, columns: int = COLUMNS) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return events (n, columns) and their classes, 0 or 1."""
    X = np.random.default_rng(0).normal(size=(n, columns))
    return X, (X[:, 0] * X[:, 1] > 0).astype(np.int64)
