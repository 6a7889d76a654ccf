"""Positive semidefinite matrices by their entries: of points and a kernel, or given as they are.

A matrix is never formed. What selects landmarks reads its diagonal, and the entries between many
rows and a few landmarks at a time. A landmark is a vector of numbers that all rows can be crossed
with, wherever they are: its point, with its weight in a diffusion kernel, or the number of its
column in a matrix that is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import select
from streamk.errors import InvalidInput
from streamk.kernels import Kernel


def numbers(X: Any, name: str) -> NDArray[np.float64]:
    """Return an array of float64; refuse sparse or complex arrays and anything but numbers."""
    if hasattr(X, "tocsr"):
        raise InvalidInput(f"{name} is sparse, but points must be dense; pass {name}.toarray()")
    try:
        if not np.iscomplexobj(X):
            return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} must be an array of numbers: {error}; encode texts as numbers first"
        ) from None
    raise InvalidInput(f"{name} is complex; pass real and imaginary parts as columns")


def checked_points(
    X: ArrayLike, name: str, least: int = 1, columns: int | None = None
) -> NDArray[np.float64]:
    """Return points as a matrix of finite float64, of at least so many rows, or refuse them.

    `columns` is how many the landmarks have that they are compared with.
    """
    points = numbers(X, name)
    if points.ndim != 2:
        raise InvalidInput(
            f"{name} must be a matrix of shape (points, columns), not of shape {points.shape}"
        )
    if len(points) < least:
        raise InvalidInput(f"{name} has no points")
    if not points.shape[1]:
        raise InvalidInput(f"{name} has no columns, so that all its points are alike")
    if columns not in (None, points.shape[1]):
        raise InvalidInput(
            f"{name} has {points.shape[1]} columns and the landmarks {columns}; they must be the "
            "same columns"
        )
    if not np.isfinite(points).all():
        i, j = np.argwhere(~np.isfinite(points))[0]
        raise InvalidInput(
            f"{name} has the value {points[i, j]} in row {i}, column {j}; leave such rows out or "
            "fill them in"
        )
    return np.ascontiguousarray(points)


Indices = NDArray[np.int64]
Numbers = NDArray[np.float64]

PRECOMPUTED = "precomputed"


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
    """Rows given by their entries with all landmarks, (m, landmarks)."""

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
        """Return an empty array: new rows cannot become landmarks."""
        return np.empty((0, 1))

    def take(self, indices: Indices) -> GivenRows:
        """Return some of the rows."""
        return GivenRows(self._K[indices], self._numbers)


class GivenMatrix:
    """A matrix that is given, dense or sparse (CSR)."""

    points: None = None

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

    def rows(self, dtype: np.dtype[Any]) -> KernelRows:
        """Return all rows."""
        return MatrixRows(self._G, None, self._diagonal)

    def landmarks(self, indices: Indices) -> Numbers:
        """Return the numbers of the columns."""
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

    def new_rows(self, Y: ArrayLike, landmarks: Numbers) -> KernelRows:
        """Return rows given by their entries with the landmarks, in the landmarks' order."""
        K = checked_points(Y, "Y", least=0)
        if K.shape[1] != len(landmarks):
            raise InvalidInput(
                f"Y has {K.shape[1]} columns; with a precomputed matrix, give new rows as their "
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


@dataclass(frozen=True)
class Diffusion:
    """Diffusion kernel ``D^-1/2 N D^-1/2`` of the points it is applied to (Patel et al., §V-A).

    N is the matrix of a kernel, D the diagonal matrix of its row sums. The row sums take one pass
    over all pairs of points, O(n^2) in time, and n numbers.

    Parameters
    ----------
    kernel : Kernel
        Without negative values, as all but NTK and Linear are.
    """

    kernel: Kernel


class PointRows:
    """Rows of a kernel matrix, which are points; in a diffusion kernel each has a weight."""

    def __init__(
        self,
        kernel: Kernel,
        points: NDArray[Any],
        diagonal: Numbers,
        weights: NDArray[Any] | None = None,
    ) -> None:
        self._kernel, self._points = kernel, points
        self._mapped = kernel.mapped(points)
        self._diagonal, self._weights = diagonal, weights

    def __len__(self) -> int:
        return len(self._points)

    def diagonal(self) -> Numbers:
        """Return ``k(x, x)`` of each point."""
        return self._diagonal

    def cross(self, landmarks: Numbers, some: slice, out: NDArray[Any]) -> None:
        """Write kernels between points; a diffusion kernel's landmark ends with its weight."""
        kernel, weights = self._kernel, self._weights
        points = landmarks if weights is None else landmarks[:, :-1]
        Z = kernel.mapped(np.ascontiguousarray(points, self._points.dtype))
        X = self._mapped[some]
        select().pairwise(kernel.code, kernel.parameter, kernel.frequency_scale, Z, X, out)
        if weights is not None:
            out *= landmarks[:, -1:].astype(out.dtype)
            out *= weights[some]

    def landmarks(self) -> Numbers:
        """Return the points, with their weights if they have some."""
        weights = self._weights
        return self._points if weights is None else np.column_stack([self._points, weights])

    def take(self, indices: Indices) -> PointRows:
        """Return some of the points."""
        weights = None if self._weights is None else self._weights[indices]
        return PointRows(self._kernel, self._points[indices], self._diagonal[indices], weights)


class KernelMatrix:
    """The matrix of a kernel between points (n, d)."""

    def __init__(self, kernel: Kernel, X: Numbers) -> None:
        self.kernel, self.points, self.n = kernel, X, len(X)

    def rows(self, dtype: np.dtype[Any]) -> KernelRows:
        """Return all points."""
        return PointRows(self.kernel, _narrowed(self.points, dtype), self.diagonal())

    def landmarks(self, indices: Indices) -> Numbers:
        """Return the points."""
        return self.points[indices]

    def block(self, rows: Any, columns: Any) -> Any:
        """Return the kernel between some of the points and some others."""
        return self.kernel.pairwise(self.points[rows], self.points[columns])

    def diagonal(self) -> Numbers:
        """Return ``k(x, x)`` of each point."""
        return self.kernel.diagonal(self.points)

    def columns(self, landmarks: Numbers) -> Numbers:
        """Return the columns of landmarks that need not be the matrix's own points."""
        return self.kernel.pairwise(self.points, landmarks)

    def among(self, points: Numbers) -> KernelMatrix:
        """Return the matrix of the same kernel between other points."""
        return KernelMatrix(self.kernel, points)

    def new_rows(self, Y: ArrayLike, landmarks: Numbers) -> KernelRows:
        """Return points that need not be the matrix's own."""
        return self._new(checked_points(Y, "Y", least=0, columns=self.points.shape[1]))

    def _new(self, points: Numbers) -> KernelRows:
        return PointRows(self.kernel, points, self.kernel.diagonal(points))


class DiffusionMatrix(KernelMatrix):
    """The matrix of a diffusion kernel, with its row sums."""

    def __init__(self, kernel: Kernel, X: Numbers, weights: Numbers | None = None) -> None:
        super().__init__(kernel, X)
        self.weights = self._weights(X) if weights is None else weights

    def _weights(self, Y: Numbers) -> Numbers:
        sums = self.kernel.product(Y, self.points, np.ones(self.n))
        if not (sums > 0.0).all():
            worst = int(np.argmin(sums > 0.0))
            raise InvalidInput(
                f"row {worst} of the kernel matrix sums up to {sums[worst]:g}; a diffusion kernel "
                "needs positive row sums: use a kernel without negative values, such as Gaussian"
            )
        return np.asarray(1.0 / np.sqrt(sums))

    def rows(self, dtype: np.dtype[Any]) -> KernelRows:
        """Return all points with their weights."""
        points, weights = _narrowed(self.points, dtype), self.weights.astype(dtype, copy=False)
        return PointRows(self.kernel, points, self.diagonal(), weights)

    def landmarks(self, indices: Indices) -> Numbers:
        """Return the points, each followed by its weight."""
        return np.column_stack([super().landmarks(indices), self.weights[indices]])

    def block(self, rows: Any, columns: Any) -> Any:
        """Return the kernel between some of the points and some others."""
        return self.weights[rows, None] * super().block(rows, columns) * self.weights[columns]

    def diagonal(self) -> Numbers:
        """Return the diagonal, ``k(x, x)`` over the row's sum."""
        return super().diagonal() * self.weights**2

    def columns(self, landmarks: Numbers) -> Numbers:
        """Return the columns of landmarks that need not be the matrix's own points."""
        columns = super().columns(landmarks[:, :-1])
        return np.asarray(self.weights[:, None] * columns * landmarks[:, -1])

    def among(self, points: Numbers) -> DiffusionMatrix:
        """Return the matrix between other points, with row sums over this one's points."""
        return DiffusionMatrix(self.kernel, points, self._weights(points))

    def _new(self, points: Numbers) -> KernelRows:
        weights, own = self._weights(points), self.kernel.diagonal(points)
        return PointRows(self.kernel, points, own * weights**2, weights)


def _narrowed(points: Numbers, dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        narrowed = points.astype(dtype, copy=False)
    if narrowed is not points and not np.isfinite(narrowed).all():
        i, j = np.argwhere(~np.isfinite(narrowed))[0]
        raise InvalidInput(
            f"the value {points[i, j]} in row {i}, column {j} is beyond the range of {dtype}; "
            "scale the points, or use dtype='float64'"
        )
    return narrowed


KernelRows = PointRows | MatrixRows | GivenRows
"""Rows of a matrix, to be crossed with landmarks."""
Matrix = KernelMatrix | GivenMatrix
"""A symmetric positive semidefinite matrix of n rows."""


def as_matrix(X: Any, kernel: Kernel | Diffusion | str) -> Matrix:
    """Return the matrix of a kernel on points X (n, d), or X itself, (n, n), of "precomputed"."""
    if isinstance(kernel, Kernel):
        return KernelMatrix(kernel, checked_points(X, "X"))
    if isinstance(kernel, Diffusion):
        if not isinstance(kernel.kernel, Kernel):
            raise InvalidInput(f"{kernel!r} must be of a streamk Kernel, such as Gaussian")
        return DiffusionMatrix(kernel.kernel, checked_points(X, "X"))
    if not isinstance(kernel, str) or kernel != PRECOMPUTED:
        raise InvalidInput(
            f"kernel={kernel!r} must be a streamk Kernel, a Diffusion of one, or {PRECOMPUTED!r}"
        )
    G = X.tocsr() if hasattr(X, "tocsr") else numbers(X, "X")
    if np.iscomplexobj(G):
        raise InvalidInput("X is complex; the matrix of a kernel is real")
    shape = G.shape
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise InvalidInput(
            f"a precomputed kernel matrix must be square and not empty; X has shape {shape}"
        )
    return GivenMatrix(G)
