"""Matrices from what users give: points and a kernel, or the entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.checks import numbers
from streamk.landmarks.matrices import (
    PRECOMPUTED,
    Diffusion,
    DiffusionMatrix,
    GivenMatrix,
    Indices,
    KernelMatrix,
    Matrix,
    Numbers,
)


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


def _check_finite(entries: Numbers, rows: Indices, columns: Indices) -> None:
    bad = ~np.isfinite(entries)
    if bad.any():
        k = int(np.argmax(bad))
        raise InvalidInput(
            f"entry ({rows[k]}, {columns[k]}) of the matrix is {entries[k]}; "
            "all entries must be finite"
        )


def checked_points(X: ArrayLike, name: str, least: int = 1) -> Numbers:
    """Return points as a matrix of float64.

    Raises
    ------
    InvalidInput
        If it is no matrix, has fewer rows, or a value is not finite, naming it.
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
    if not np.isfinite(points).all():
        i, j = np.argwhere(~np.isfinite(points))[0]
        raise InvalidInput(
            f"{name} has the value {points[i, j]} in row {i}, column {j}; leave such rows out or "
            "fill them in"
        )
    return np.ascontiguousarray(points)


def as_matrix(X: Any, kernel: Kernel | Diffusion | str) -> Matrix:
    """Return the matrix of a kernel on points, or the one that is given.

    Parameters
    ----------
    X : array of shape (n, d), or the matrix itself: an array or SciPy sparse matrix (n, n)
    kernel : Kernel, Diffusion or "precomputed"

    Raises
    ------
    InvalidInput
        If `X` cannot be used, naming the place, or there is no such kernel.
    """
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
            f"a precomputed kernel matrix has as many rows as columns, at least one; X is of shape "
            f"{shape}"
        )
    return GivenMatrix(G)
