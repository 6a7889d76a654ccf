"""Landmarks drawn uniformly: the Nyström method as Williams and Seeger have it (2001)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from streamk.kernels import Kernel
from streamk.landmarks.checks import check_count
from streamk.landmarks.matrices import Diffusion, as_matrix
from streamk.landmarks.nystrom import Landmarks, checked_dtype, of_rows


def uniform(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Draw landmarks uniformly, without replacement.

    Parameters
    ----------
    X : array of shape (n, d), or the matrix (n, n)
    kernel : Kernel, Diffusion or "precomputed"
        As in `streamk.landmarks.oasis`.
    max_landmarks : int
        At most n are drawn. Those that are combinations of earlier ones are left out of the factor.
    seed : int, default 0
    dtype : {float64, float32}, default float64
        Of the factor.
    threads : int, optional
        All cores by default.

    Returns
    -------
    Landmarks

    Raises
    ------
    InvalidInput
        If an argument cannot be used.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> from streamk.landmarks import uniform
    >>> len(uniform([[0.0], [1.0], [2.0]], Gaussian(), max_landmarks=2))
    2
    """
    check_count("max_landmarks", max_landmarks)
    check_count("seed", seed, least=0)
    matrix, real = as_matrix(X, kernel), checked_dtype(dtype)
    random = np.random.Generator(np.random.Philox(seed))
    indices = random.choice(matrix.n, min(max_landmarks, matrix.n), replace=False)
    stopped = "count" if max_landmarks <= matrix.n else "all"
    return of_rows(matrix, indices, real, threads, stopped)
