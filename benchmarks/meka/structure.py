"""Figures 1c, 2 and 3: what kernel matrices are like between clusters.

1c  5,000 points of covtype: errors by γ at the memory of MEKA with k=64, c=5. BKA, the blocks
    within clusters, has so many clusters that their matrices, of which one half is stored, are no
    larger; SVD is the best of the rivals' rank.
2   500 points of covtype and cadata, five parts: error of BKA by γ, by k-means, spectral clustering
    of the kernel matrix, and at random. Spectral clustering is left out where it puts nine of ten
    points into one part.
3   1,000 points, five clusters: cosines of the principal angles between the leading directions of
    a diagonal block and of a block beside it, by their number; all pairs of clusters. covtype has
    γ=0.1, ijcnn1 γ=1.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.meka import accuracy, problems, rivals, runs
from benchmarks.meka.problems import COVTYPE, SEED, Matrix, Problem
from streamk.factorization.clusters import clustered

CADATA = "cadata_california_housing"
GAMMAS, QUICK_GAMMAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0), (0.1, 1.0)
POINTS, PARTITIONED, ANGLED = 5000, 500, 1000
PARTS, MOST = 5, 0.9
RANK = 64
ANGLES, QUICK_ANGLES = (1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50), (1, 2, 3)
LOW_RANK = ("Nys", "RNys", "KNys")


def by_gamma(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 1c."""
    whole = problems.problem(COVTYPE, data, 1.0, RANK, PARTS, quick=quick)
    few = problems.some(whole, POINTS)
    lines: dict[str, list[float]] = {}
    gammas = QUICK_GAMMAS if quick else GAMMAS
    for gamma in gammas:
        problem = dataclasses.replace(few, gamma=gamma)
        found = runs.compared(problem, SEED, LOW_RANK, (runs.OURS,))
        nbytes = int(found[runs.OURS]["nbytes"])
        G = problem.kernel.pairwise(problem.X)
        errors = {name: one["error"] for name, one in found.items()} | {
            "BKA": _block_error(problem, G, nbytes),
            "SVD": _best_error(G, rivals.rank(nbytes, len(problem))),
        }
        for name, error in errors.items():
            lines.setdefault(name, []).append(error)
        common.note(f"  γ={gamma:g}: " + ", ".join(f"{k} {v:.4f}" for k, v in errors.items()))
    return {"n": len(few), "gammas": gammas, "errors": lines}


def outside(G: Matrix, labels: NDArray[Any]) -> float:
    """The error of the blocks within clusters."""
    kept = sum(float(np.square(G[np.ix_(r, r)]).sum()) for r in _rows(labels))
    total = float(np.vdot(G, G))
    return accuracy.short(float(np.sqrt(max(0.0, total - kept) / total)))


def _rows(labels: NDArray[Any]) -> list[NDArray[np.int64]]:
    return [np.flatnonzero(labels == s) for s in np.unique(labels)]


def _block_error(problem: Problem, G: Matrix, nbytes: int) -> float:
    count, numbers = 1, nbytes // rivals.DTYPE.itemsize
    while True:
        found = clustered(problem.X, count, seed=SEED)
        sizes = np.bincount(found.labels)
        if (sizes * (sizes + 1) // 2).sum() <= numbers or count >= len(problem):
            return outside(G, found.labels)
        count = min(len(problem), max(count + 1, int(1.1 * count)))


def _best_error(G: Matrix, rank: int) -> float:
    n = len(G)
    values = linalg.eigh(G, eigvals_only=True, subset_by_index=[max(0, n - rank), n - 1])
    total, kept = float(np.vdot(G, G)), float(np.square(values).sum())
    return accuracy.short(float(np.sqrt(max(0.0, total - kept) / total)))


def partitions(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 2."""
    found = {}
    gammas = QUICK_GAMMAS if quick else GAMMAS
    for name in (COVTYPE, CADATA):
        problem = problems.some(problems.problem(name, data, 1.0, quick=quick), PARTITIONED)
        X = problem.X
        lines: dict[str, list[float | None]] = {"k-means": [], "spectral": [], "random": []}
        nearest = clustered(X, PARTS, seed=SEED).labels
        drawn = np.random.default_rng(SEED).integers(0, PARTS, len(X))
        for gamma in gammas:
            G = dataclasses.replace(problem, gamma=gamma).kernel.pairwise(X)
            lines["k-means"].append(outside(G, nearest))
            spectral = _spectral(G)
            divided = np.bincount(spectral).max() < MOST * len(X)
            lines["spectral"].append(outside(G, spectral) if divided else None)
            lines["random"].append(outside(G, drawn))
        found[name] = {"n": len(X), "gammas": gammas, "errors": lines}
    return found


def _spectral(G: Matrix) -> NDArray[Any]:
    from sklearn.cluster import SpectralClustering

    with warnings.catch_warnings():
        # Of a kernel that is next to the identity the graph falls apart, and they say so.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        labels: NDArray[Any] = SpectralClustering(
            PARTS, affinity="precomputed", random_state=SEED
        ).fit_predict(G)
    return labels


def angles(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 3."""
    found, counts = {}, QUICK_ANGLES if quick else ANGLES
    for name, gamma in ((COVTYPE, 0.1), ("ijcnn1", 1.0)):
        problem = problems.some(problems.problem(name, data, gamma, quick=quick), ANGLED)
        G = problem.kernel.pairwise(problem.X)
        rows = _rows(clustered(problem.X, PARTS, seed=SEED).labels)
        cosines: dict[str, list[float]] = {"mean": [], "least": []}
        own = [np.linalg.svd(G[np.ix_(r, r)])[0] for r in rows]
        beside = {
            (s, t): np.linalg.svd(G[np.ix_(rows[s], rows[t])], full_matrices=False)[0]
            for s in range(len(rows))
            for t in range(len(rows))
            if s != t
        }
        for count in counts:
            each = [
                np.linalg.svd(own[s][:, :count].T @ U[:, :count], compute_uv=False)
                for (s, _), U in beside.items()
                if min(U.shape) >= count
            ]
            cosines["mean"].append(accuracy.short(float(np.mean([c.mean() for c in each]))))
            cosines["least"].append(accuracy.short(float(np.mean([c.min() for c in each]))))
        found[name] = {"gamma": gamma, "counts": counts, "cosines": cosines}
    return found
