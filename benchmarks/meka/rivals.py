"""The six rivals of the paper (§6): factors of rank r, G ~ F F', in single precision as MEKA's W.

Nys       2r columns drawn uniformly, and of the matrix M between them the best of rank r:
          F = C U_r S_r^-1/2 (Williams and Seeger)
RNys      the same by a randomized SVD of M, q = 1, p = 10 (Li, Kwok and Lu)
KNys      r centres of clusters in place of columns (Zhang and Kwok)
ENys      three experts, each with columns of its own, and the mean of their matrices; each has a
          third of the rank, for F is that of all three (Kumar, Mohri and Talwalkar)
RKS       r random features (Rahimi and Recht)
Fastfood  r Hadamard features (Le, Sarlos and Smola)

And what Nys could be at the same memory, though the paper does not have it:

Nys, cut later   the best of rank r of C M^+ C' itself, where Nys cuts M before it sees C

Features of new points come as F does, by a map from their kernel with the landmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from benchmarks.meka.problems import Matrix
from streamk import landmarks
from streamk.features import RandomFeatures
from streamk.kernels import Kernel

Features = Callable[[Matrix], NDArray[Any]]

DTYPE = np.dtype(np.float32)
OVERSAMPLING = 2
"""Columns for each of the rank."""
EXPERTS = 3
_CUT = 1e-12
"""Eigenvalues of M below this part of the largest are rounding."""


@dataclass(frozen=True)
class Rival:
    """F, and the features of points that were not there."""

    factor: NDArray[Any]
    features: Features

    @property
    def nbytes(self) -> int:
        """Memory of F, in bytes."""
        return self.factor.nbytes


def rank(nbytes: int, n: int) -> int:
    """The rank of a factor of so many bytes."""
    return max(1, nbytes // (n * DTYPE.itemsize))


def _mapped(X: Matrix, kernel: Kernel, Z: Matrix, T: Matrix) -> Rival:
    def features(Y: Matrix) -> Matrix:
        return kernel.product(Y, Z, T)

    return Rival(features(X).astype(DTYPE), features)


def _drawn(X: Matrix, count: int, seed: int | list[int]) -> Matrix:
    random = np.random.default_rng(seed)
    return X[random.choice(len(X), min(count, len(X)), replace=False)]


def _root(values: Matrix, U: Matrix) -> Matrix:
    """U S^-1/2 of what is no rounding."""
    kept = values > _CUT * values.max()
    return np.ascontiguousarray(U[:, kept] / np.sqrt(values[kept]))


def _cut(kernel: Kernel, Z: Matrix, rank: int) -> Matrix:
    """From the kernel with landmarks to features, by the best of a rank of their matrix."""
    values, U = np.linalg.eigh(kernel.pairwise(Z))
    return _root(values[-rank:], U[:, -rank:])


def nys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    Z = _drawn(X, OVERSAMPLING * rank, seed)
    return _mapped(X, kernel, Z, _cut(kernel, Z, rank))


def nys_cut_later(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    Z = _drawn(X, OVERSAMPLING * rank, seed)
    T = _cut(kernel, Z, len(Z))
    F = kernel.product(X, Z, T)
    V = np.linalg.eigh(F.T @ F)[1][:, -rank:]
    turned = np.ascontiguousarray(T @ V)
    return Rival((F @ V).astype(DTYPE), lambda Y: kernel.product(Y, Z, turned))


def rnys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    Z = _drawn(X, OVERSAMPLING * rank, seed)
    rank = min(rank, len(Z))
    M = kernel.pairwise(Z)
    U, values, _ = randomized_svd(M, rank, n_oversamples=10, n_iter=1, random_state=seed)
    return _mapped(X, kernel, Z, _root(values, U))


def knys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    found = landmarks.k_means(X, kernel, max_landmarks=rank, seed=seed, dtype=DTYPE)
    return Rival(found.factor, found.compact().transform)


def enys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    each = max(1, rank // EXPERTS)
    experts = []
    for expert in range(EXPERTS):
        Z = _drawn(X, OVERSAMPLING * each, [seed, expert])
        experts.append(_mapped(X, kernel, Z, _cut(kernel, Z, each)))
    share = np.sqrt(EXPERTS)

    def features(Y: Matrix) -> Matrix:
        return np.hstack([one.features(Y) for one in experts]) / share

    F = np.hstack([one.factor for one in experts])
    F /= DTYPE.type(share)
    return Rival(F, features)


def _random(X: Matrix, kernel: Kernel, rank: int, seed: int, sampler: str) -> Rival:
    sequence = RandomFeatures(kernel, seed=seed, sampler=sampler, dtype=DTYPE)

    def features(Y: Matrix) -> NDArray[Any]:
        return sequence.transform(Y, 0, rank) / DTYPE.type(np.sqrt(rank))

    return Rival(features(X), features)


def rks(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    return _random(X, kernel, rank, seed, "iid")


def fastfood(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    return _random(X, kernel, rank, seed, "hadamard")


LATER = "Nys, cut later"
RIVALS: dict[str, Callable[[Matrix, Kernel, int, int], Rival]] = {
    "Nys": nys,
    "RNys": rnys,
    "KNys": knys,
    "ENys": enys,
    "RKS": rks,
    "Fastfood": fastfood,
    LATER: nys_cut_later,
}
"""Called with the points, the kernel, the rank and a seed."""
