"""Methods that choose landmarks: oASIS, randomly pivoted Cholesky, and those to compare with.

oASIS takes the row with the largest Schur complement, one after the other (Patel et al.).

Randomly pivoted Cholesky draws the row. A partial Cholesky factorization ``F F^T`` of a matrix K
leaves the residual ``K - F F^T``, whose diagonal holds the Schur complements. The next pivot is
drawn with probability proportional to them (Chen, Epperly, Tropp, Webber, "Randomly pivoted
Cholesky", 2022, Algorithm 1).

The block form (Epperly, Tropp, Webber, "Embrace rejection", 2024, Algorithms 2.1 and 2.2) draws
many proposals from one residual and keeps each with the probability to which its Schur complement
has shrunk since, through the pivots kept before it. So a kept pivot has the law of one drawn from
the shrunken residual, and the pivots, in their order, have the same distribution as one a step; but
the columns of all that are kept are computed together, as a matrix product.

To compare with there are all rows, rows drawn uniformly or by leverage scores, and centers of
clusters.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from streamk.errors import BackendUnavailable, InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Diffusion, Matrix, Numbers
from streamk.landmarks.nystrom import GIVEN, Landmarks, begun, landmarks_of, of_points, of_rows
from streamk.landmarks.selection import Selection, check_count, check_range
from streamk.options import Option, Real, Whole, documented

OPTIONS: dict[str, Option] = {
    "tol": Real(
        doc="Choose no more where all rows are so near to the span, in the squared distance of "
        "their kernel functions, the Schur complement: the paper's epsilon. Selection stops in any "
        "case where what is left may be nothing but rounding: ``4 eps (k + 1)`` of the largest "
        "diagonal entry after k landmarks, with eps that of the factor's type."
    ),
    "n_init": Whole(
        doc="Landmarks drawn at random to start with, of which those are left out that the others "
        "span but for half of the digits. With 0 the first is the row of the largest diagonal "
        "entry."
    ),
    "rank": Whole(doc="Eigenvectors that the scores are computed from; as landmarks by default."),
    "block_size": Whole(
        doc="Proposals at a time, of which some are rejected. By default 64 at first, then as many "
        "as should leave 64 landmarks, but no more than n/4. It changes which landmarks a seed "
        "gives, but not their distribution. 1 is the plain algorithm."
    ),
}
"""Options of single methods, which the transformers have, too."""
_described = documented(
    GIVEN | OPTIONS,
    Returns="Landmarks",
    Raises="InvalidInput\n    If an argument cannot be used, naming it, or the matrix is not "
    "positive semidefinite.",
)


@_described
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


TOGETHER = 64
"""Columns that are computed together: with more of them the time of each is hardly less."""


@_described
def rpcholesky(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Draw one landmark after the other in proportion to the Schur complements.

    See Also
    --------
    block_rpcholesky : Landmarks of the same distribution, several times faster.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.landmarks import rpcholesky
    >>> found = rpcholesky(np.diag([3.0, 0.0, 2.0]), "precomputed", max_landmarks=3)
    >>> sorted(found.indices.tolist()), found.stopped
    ([0, 2], 'rounding')
    """
    return block_rpcholesky(
        X,
        kernel,
        max_landmarks=max_landmarks,
        block_size=1,
        seed=seed,
        dtype=dtype,
        threads=threads,
    )


