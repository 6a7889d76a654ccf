"""Points as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput


def numbers(X: Any, name: str) -> NDArray[np.float64]:
    """Return an array of float64.

    Raises
    ------
    InvalidInput
        If it is sparse, complex or holds what is no number.
    """
    if hasattr(X, "tocsr"):
        raise InvalidInput(
            f"{name} is sparse, and points must be dense: pass what its toarray() returns"
        )
    try:
        if not np.iscomplexobj(X):
            return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} must be an array of numbers: {error}; encode texts as numbers first"
        ) from None
    raise InvalidInput(f"{name} is complex; pass real and imaginary parts as columns")


def checked_points(X: ArrayLike, name: str, least: int = 1) -> NDArray[np.float64]:
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
