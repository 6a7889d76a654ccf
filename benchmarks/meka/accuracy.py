"""Errors |G - G~| / |G| of approximations, in the Frobenius norm, on rows drawn at random.

They have all columns (§6.1), and are the same rows for each method.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.meka.problems import ROWS, Matrix
from streamk.kernels import Kernel

_ENTRIES = 1 << 23
"""Of the matrix, that are there at a time."""


def rows(n: int, count: int = ROWS, seed: int = 0) -> NDArray[np.int64]:
    """The rows that `Meka.error` draws."""
    random = np.random.Generator(np.random.Philox(seed))
    return random.choice(n, min(count, n), replace=False)


def relative(X: Matrix, kernel: Kernel, F: NDArray[Any], count: int = ROWS, seed: int = 0) -> float:
    """Error of F F'."""
    missed = total = 0.0
    drawn = rows(len(X), count, seed)
    step = max(1, _ENTRIES // len(X))
    for first in range(0, len(drawn), step):
        some = drawn[first : first + step]
        G = kernel.pairwise(X[some], X)
        total += float(np.vdot(G, G))
        G -= F[some] @ F.T
        missed += float(np.vdot(G, G))
    return float(np.sqrt(missed / total))


def short(value: float) -> float:
    """Five digits, for the record."""
    return float(f"{value:.5g}")


def text(value: float | None) -> str:
    """An error in a table."""
    return "-" if value is None else f"{value:.4f}"
