"""Sums of kernels of many centers, which lie in the lanes of vectors.

A group's kernels with a tile of rows, and what they add to the outputs, are sums in registers, over
columns and over centers. Nothing of a center is rearranged for a row, so that a single one takes
about as long as its share of many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import GROUP, KernelCode
from streamk.backends.incremental import KernelNumbers
from streamk.backends.numba_backend.compilation.compiling import compiled, exact
from streamk.backends.numba_backend.pairwise import of_sums, sums
from streamk.backends.numpy_backend.pairwise import sum_factor

__all__ = ["add", "expand", "follow", "lay"]

_ROWS = 32
"""Rows of a tile."""


@exact
def _lay(points: Any, slots: Any, laid: Any) -> None:
    for i in range(points.shape[0]):
        group, lane = slots[i] // GROUP, slots[i] % GROUP
        for j in range(points.shape[1]):
            laid[group, j, lane] = points[i, j]


def lay(points: Any, slots: Any, laid: Any) -> None:
    """Write points into the slots."""
    _lay(points, slots, laid)


@compiled
def _expand(code: Any, parameter: Any, f: Any, X: Any, laid: Any, A: Any, out: Any) -> None:
    (n, d), groups, outputs = X.shape, laid.shape[0], out.shape[1]
    rows = min(n, _ROWS)
    K, spare = np.empty(rows * GROUP, X.dtype), np.empty(rows * GROUP, X.dtype)
    for r in range(0, n, rows):
        count = min(rows, n - r)
        out[r : r + count] = 0.0
        for g in range(groups):
            sums(code, laid, g * d * GROUP, d, X, r * d, count, d, 1, f, K)
            of_sums(code, parameter, f, K[: count * GROUP], spare)
            for q in range(A.shape[0]):
                first = (q * A.shape[1] + g * GROUP) * GROUP
                sums(KernelCode.LINEAR, A, first, GROUP, K, 0, count, GROUP, 1, f, spare)
                for i in range(count):
                    for o in range(min(GROUP, outputs - q * GROUP)):
                        out[r + i, q * GROUP + o] += spare[i * GROUP + o]


def expand(kernel: KernelNumbers, X: Any, laid: Any, A: Any, out: Any) -> None:
    """Write the sum of all centers' kernels times coefficients into `out`."""
    f = sum_factor(kernel.code, kernel.parameter, kernel.scale, X.dtype)
    if laid.shape[1] == 0:  # at least one column
        X, laid = np.zeros((len(X), 1), X.dtype), np.zeros((len(laid), 1, GROUP), X.dtype)
    _expand(int(kernel.code), float(kernel.parameter), f, X, laid, A, out)


@exact
def _add(K: Any, known: Any, A: Any, outputs: Any) -> None:
    for i in range(outputs.shape[0]):
        for j in range(known[i]):
            for o in range(outputs.shape[1]):
                outputs[i, o] += K[i, j] * A[j, o]


def add(K: Any, known: Any, A: Any, outputs: Any) -> None:
    """Add what the first centers give, for each row so many of them."""
    _add(K, known, A, outputs)


@exact
def _follow(K: Any, Y: Any, ridges: Any, first: Any, outputs: Any, A: Any) -> None:
    for i in range(outputs.shape[0]):
        row = first + i
        for j in range(row):
            for o in range(outputs.shape[1]):
                outputs[i, o] += K[i, j] * A[j, o]
        for o in range(outputs.shape[1]):
            A[row, o] = (Y[i, o] - outputs[i, o]) / (1.0 + ridges[o])


def follow(K: Any, Y: Any, ridges: Any, first: int, outputs: Any, A: Any) -> None:
    """Learn events one after the other, each of them a center from then on."""
    _follow(K, Y, ridges, first, outputs, A)
