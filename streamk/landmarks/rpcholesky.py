"""Randomly pivoted Cholesky, one pivot a step and in blocks of proposals with rejection.

A partial Cholesky factorization ``F F^T`` of a matrix K leaves the residual ``K - F F^T``, whose
diagonal holds the Schur complements. The next pivot is drawn with probability proportional to them
(Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", 2022, Algorithm 1).

The block form (Epperly, Tropp, Webber, "Embrace rejection", 2024, Algorithms 2.1 and 2.2) draws
many proposals from one residual and keeps each with the probability to which its Schur complement
has shrunk since, through the pivots kept before it. So a kept pivot has the law of one drawn from
the shrunken residual, and the pivots, in their order, have the same distribution as one a step; but
the columns of all that are kept are computed together, as a matrix product.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from streamk.kernels import Kernel
from streamk.landmarks.matrices import Diffusion, Matrix, Numbers
from streamk.landmarks.nystrom import Landmarks, begun, landmarks_of
from streamk.landmarks.selection import Selection, check_count, check_range

TOGETHER = 64
"""Columns that are computed together: with more of them the time of each is hardly less."""


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

    Parameters
    ----------
    X : array of shape (n, d), or the matrix (n, n)
    kernel : Kernel, Diffusion or "precomputed"
        As in `streamk.landmarks.oasis`.
    max_landmarks : int
        It stops earlier where what is left may be nothing but rounding.
    seed : int, default 0
    dtype : {"float64", "float32"}
        Of the factor.
    threads : int, optional
        All cores by default. Results do not depend on it.

    Returns
    -------
    Landmarks

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or the matrix is not positive semidefinite.

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
    """Draw landmarks as `rpcholesky` does, in blocks of proposals of which some are rejected.

    Parameters
    ----------
    X : array of shape (n, d), or the matrix (n, n)
    kernel : Kernel, Diffusion or "precomputed"
        As in `streamk.landmarks.oasis`.
    max_landmarks : int
        It stops earlier where what is left may be nothing but rounding.
    block_size : int, optional
        Proposals at a time. By default 64 at first, then as many as should leave 64 landmarks, but
        no more than n/4. It changes which landmarks a seed gives, but not their distribution.
    seed : int, default 0
    dtype : {"float64", "float32"}
        Of the factor.
    threads : int, optional
        All cores by default. Results do not depend on it.

    Returns
    -------
    Landmarks

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or the matrix is not positive semidefinite.

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
