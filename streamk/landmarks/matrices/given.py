"""Matrices whose entries are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput
from streamk.landmarks.matrices.base import Indices, Matrix, Numbers, Rows
from streamk.landmarks.matrices.points import checked_points

_ASYMMETRY = 1e-8
"""Difference between a row and its column, relative to the largest entry, that is rounding."""


class MatrixRows:
    """Rows of a matrix that is given; sparse ones are made dense a few at a time."""

    def __init__(self, G: Any, indices: Indices | None, diagonal: Numbers) -> None:
        self._G, self._indices, self._diagonal = G, indices, diagonal

    def __len__(self) -> int:
        return len(self._diagonal)

    def diagonal(self) -> Numbers:
        """Return the diagonal entries of the rows."""
        return self._diagonal

    def cross(self, landmarks: Numbers, some: slice, out: NDArray[Any]) -> None:
        """Copy entries; a landmark is the number of its column, which by symmetry is a row."""
        numbers = landmarks[:, 0].astype(np.int64)
        rows: Any = some if self._indices is None else self._indices[some]
        with np.errstate(over="ignore"):  # what is infinite then is far above the diagonal
            if hasattr(self._G, "toarray"):
                out[:] = self._G[numbers][:, rows].toarray()
            else:  # whole rows are not copied for some of their entries
                place = (numbers, some) if self._indices is None else np.ix_(numbers, rows)
                out[:] = self._G[place]

    def landmarks(self) -> Numbers:
        """Return the numbers of the rows."""
        numbers = np.arange(len(self)) if self._indices is None else self._indices
        return numbers[:, None].astype(np.float64)

    def take(self, indices: Indices) -> MatrixRows:
        """Return some of the rows."""
        taken = indices if self._indices is None else self._indices[indices]
        return MatrixRows(self._G, taken, self._diagonal[indices])


class GivenRows:
    """Rows of which the entries with all landmarks are given, (m, landmarks)."""

    def __init__(self, K: Numbers, numbers: dict[float, int]) -> None:
        self._K, self._numbers = K, numbers

    def __len__(self) -> int:
        return len(self._K)

    def diagonal(self) -> Numbers:
        """Return zeros: the entries of new rows with themselves are not known, nor asked for."""
        return np.zeros(len(self))

    def cross(self, landmarks: Numbers, some: slice, out: NDArray[Any]) -> None:
        """Copy the entries."""
        out[:] = self._K[some, [self._numbers[z] for z in landmarks[:, 0].tolist()]].T

    def landmarks(self) -> Numbers:
        """Return none: new rows are not among those that landmarks are chosen from."""
        return np.empty((0, 1))

    def take(self, indices: Indices) -> GivenRows:
        """Return some of the rows."""
        return GivenRows(self._K[indices], self._numbers)


class GivenMatrix(Matrix):
    """A matrix that is given, dense or sparse (CSR)."""

    def __init__(self, G: Any) -> None:
        self._G, self.n = G, G.shape[0]
        self.sparse = hasattr(G, "toarray")
        self._diagonal = np.array(G.diagonal(), np.float64)
        bad = ~np.isfinite(self._diagonal) | (self._diagonal < 0.0)
        if bad.any():
            i = int(np.argmax(bad))
            raise InvalidInput(
                f"diagonal entry {i} of the matrix is {self._diagonal[i]}; those of a positive "
                "semidefinite matrix are finite and not negative"
            )

        if self.sparse:  # for which a column is as long to find as all of them
            entries = G.tocoo()
            _check_finite(entries.data, entries.row, entries.col)
            apart = abs(G - G.T).tocoo()
            worst = int(np.argmax(apart.data)) if apart.nnz else 0
            self._check_symmetry(int(apart.row[worst]) if apart.nnz else 0, apart.data)

    def _check_symmetry(self, i: int, apart: Numbers) -> None:
        most = float(np.max(apart, initial=0.0))
        if most > _ASYMMETRY * self._diagonal.max():
            raise InvalidInput(
                f"row {i} of the matrix is not its column {i}: they differ by {most:.3g}; "
                "a kernel matrix is symmetric"
            )

    def rows(self, dtype: np.dtype[Any]) -> Rows:
        """Return all rows."""
        return MatrixRows(self._G, None, self._diagonal)

    def landmarks(self, indices: Indices) -> Numbers:
        """Return the numbers of the columns.

        Raises
        ------
        InvalidInput
            If one of them is not as its row is.
        """
        for i in [] if self.sparse else indices:
            row, column = self._G[i], self._G[:, i]
            _check_finite(row, np.full(self.n, i), np.arange(self.n))
            _check_finite(column, np.arange(self.n), np.full(self.n, i))
            with np.errstate(over="ignore"):
                self._check_symmetry(i, abs(row - column))
        return np.asarray(indices, np.float64)[:, None]

    def block(self, rows: Any, columns: Any) -> Any:
        """Return entries; of a sparse matrix they are sparse."""
        return self._G[rows][:, columns]

    def diagonal(self) -> Numbers:
        """Return the diagonal."""
        return self._diagonal

    def new_rows(self, Y: ArrayLike, landmarks: Numbers) -> Rows:
        """Return rows whose entries with the landmarks are given, in the landmarks' order."""
        K = checked_points(Y, "Y", least=0)
        if K.shape[1] != len(landmarks):
            raise InvalidInput(
                f"Y has {K.shape[1]} columns; of a precomputed matrix, new rows are given by their "
                f"entries with the {len(landmarks)} landmarks"
            )
        return GivenRows(K, {z: number for number, z in enumerate(landmarks[:, 0].tolist())})


def _check_finite(entries: Numbers, rows: Indices, columns: Indices) -> None:
    bad = ~np.isfinite(entries)
    if bad.any():
        k = int(np.argmax(bad))
        raise InvalidInput(
            f"entry ({rows[k]}, {columns[k]}) of the matrix is {entries[k]}; "
            "all entries must be finite"
        )
