"""The growing factor of a kernel matrix, as plain loops over its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import GROUP
from streamk.backends.numpy_backend.pairwise import pairwise


def cross(
    code: int, parameter: float, scale: float, P: NDArray[Any], Y: NDArray[Any], out: NDArray[Any]
) -> None:
    """Write the kernel between the points that lie in groups in `P` and the rows of `Y`."""
    for points, K in zip(P, out, strict=True):
        pairwise(code, parameter, scale, Y, np.ascontiguousarray(points.T), K)


def extend(
    K: NDArray[Any], L: NDArray[Any], F: NDArray[Any], start: int, delta: NDArray[np.float64]
) -> None:
    """Append columns to the factor, from column `start` on, and take them off `delta`."""
    for i in range(K.shape[1]):
        m = start + i
        total = np.zeros((len(F), GROUP), F.dtype)
        for q in range(m):
            total += F[:, q] * L[m, q]
        F[:, m] = (K[:, i] - total) * (F.dtype.type(1.0) / L[m, m])
        delta -= np.square(F[:, m], dtype=np.float64)


def gather(F: NDArray[Any], count: int, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Copy the first `count` columns of some rows into the lanes of `out`; the rest becomes 0."""
    lanes = np.zeros((count, len(out) * GROUP), F.dtype)
    lanes[:, : len(rows)] = F[rows // GROUP, :count, rows % GROUP].T
    out[:, :count] = lanes.reshape(count, len(out), GROUP).swapaxes(0, 1)
