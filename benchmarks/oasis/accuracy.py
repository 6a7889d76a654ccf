"""Errors of approximations F F' of kernel matrices, in the Frobenius norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.oasis.problems import SEED, Matrix, Problem

Indices = NDArray[np.int64]

_ROWS = 512
ENTRIES = 100_000
"""Sampled where the matrix is too large (section V-C)."""


def relative(G: Matrix, F: NDArray[Any]) -> float:
    """|G - F F'| / |G|."""
    total = 0.0
    for first in range(0, len(G), _ROWS):
        rows = slice(first, first + _ROWS)
        apart = F[rows] @ F.T
        apart -= G[rows]
        total += float(np.vdot(apart, apart))
    return float(np.sqrt(total) / np.linalg.norm(G))


class Sample:
    """Entries of a matrix, drawn from all of them, the same ones for each method."""

    def __init__(self, problem: Problem, count: int = ENTRIES, seed: int = SEED) -> None:
        rng = np.random.default_rng(seed)
        self.rows, self.columns = rng.integers(0, len(problem), (2, count))
        self.entries = problem.entries(self.rows, self.columns)

    def relative(self, approximate: Callable[[Indices, Indices], Matrix]) -> float:
        """Norm of the differences at these entries over the norm of the entries."""
        apart = approximate(self.rows, self.columns) - self.entries
        return float(np.linalg.norm(apart) / np.linalg.norm(self.entries))


def short(value: float) -> float:
    """Five digits, for the record."""
    return float(f"{value:.5g}")


def text(value: float | None) -> str:
    """An error in a table: 2.1e-6."""
    if value is None:
        return "-"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"
