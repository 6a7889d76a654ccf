"""The paper's kernel matrices: points, scaled, and a Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Directory, fingerprint, load
from streamk.kernels import Gaussian

Matrix = NDArray[np.float64]

SEEDS = (1, 2, 3, 4, 5)
SEED = SEEDS[0]
ROWS = 1000
"""Of the matrix, which errors are sampled on."""
QUICK = 240
"""Points of a quick run."""
COVTYPE = "covtype_subset93k"
SCALED = ("pendigits", COVTYPE, "cadata_california_housing")
"""Whose columns go to [0, 1]; ijcnn1's are as they are."""
WITH_TEST = ("pendigits",)
"""Whose test rows belong to the matrix, as n of the paper's Table 6 says."""


@dataclass(frozen=True)
class Problem:
    """A kernel matrix that is to be approximated by MEKA of a rank and a number of clusters."""

    name: str
    X: Matrix
    gamma: float
    rank: int
    clusters: int

    def __len__(self) -> int:
        return len(self.X)

    @property
    def kernel(self) -> Gaussian:
        return Gaussian(gamma=self.gamma)

    @property
    def options(self) -> dict[str, Any]:
        """What `meka` needs of it."""
        return {"rank": self.rank, "n_clusters": self.clusters}

    def describe(self) -> dict[str, Any]:
        """For the record."""
        return {
            "n": len(self),
            "columns": self.X.shape[1],
            "gamma": self.gamma,
            "rank": self.rank,
            "clusters": self.clusters,
            "sha256": fingerprint(self.X),
        }


def unit(X: Matrix) -> Matrix:
    """Each column scaled to [0, 1]."""
    low, high = X.min(axis=0), X.max(axis=0)
    scaled: Matrix = (X - low) / np.where(high > low, high - low, 1.0)
    return scaled


def points(name: str, directory: Directory, *, quick: bool) -> Matrix:
    """Points of a data set as the paper's matrices have them; of a quick run a few."""
    found = load(name, directory, quick=quick)
    X = found.X
    if name in WITH_TEST and found.test is not None:
        X = np.concatenate([X, found.test[0]])
    wide = X.astype(np.float64)[: QUICK if quick else None]
    return unit(wide) if name in SCALED else wide


def problem(
    name: str,
    directory: Directory,
    gamma: float,
    rank: int = 128,
    clusters: int = 10,
    *,
    quick: bool,
) -> Problem:
    """A matrix of a data set, small if `quick`."""
    found = Problem(name, points(name, directory, quick=quick), gamma, rank, clusters)
    return replace(found, rank=8, clusters=3) if quick else found


def some(one: Problem, count: int, seed: int = SEED) -> Problem:
    """The matrix of some of the points, drawn at random, if there are more."""
    if len(one) <= count:
        return one
    drawn = np.random.default_rng(seed).choice(len(one), count, replace=False)
    return replace(one, X=one.X[np.sort(drawn)])


TABLE = (
    ("pendigits", 2.0, 128, 5),
    ("ijcnn1", 1.0, 128, 10),
    (COVTYPE, 10.0, 256, 15),
)
"""Name, gamma, rank and clusters of Table 7."""
