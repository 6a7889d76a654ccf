"""Checks of what pseudo landmarks are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamk.errors import InvalidInput
from streamk.factorization.checks import check_choice, check_range
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Indices, Numbers
from streamk.landmarks.matrices.points import checked_points
from streamk.prediction.pseudo.distances import is_radial

PRODUCTS, LOWER, UPPER = "products", "lower", "upper"
KINDS = (PRODUCTS, LOWER, UPPER)


def check_kind(kernel: Any, kind: Any) -> None:
    """Check that pseudo landmarks of this kind can be had of a kernel.

    Raises
    ------
    InvalidInput
        If one of the two is none, or bounds of distances tell nothing of the kernel.
    """
    if not isinstance(kernel, Kernel):
        raise InvalidInput(f"kernel={kernel!r} must be a streamk Kernel, such as Gaussian()")
    check_choice("kind", kind, KINDS)
    if kind != PRODUCTS and not is_radial(kernel):
        raise InvalidInput(
            f"kind={kind!r} bounds Euclidean distances, of which {kernel!r} is no function: take "
            f"kind={PRODUCTS!r}, or another kernel, such as Gaussian, Matern or RationalQuadratic"
        )


def within_range(X: ArrayLike, name: str, least: int = 1) -> Numbers:
    """Return points (n, d) as float64, whose distances can be computed.

    Raises
    ------
    InvalidInput
        If they are no matrix of at least so many rows, or a value is not finite or too large.
    """
    points = checked_points(X, name, least)
    check_range(points, name)
    return points


def check_columns(points: Numbers, name: str, d: int) -> None:
    """Check that points have as many columns as the landmarks.

    Raises
    ------
    InvalidInput
        Naming both numbers.
    """
    if points.shape[1] != d:
        raise InvalidInput(
            f"{name} has {points.shape[1]} columns and the landmarks {d}; they must be the same "
            "columns"
        )


def pairs_of(pairs: ArrayLike, m: int) -> Indices:
    """Return pairs of numbers of m landmarks, int64 (p, 2).

    Raises
    ------
    InvalidInput
        If they are none.
    """
    found = np.asarray(pairs)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InvalidInput(
            "pseudo of products must be whole numbers, those of two landmarks in each row, shape "
            f"(p, 2), not {found.dtype} of shape {found.shape}"
        )
    if found.size and not 0 <= int(found.min()) <= int(found.max()) < m:
        wrong = found.min() if found.min() < 0 else found.max()
        raise InvalidInput(f"pseudo has the number {wrong}, but landmarks are 0 to {m - 1}")
    return found.astype(np.int64)