@_described
def block_rpcholesky(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    block_size: int | None = None,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Draw landmarks as `rpcholesky` does, but in blocks of proposals, some of them rejected.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.landmarks import block_rpcholesky
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> found = block_rpcholesky(X, Gaussian(bandwidth=2.0), max_landmarks=60)
    >>> len(found), bool(found.residual.max() < 1e-6)
    (60, True)
    """
    if block_size is not None:
        check_count("block_size", block_size)
    matrix, real, random = begun(X, kernel, max_landmarks, seed, dtype)
    most = min(max_landmarks, matrix.n)
    check_range(float(matrix.diagonal().max()), real)
    selection = Selection(matrix.rows(real), most, real, threads)
    count = block_size or min(TOGETHER, most)
    indices: list[int] = []
    while len(indices) < most:
        schur = selection.factor.schur
        weights = np.where(schur > selection.rounding, schur, 0.0)
        if not weights.any():
            break
        kept = _draw(matrix, selection, weights, random.random((2, count)), most)
        indices += kept
        if block_size is None:
            count = _next_count(count, len(kept), most - len(indices), matrix.n)
    stopped = "rounding" if len(indices) < most else "count" if most == max_landmarks else "all"
    return landmarks_of(matrix, selection, np.array(indices, np.int64), stopped)


def _draw(
    matrix: Matrix, selection: Selection, weights: Numbers, chances: Numbers, most: int
) -> list[int]:
    """Propose rows in proportion to their weights, take those not rejected and return them.

    Of the numbers in `chances` (2, proposals), from [0, 1), the first row draws and the second one
    rejects.
    """
    edges = np.cumsum(weights)
    drawn = np.searchsorted(edges, chances[0] * edges[-1], side="right")
    # A product that rounds up to the last edge belongs to the last row that can be drawn.
    proposals = np.minimum(drawn, np.searchsorted(edges, edges[-1]))
    selection.restrict(proposals, few=True)
    kept: list[int] = []
    for i, bar in zip(proposals.tolist(), (chances[1] * weights[proposals]).tolist(), strict=True):
        if selection.delta(i) > max(bar, selection.rounding):
            selection.add(matrix.landmarks(np.array([i]))[0], i)
            kept.append(i)
            if len(selection) == most:
                break
    selection.flush()
    return kept


def _next_count(count: int, kept: int, room: int, n: int) -> int:
    """Choose how many proposals come next, by how many of the last ones were kept.

    To bring b proposals up to date with one that is kept takes b/n of the work of its column, which
    the paper holds to a quarter by measured times. Here it is counted, so that nothing depends on
    timing.
    """
    wanted = min(TOGETHER, room) * count / max(1, kept)
    return max(1, min(math.ceil(wanted), 2 * count, n // 4))


LIMIT = 4 << 30
"""Bytes beyond which a matrix is not formed: 23,170 rows."""
_ENTRIES = 1 << 17
"""Entries that are computed at a time, so that no second matrix is needed."""
ITERATIONS = 5
"""Of Lloyd's algorithm, for landmarks."""


@_described
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


@_described
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


@_described
def k_means(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Take the centres of clusters of points as landmarks.

    They are not rows of `X`: `Landmarks.indices` is None. There are no more than different points.
    It needs scikit-learn, and finds the clusters by one thread.

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
            "k_means needs points, but a precomputed matrix has none: pass X of shape (n, d) and "
            "a Kernel, or use another method"
        )
    centers = centers_of(matrix.points, max_landmarks, random, init="random", iterations=ITERATIONS)
    stopped = "count" if len(centers) == max_landmarks else "all"
    return of_points(matrix, centers, real, threads, stopped)


def centers_of(
    points: Numbers, count: int, random: np.random.Generator, *, init: str, iterations: int
) -> Numbers:
    """Return the centres of clusters that k-means finds, in ascending order and all different.

    There are at most so many, and no more than different points (n, d), by at most so many of
    Lloyd's iterations from centres by "random" or "k-means++".
    """
    model = scikit_learn("cluster", "k-means").KMeans(
        min(count, len(points)),
        init=init,
        n_init=1,
        max_iter=iterations,
        algorithm="lloyd",
        random_state=int(random.integers(2**31)),
    )
    # Threads add up their parts of a cluster in the order in which they finish.
    with _thread_pools().limit(limits=1), warnings.catch_warnings():
        # There may be fewer different points than clusters.
        warnings.simplefilter("ignore", scikit_learn("exceptions", "k-means").ConvergenceWarning)
        model.fit(points)
    return np.asarray(np.unique(model.cluster_centers_, axis=0))


def scikit_learn(module: str, what: str) -> Any:
    """Return a module of scikit-learn, for `what`; raise BackendUnavailable if it is missing."""
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise BackendUnavailable(
            f"{what} needs scikit-learn ({error}): pip install 'streamk[sklearn]'"
        ) from None


@cache
def _thread_pools() -> Any:
    """Return the thread pools there are: to look for them takes longer than to find clusters."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def full(matrix: Matrix, method: str) -> Numbers:
    """Return all entries of a matrix, in an array of their own."""
    size = 8 * matrix.n**2
    if size > LIMIT:
        raise InvalidInput(
            f"{method} needs the whole matrix, which would take {size / 2**30:.3g} GiB for "
            f"n={matrix.n}, above the limit of {LIMIT / 2**30:.3g} GiB: use oasis or "
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
    return np.asarray(np.einsum("ij,ij->i", held, held))


METHODS: dict[str, Callable[..., Landmarks]] = {
    "oasis": oasis,
    "uniform": uniform,
    "k-means": k_means,
    "leverage-scores": leverage_scores,
    "rpcholesky": rpcholesky,
    "block-rpcholesky": block_rpcholesky,
}
"""Methods by name. All take X, a kernel, `max_landmarks`, `seed`, `dtype` and `threads`."""
