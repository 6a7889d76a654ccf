"""Directions that span a cluster's kernel matrix, and the map from points to coordinates in them.

The columns of the cluster's matrix at some landmarks give a Nyström factor F of it; its k leading
left singular vectors are the cluster's basis W(s) = F V S^-1 = K(points, landmarks) T. So a point
that was not there has coordinates, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.errors import BackendUnavailable
from streamk.kernels import Kernel
from streamk.landmarks import METHODS

Numbers = NDArray[np.float64]

LANDMARKS = {
    "uniform": "uniform",
    "k_means": "k-means",
    "oasis": "oasis",
    "rpcholesky": "block-rpcholesky",
}
"""Methods of `streamk.landmarks` by the names of the bases."""
RANDOMIZED = "randomized_svd"
BASES = (*LANDMARKS, RANDOMIZED)

_SMALLEST, _SMALLEST_SQUARE = 1e-10, 1e-12
"""Eigenvalues of a kernel matrix, and of its square, below these parts of the largest one are
rounding."""
_NOTHING = 1e-100
"""Largest number of a factor whose squares may underflow."""
_ORTHONORMAL = 1e-6
"""By how much products of a basis' columns may be off before they are made orthonormal again."""
_ENTRIES = 1 << 18
"""Numbers of the rows that are computed at a time, about: 2 MB."""


@dataclass(frozen=True)
class Basis:
    """Directions of a cluster, in the order of their importance."""

    landmarks: Numbers
    """(m, d)"""
    map: Numbers
    """From kernel values at the landmarks to coordinates, (m, directions)."""
    values: Numbers
    """Eigenvalues, (directions,)."""
    link: Numbers
    """L(s, s): what the Nyström approximation is in these coordinates, (directions, directions)."""

    def first(self, k: int) -> Basis:
        """Return the k leading directions, or all if there are fewer."""
        # Copies: views would keep the directions that are left out in memory.
        return Basis(
            self.landmarks, self.map[:, :k].copy(), self.values[:k], self.link[:k, :k].copy()
        )

    def write(
        self,
        out: NDArray[Any],
        X: Numbers,
        rows: NDArray[np.int64],
        kernel: Kernel,
        threads: int | None,
    ) -> Basis:
        """Write coordinates of some rows of X, those of the cluster, and return their basis.

        It is another one where rounding in small eigenvalues, which come of squares, has left the
        columns oblique: one that is orthonormal in these rows, and spans the same.
        """

        def parts() -> Iterator[tuple[slice, Numbers]]:
            step = max(1, _ENTRIES // max(1, len(self.values)))
            for first in range(0, len(rows), step):
                part = slice(first, first + step)
                yield part, kernel.product(X[rows[part]], self.landmarks, self.map, threads=threads)

        G = np.zeros(self.link.shape)
        for part, W in parts():
            out[part] = W
            G += W.T @ W
        if np.abs(G - np.eye(len(G))).max(initial=0.0) <= _ORTHONORMAL:
            return self
        R = scipy.linalg.cholesky(G)
        # The rows as they were, not by the new map: it would round anew, by as much again.
        for part, W in parts():
            out[part] = _over(W, R)
        return Basis(self.landmarks, _over(self.map, R), self.values, R @ self.link @ R.T)


def leading_directions(
    X: Numbers,
    others: Numbers,
    share: float,
    kernel: Kernel,
    method: str,
    rank: int,
    landmarks: int,
    seed: int,
    threads: int | None,
) -> Basis:
    """Return directions of the cluster of points X (n, d), more than `rank` if there are.

    Parameters
    ----------
    others : array of shape (m, d)
        Points of other clusters at whose columns the basis looks, too (§7.2); none for the
        columns of the cluster alone.
    share : float
        How many points each of those stands for.
    method : str
        One of `BASES`.
    rank : int
        Of the randomized SVD.
    landmarks : int
        At most so many are chosen.
    """
    found, root, F = _factor(X, kernel, method, rank, min(landmarks, len(X)), seed, threads)
    if not len(others):
        values, V = _leading(F.T @ F)
        return Basis(found, root @ (V / np.sqrt(values)), values, np.diag(values))
    # Left singular vectors of columns, each weighted by how many it stands for.
    seen = np.concatenate([found, others])
    weights = np.sqrt(np.repeat([len(X) / len(found), share], [len(found), len(others)]))
    gram, with_factor = np.zeros((len(seen),) * 2), np.zeros((len(seen), F.shape[1]))
    step = max(1, _ENTRIES // len(seen))
    for first in range(0, len(X), step):
        B = kernel.pairwise(X[first : first + step], seen)
        B *= weights
        gram += B.T @ B
        with_factor += B.T @ F[first : first + step]
    squares, V = _leading(gram, _SMALLEST_SQUARE)
    V /= np.sqrt(squares)
    A = V.T @ with_factor
    return Basis(seen, weights[:, None] * V, np.sqrt(squares), A @ A.T)


def _factor(
    X: Numbers,
    kernel: Kernel,
    method: str,
    rank: int,
    landmarks: int,
    seed: int,
    threads: int | None,
) -> tuple[Numbers, Numbers, Numbers]:
    """Return landmarks Z (m, d), R (m, r) and a Nyström factor ``F = K(X, Z) R`` (n, r)."""
    if method == RANDOMIZED:
        drawn = np.random.Generator(np.random.Philox(seed)).choice(len(X), landmarks, replace=False)
        Z = X[drawn]
        R = _randomized(kernel.pairwise(Z), rank, seed)
        return Z, R, kernel.product(X, Z, R, threads=threads)
    found = METHODS[LANDMARKS[method]](
        X, kernel, max_landmarks=landmarks, seed=seed, threads=threads
    )
    if max(found.factor.max(), -found.factor.min()) < _NOTHING:
        # A narrow kernel sees no point from the centres of clusters; from points it does.
        found = METHODS["uniform"](X, kernel, max_landmarks=landmarks, seed=seed, threads=threads)
    R = scipy.linalg.solve_triangular(found.L, np.eye(found.rank), lower=True, trans="T")
    assert found.points is not None
    return found.points[found.used], R, found.factor


def _randomized(M: Numbers, rank: int, seed: int) -> Numbers:
    """Return U S^-1/2 of the leading part of M as Li, Kwok and Lu find it (2010)."""
    try:
        from sklearn.utils.extmath import randomized_svd
    except ImportError as error:
        raise BackendUnavailable(
            f"the basis {RANDOMIZED!r} needs scikit-learn ({error}): pip install 'streamk[sklearn]'"
        ) from None
    U, s, _ = randomized_svd(
        M, min(rank, len(M)), n_oversamples=10, n_iter=1, random_state=seed % 2**32
    )
    kept = s > _SMALLEST * s[0]
    return np.asarray(U[:, kept] / np.sqrt(s[kept]))


def _leading(gram: Numbers, smallest: float = _SMALLEST) -> tuple[Numbers, Numbers]:
    """Return eigenvalues, descending, and eigenvectors of what is no rounding."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > smallest * values[-1]
    return values[kept][::-1], vectors[:, kept][:, ::-1]


def _over(A: Numbers, R: Numbers) -> Numbers:
    """Return ``A R^-1`` of an upper triangular R."""
    solved: Numbers = scipy.linalg.solve_triangular(R, A.T, trans="T", check_finite=False).T
    return np.ascontiguousarray(solved)
