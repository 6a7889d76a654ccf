"""Matrices of points and a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import select
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices.base import Indices, Matrix, Numbers, Rows
from streamk.landmarks.matrices.points import checked_points


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


class KernelMatrix(Matrix):
    """The matrix of a kernel between points (n, d)."""

    points: Numbers

    def __init__(self, kernel: Kernel, X: Numbers) -> None:
        self.kernel, self.points, self.n = kernel, X, len(X)

    def rows(self, dtype: np.dtype[Any]) -> Rows:
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

    def new_rows(self, Y: ArrayLike, landmarks: Numbers) -> Rows:
        """Return points that need not be the matrix's own."""
        points = checked_points(Y, "Y", least=0)
        if points.shape[1] != self.points.shape[1]:
            raise InvalidInput(
                f"Y has {points.shape[1]} columns, but the landmarks were chosen among points of "
                f"{self.points.shape[1]}"
            )
        return self._new(points)

    def _new(self, points: Numbers) -> Rows:
        return PointRows(self.kernel, points, self.kernel.diagonal(points))


class DiffusionMatrix(KernelMatrix):
    """The matrix of a diffusion kernel, of which the row sums are kept."""

    def __init__(self, kernel: Kernel, X: Numbers, weights: Numbers | None = None) -> None:
        super().__init__(kernel, X)
        self.weights = self._weights(X) if weights is None else weights

    def _weights(self, Y: Numbers) -> Numbers:
        sums = self.kernel.product(Y, self.points, np.ones(self.n))
        if not (sums > 0.0).all():
            worst = int(np.argmin(sums > 0.0))
            raise InvalidInput(
                f"row {worst} of the kernel matrix sums up to {sums[worst]:g}; a diffusion kernel "
                "needs positive row sums: take a kernel without negative values, such as Gaussian"
            )
        return np.asarray(1.0 / np.sqrt(sums))

    def rows(self, dtype: np.dtype[Any]) -> Rows:
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

    def _new(self, points: Numbers) -> Rows:
        weights, own = self._weights(points), self.kernel.diagonal(points)
        return PointRows(self.kernel, points, own * weights**2, weights)


def _narrowed(points: Numbers, dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        narrowed = points.astype(dtype, copy=False)
    if narrowed is not points and not np.isfinite(narrowed).all():
        i, j = np.argwhere(~np.isfinite(narrowed))[0]
        raise InvalidInput(
            f"the value {points[i, j]} in row {i}, column {j} is beyond the range of {dtype}; "
            "scale the points, or take dtype='float64'"
        )
    return narrowed
