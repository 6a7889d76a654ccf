"""Matrices from what users give: points and a kernel, or the entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices.base import PRECOMPUTED, Matrix
from streamk.landmarks.matrices.given import GivenMatrix
from streamk.landmarks.matrices.of_points import Diffusion, DiffusionMatrix, KernelMatrix
from streamk.landmarks.matrices.points import checked_points, numbers


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
