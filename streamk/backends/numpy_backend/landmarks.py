"""The growing factor of a kernel matrix, a column at a time."""

from __future__ import annotations

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
