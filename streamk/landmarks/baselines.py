"""Landmarks to compare with: all rows, uniform, by leverage scores, and centers of clusters."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from streamk.errors import BackendUnavailable, InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Diffusion, Matrix, Numbers
from streamk.landmarks.nystrom import Landmarks, begun, of_points, of_rows
from streamk.landmarks.selection import check_count

LIMIT = 4 << 30
"""Bytes beyond which a matrix is not formed: 23,170 rows."""
_ENTRIES = 1 << 17
"""Entries that are computed at a time, so that no second matrix is needed."""
ITERATIONS = 5
"""Of Lloyd's algorithm, for landmarks."""


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
    matrix, real, random = begun(X, kernel, max_landmarks, seed, dtype)
    indices = random.choice(matrix.n, min(max_landmarks, matrix.n), replace=False)
    stopped = "count" if max_landmarks <= matrix.n else "all"
    return of_rows(matrix, indices, real, threads, stopped)


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
    matrix, real, random = begun(X, kernel, max_landmarks, seed, dtype)
    check_count("rank", max_landmarks if rank is None else rank)
    scores = _scores(full(matrix, "leverage_scores"), min(rank or max_landmarks, matrix.n))
    # Of exponential clocks that run as fast as the scores are large, the first to ring is a draw in
    # proportion to them, the next one is such a draw among those left, and so on.
    times = np.full(matrix.n, np.inf)
    np.divide(random.exponential(size=matrix.n), scores, out=times, where=scores > 0.0)
    order = np.argsort(times, kind="stable")
    indices = order[: min(max_landmarks, max(1, np.count_nonzero(scores)))]
    stopped = "count" if len(indices) == max_landmarks else "all"
    return of_rows(matrix, indices, real, threads, stopped)


def k_means(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Take the centres of clusters as landmarks.

    They are no rows of `X`: `Landmarks.indices` is None. It needs scikit-learn.

    Parameters
    ----------
    X : array of shape (n, d)
    kernel : Kernel or Diffusion
    max_landmarks : int
        Clusters; at most n, and no more than there are different points.
    seed : int, default 0
    dtype : {float64, float32}, default float64
        Of the factor.
    threads : int, optional
        All cores by default. The clusters themselves are found by one.

    Returns
    -------
    Landmarks

    Raises
    ------
    InvalidInput
        If an argument cannot be used, a precomputed matrix among them.
    BackendUnavailable
        If scikit-learn is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.landmarks import k_means
    >>> landmarks = k_means([[0.0], [1.0], [8.0], [9.0]], Gaussian(), max_landmarks=2)
    >>> np.sort(landmarks.points, axis=0).tolist()
    [[0.5], [8.5]]
    """
    matrix, real, random = begun(X, kernel, max_landmarks, seed, dtype)
    if matrix.points is None:
        raise InvalidInput(
            "k_means needs points, and a precomputed matrix has none: pass X of shape (n, d) and a "
            "Kernel, or take another method"
        )
    centers = centers_of(matrix.points, max_landmarks, random, init="random", iterations=ITERATIONS)
    stopped = "count" if len(centers) == max_landmarks else "all"
    return of_points(matrix, centers, real, threads, stopped)


def centers_of(
    points: Numbers,
    count: int,
    random: np.random.Generator,
    *,
    init: str,
    iterations: int,
    weights: Numbers | None = None,
) -> Numbers:
    """Return the centres of clusters that k-means finds, in ascending order and all different.

    Parameters
    ----------
    points : float64 array of shape (n, d)
    count : int
        Most centres; no more are found than there are different points.
    random : Generator
    init : {"random", "k-means++"}
    iterations : int
        At most so many of Lloyd's.
    weights : float64 array of shape (n,), optional
        Of the points, at least one above 0. By default all have the same.

    Raises
    ------
    BackendUnavailable
        If scikit-learn is not installed.
    """
    check_available()
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(
        min(count, len(points)),
        init=init,
        n_init=1,
        max_iter=iterations,
        algorithm="lloyd",
        random_state=int(random.integers(2**31)),
    )
    # Threads add up their parts of a cluster in the order in which they finish.
    with _thread_pools().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than clusters
        model.fit(points, sample_weight=weights)
    centers: Numbers = np.unique(model.cluster_centers_, axis=0)
    return centers


def check_available() -> None:
    """Raise BackendUnavailable if scikit-learn is not installed."""
    try:
        import sklearn.cluster  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable(
            f"clusters need scikit-learn ({error}): pip install 'streamk[sklearn]'"
        ) from None


@cache
def _thread_pools() -> Any:
    """Return the thread pools there are: to look for them takes longer than to find clusters."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def full(matrix: Matrix, method: str) -> Numbers:
    """Return all entries of a matrix, in an array of their own.

    Raises
    ------
    InvalidInput
        If they took more than `LIMIT` bytes, or one is not finite.
    """
    size = 8 * matrix.n**2
    if size > LIMIT:
        raise InvalidInput(
            f"{method} needs the whole matrix, which takes {size / 2**30:.3g} GiB for "
            f"n={matrix.n}, more than the {LIMIT / 2**30:.3g} GiB that are formed: take oasis or "
            "block_rpcholesky, which need a few of its columns, or fewer rows"
        )
    G = np.empty((matrix.n, matrix.n))
    step = max(1, _ENTRIES // matrix.n)
    for first in range(0, matrix.n, step):
        part = G[first : first + step]
        entries = matrix.block(slice(first, first + step), slice(None))
        part[:] = entries.toarray() if hasattr(entries, "toarray") else entries
        if not np.isfinite(part).all():
            i, j = np.argwhere(~np.isfinite(part))[0]
            raise InvalidInput(
                f"entry ({first + i}, {j}) of the matrix is {part[i, j]}; "
                "all entries must be finite"
            )
    return G


def _scores(G: Numbers, rank: int) -> Numbers:
    """Return the leverage scores of the columns; `G` is overwritten."""
    from scipy.linalg import eigh

    n = len(G)
    # The transpose, the same matrix by symmetry, lies as LAPACK has it: others are copied.
    values, U = eigh(G.T, subset_by_index=(n - rank, n - 1), overwrite_a=True, check_finite=False)
    held = U[:, values > n * np.finfo(np.float64).eps * values[-1]]
    scores: Numbers = np.einsum("ij,ij->i", held, held)
    return scores
