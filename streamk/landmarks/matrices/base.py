"""Matrices by their entries, and rows of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Indices = NDArray[np.int64]
Numbers = NDArray[np.float64]

PRECOMPUTED = "precomputed"


class Rows(Protocol):
    """Rows of a matrix, to be crossed with landmarks."""

    def __len__(self) -> int:
        """Return how many rows there are."""
        ...

    def diagonal(self) -> Numbers:
        """Return the diagonal entries of the rows, (n,)."""
        ...

    def cross(self, landmarks: Numbers, some: slice, out: NDArray[Any]) -> None:
        """Write the entries between landmarks and a range of rows, (landmarks, rows)."""
        ...

    def landmarks(self) -> Numbers:
        """Return what stands for all of these rows as landmarks, (n, numbers)."""
        ...

    def take(self, indices: Indices) -> Rows:
        """Return some of the rows."""
        ...


class Matrix(ABC):
    """A symmetric positive semidefinite matrix of n rows."""

    n: int
    points: Numbers | None = None
    """(n, d); None where the matrix is given without points."""

    @abstractmethod
    def rows(self, dtype: np.dtype[Any]) -> Rows:
        """Return all rows, with entries of that type."""

    @abstractmethod
    def landmarks(self, indices: Indices) -> Numbers:
        """Return what stands for these rows as landmarks, (len(indices), numbers)."""

    @abstractmethod
    def block(self, rows: Any, columns: Any) -> Any:
        """Return the entries of some rows and columns, float64; sparse where the matrix is."""

    @abstractmethod
    def diagonal(self) -> Numbers:
        """Return the diagonal, (n,)."""

    @abstractmethod
    def new_rows(self, Y: ArrayLike, landmarks: Numbers) -> Rows:
        """Return rows for points that the matrix does not have."""
