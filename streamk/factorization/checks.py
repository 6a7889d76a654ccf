"""Checks of what several factorizations are given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Indices, Numbers, numbers
from streamk.landmarks.methods import LIMIT

LARGEST = 1e50
"""Value of a point up to which distances are sound."""


def checked_kernel(kernel: Any) -> Kernel:
    """Return a shift-invariant kernel, which is small between clusters; refuse any other."""
    if not isinstance(kernel, Kernel):
        raise InvalidInput(f"kernel={kernel!r} must be a streamk Kernel, such as Gaussian()")
    if not kernel.shift_invariant:
        raise InvalidInput(
            f"kernel={kernel!r} is not shift-invariant, so clusters of points say nothing about "
            "its matrix; use another, such as Gaussian"
        )
    return kernel


def indices_of(some: ArrayLike) -> Indices:
    """Return rows or columns of a matrix as int64; refuse what is not a whole number."""
    found = np.asarray(some)
    if found.size and found.dtype.kind not in "iu":
        raise InvalidInput(f"rows and columns must be whole numbers, not {found.dtype}")
    return found.astype(np.int64)


def check_range(points: Numbers, name: str) -> None:
    """Raise InvalidInput unless squared distances of points are far from overflow."""
    if points.size and not max(points.max(), -points.min()) <= LARGEST:
        i, j = np.argwhere(np.abs(points) > LARGEST)[0]
        raise InvalidInput(
            f"{name} has the value {points[i, j]} in row {i}, column {j}; distances need values up "
            f"to {LARGEST:g}: scale the columns"
        )


def check_size(count: int) -> None:
    """Raise InvalidInput if the kernel between the points of a part took more than `LIMIT`."""
    size = 8 * count**2
    if size > LIMIT:
        raise InvalidInput(
            f"a part has {count} points, whose kernel would take {size / 2**30:.3g} GiB, above "
            f"the limit of {LIMIT / 2**30:.3g} GiB; use more clusters or parts"
        )


def columns_of(v: Any, n: int, name: str, of: str = "points") -> Numbers:
    """Return a vector or vectors of n finite numbers as float64, (n,) or (n, p), or refuse them."""
    V = numbers(v, name)
    if V.ndim not in (1, 2) or len(V) != n:
        raise InvalidInput(
            f"{name} must have a number for each of the {n} {of}, shape ({n},) or ({n}, p), not "
            f"{V.shape}"
        )
    if not np.isfinite(V).all():
        row = int(np.argwhere(~np.isfinite(V))[0][0])
        raise InvalidInput(f"{name} has the value {V[row]} in row {row}; all must be finite")
    return V


def weights_of(some: Any, n: int, name: str) -> Numbers:
    """Return finite weights of n points, at least 0 and not all 0, as float64, or refuse them."""
    found = numbers(some, name)
    if found.shape != (n,):
        raise InvalidInput(
            f"{name} must have a number for each of the {n} points, shape ({n},), not {found.shape}"
        )
    wrong = ~((found >= 0.0) & (found < math.inf))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InvalidInput(
            f"{name} has the value {found[i]} in row {i}; all must be finite and at least 0"
        )
    if not found.any():
        raise InvalidInput(f"{name} is zero for all points; at least one must be above 0")
    return found
