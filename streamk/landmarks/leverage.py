"""Landmarks by leverage scores: Gittens and Mahoney, "Revisiting the Nyström method" (2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from streamk.kernels import Kernel
from streamk.landmarks.checks import check_count
from streamk.landmarks.full import full
from streamk.landmarks.matrices import Diffusion, Numbers, as_matrix
from streamk.landmarks.nystrom import Landmarks, checked_dtype, of_rows


def leverage_scores(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    rank: int | None = None,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Draw landmarks without replacement, in proportion to their leverage scores.

    The score of column j is ``|U_k(j, :)|^2``, with the eigenvectors of the k largest eigenvalues
    of the whole matrix in U_k; those that are nothing but rounding do not count. It takes O(n^3)
    time and a matrix of at most 4 GiB, 23,170 rows: for comparisons.

    Parameters
    ----------
    X : array of shape (n, d), or the matrix (n, n)
    kernel : Kernel, Diffusion or "precomputed"
        As in `streamk.landmarks.oasis`.
    max_landmarks : int
        At most so many as have a score are drawn, one after the other among those left.
    rank : int, optional
        k; `max_landmarks` by default.
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
        If an argument cannot be used, or the matrix took more than 4 GiB.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.landmarks import leverage_scores
    >>> leverage_scores(np.diag([3.0, 2.0, 0.1]), "precomputed", max_landmarks=2).indices.tolist()
    [0, 1]
    """
    check_count("max_landmarks", max_landmarks)
    check_count("seed", seed, least=0)
    check_count("rank", max_landmarks if rank is None else rank)
    matrix, real = as_matrix(X, kernel), checked_dtype(dtype)
    scores = _scores(full(matrix, "leverage_scores"), min(rank or max_landmarks, matrix.n))
    random = np.random.Generator(np.random.Philox(seed))
    # Of exponential clocks that run as fast as the scores are large, the first to ring is a draw in
    # proportion to them, the next one is such a draw among those left, and so on.
    times = np.full(matrix.n, np.inf)
    np.divide(random.exponential(size=matrix.n), scores, out=times, where=scores > 0.0)
    order = np.argsort(times, kind="stable")
    indices = order[: min(max_landmarks, max(1, np.count_nonzero(scores)))]
    stopped = "count" if len(indices) == max_landmarks else "all"
    return of_rows(matrix, indices, real, threads, stopped)


def _scores(G: Numbers, rank: int) -> Numbers:
    """Return the leverage scores of the columns; `G` is overwritten."""
    from scipy.linalg import eigh

    n = len(G)
    # The transpose, the same matrix by symmetry, lies as LAPACK has it: others are copied.
    values, U = eigh(G.T, subset_by_index=(n - rank, n - 1), overwrite_a=True, check_finite=False)
    held = U[:, values > n * np.finfo(np.float64).eps * values[-1]]
    scores: Numbers = np.einsum("ij,ij->i", held, held)
    return scores
