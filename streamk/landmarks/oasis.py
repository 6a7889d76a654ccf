"""oASIS: adaptive selection of landmarks by their Schur complements (Patel et al.)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from streamk.kernels import Kernel
from streamk.landmarks.matrices import Diffusion, Numbers
from streamk.landmarks.nystrom import Landmarks, begun, landmarks_of
from streamk.landmarks.selection import Selection, check_count, check_range
from streamk.options import Real


def oasis(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    tol: float = 0.0,
    n_init: int = 1,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Choose landmarks by accelerated sequential incoherence selection (Patel et al., Algorithm 1).

    Each step takes the row whose column of the kernel matrix is farthest from the span of the
    columns taken: the one with the largest Schur complement ``k(x, x) - b^T W^-1 b`` (equation 4).
    The matrix is never formed. A matrix of rank r is reproduced after r steps (Theorem 1).

    Instead of the inverse of W and of R (equations 5 and 6), the factor F of a Cholesky
    factorization with pivoting is kept, whose pivots are the same choice: a third of the memory,
    and F is found in blocks, see `streamk.landmarks.selection`.

    Parameters
    ----------
    X : array of shape (n, d), or the matrix (n, n) itself
        Points, or with ``kernel="precomputed"`` a symmetric positive semidefinite matrix: an array,
        or a SciPy sparse matrix, which stays sparse.
    kernel : Kernel, Diffusion or "precomputed"
    max_landmarks : int
        Most landmarks; with fewer rows all of them may be taken.
    tol : float, default 0
        The paper's epsilon: stop when no Schur complement is larger. Selection stops in any case
        where what is left may be nothing but rounding: ``4 eps (k + 1)`` of the largest diagonal
        entry after k landmarks, with eps that of `dtype`.
    n_init : int, default 1
        Landmarks drawn at random to start with, of which those are left out that the others span
        but for half of the digits. With 0 the first is the row of the largest diagonal entry.
    seed : int, default 0
        Of that draw.
    dtype : {"float64", "float32"}
        Of the factor, which takes the memory: n max_landmarks numbers.
    threads : int, optional
        All cores by default. Results do not depend on it, bit for bit.

    Returns
    -------
    Landmarks

    Raises
    ------
    InvalidInput
        If an argument cannot be used, naming it, or the matrix is not positive semidefinite.

    Notes
    -----
    Of equal Schur complements the first row's counts. The n rows take ``n max_landmarks^2``
    floating-point operations and the landmarks' columns ``n max_landmarks`` kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> found = oasis(X, Gaussian(bandwidth=2.0), max_landmarks=60, tol=1e-6)
    >>> found.stopped, len(found) < 60, bool(found.residual.max() <= 1e-6)
    ('tolerance', True, True)
    """
    check_options(max_landmarks, tol, n_init, seed)
    matrix, real, random = begun(X, kernel, max_landmarks, seed, dtype)
    most = min(max_landmarks, matrix.n)
    diagonal = matrix.diagonal()
    check_range(float(diagonal.max()), real)
    selection = Selection(matrix.rows(real), most, real, threads)
    indices: list[int] = []
    start = random.choice(matrix.n, size=min(n_init, most), replace=False)
    selection.restrict(start)
    least = least_of_start(diagonal[start], real)
    while len(indices) < len(start):
        delta, _ = selection.best()
        if delta <= max(least, selection.rounding):
            break
        indices += selection.take(matrix.landmarks, len(start) - len(indices), least)
    selection.release()
    stopped = "count" if most == max_landmarks else "all"
    while len(indices) < most:
        delta, _ = selection.best()
        if delta <= selection.rounding:
            stopped = "rounding"
            break
        if delta <= tol:
            stopped = "tolerance"
            break
        indices += selection.take(matrix.landmarks, most - len(indices), tol)
    return landmarks_of(matrix, selection, np.array(indices, np.int64), stopped)


def least_of_start(diagonal: Numbers, dtype: np.dtype[Any]) -> float:
    """Return the Schur complement down to which starting columns, of that diagonal, are taken.

    Columns that are drawn may be dependent but for half of the digits or more. Rows that they were
    not chosen for would then be combinations of them with huge coefficients, and of rounding.
    """
    return math.sqrt(float(np.finfo(dtype).eps)) * float(np.max(diagonal, initial=0.0))


def check_options(max_landmarks: int, tol: float, n_init: int, seed: int) -> None:
    """Raise InvalidInput if an option of a selection is out of its domain."""
    check_count("max_landmarks", max_landmarks)
    check_count("n_init", n_init, least=0)
    check_count("seed", seed, least=0)
    Real().check("tol", tol)
