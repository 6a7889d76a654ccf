"""Products of kernel values in the bases of MEKA (the last sentence of the paper's section 4.2).

A cluster's basis are the leading k directions of a Nyström approximation of its matrix. Here that
is of k-means centres and products of their kernel values, drawn at random; beside it are the bases
that `streamk.factorization.meka` has, at the same k, clusters and links, so that W and L take the
same bytes. "map" is what new points need beside: landmarks, and the maps to coordinates. "values"
are the kernel values that a prediction takes. Problems are two of Table 7 of MEKA's paper; errors
are those of 1,000 rows.

Such a basis is here and not in the library because at equal bytes its mean error is no smaller: its
map is as large as that of nearly as many landmarks. What it saves is kernel values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.intervals import cell, mean
from benchmarks.meka import problems
from benchmarks.meka.problems import Problem
from streamk.factorization import Meka, meka
from streamk.factorization.blocks import BlockDiagonal, LinkMatrix
from streamk.factorization.clusters import clustered
from streamk.factorization.meka import link, sample
from streamk.landmarks import k_means
from streamk.prediction import PseudoLandmarks, PseudoNystrom

Matrix = NDArray[np.float64]

PROBLEMS = problems.TABLE[:2]
BASES: dict[str, tuple[str, float]] = {
    "rpcholesky, k": ("rpcholesky", 1.0),
    "rpcholesky, 2k": ("rpcholesky", 2.0),
    "rpcholesky, 5.5k": ("rpcholesky", 5.5),
    "k_means, k": ("k_means", 1.0),
    "k_means, 2k": ("k_means", 2.0),
    "k_means, 5.5k": ("k_means", 5.5),
}
"""Of the library: the basis, and its landmarks for each direction."""
PSEUDO: dict[str, tuple[float, float]] = {
    "k-means, 2k, equation 5": (2.0, 0.0),
    "k-means, 5.5k, equation 5": (5.5, 0.0),
    "k-means, 2k + 4k products": (2.0, 4.0),
    "k-means, k + k products": (1.0, 1.0),
    "k-means, k/2 + 3k/2 products": (0.5, 1.5),
    "k-means, k/4 + 7k/4 products": (0.25, 1.75),
}
"""Landmarks and products for each direction."""
LINK_SAMPLES = 3.0
"""As `meka` has by default."""
SEEDS = 5


def measure(data: Directory, *, quick: bool, seeds: int = SEEDS) -> dict[str, Any]:
    """Errors and sizes by problem and basis."""
    found = []
    for row in PROBLEMS:
        problem = problems.problem(row[0], data, *row[1:], quick=quick)
        runs = [_run(problem, seed) for seed in range(1 if quick else seeds)]
        bases = {
            basis: {key: mean([run[basis][key] for run in runs]) for key in figures}
            for basis, figures in runs[0].items()
        }
        found.append({"problem": problem.name, **problem.describe(), "bases": bases})
        text = ", ".join(f"{basis} {of['error']['mean']:.4f}" for basis, of in bases.items())
        common.note(f"  {problem.name}: {text}")
    return {"problems": found}


def _run(problem: Problem, seed: int) -> dict[str, dict[str, float]]:
    figures = {}
    for name, (basis, each) in BASES.items():
        found = meka(
            problem.X,
            problem.kernel,
            basis=basis,
            oversampling=each,
            link_samples=LINK_SAMPLES,
            seed=seed,
            **problem.options,
        )
        figures[name] = {
            "error": found.error(problems.ROWS, seed),
            "nbytes": float(found.nbytes),
            "map": float(found.map_nbytes),
            "values": each * problem.rank,
        }
    for name, (each, products) in PSEUDO.items():
        m, p = int(each * problem.rank), int(products * problem.rank)
        found, size = pseudo_meka(problem, m, p, seed)
        figures[name] = {
            "error": found.error(problems.ROWS, seed),
            "nbytes": float(found.nbytes),
            "map": float(size),
            "values": float(m),
        }
    return figures


def pseudo_meka(problem: Problem, m: int, p: int, seed: int) -> tuple[Meka, int]:
    """MEKA of bases by m landmarks and p products in each cluster, and bytes of the maps.

    What new points need is left out of it: it is there for errors.
    """
    X, kernel, k = problem.X, problem.kernel, problem.rank
    clusters = clustered(X, problem.clusters, seed=seed)
    bases, size = [], 0
    for s, rows in enumerate(clusters.rows):
        own = seed * len(clusters) + s
        Z = k_means(X[rows], kernel, max_landmarks=m, seed=own).points
        assert Z is not None
        count = min(p, len(Z) * (len(Z) + 1) // 2)
        pseudo = PseudoLandmarks.of(X[rows], kernel, landmarks=Z, n_pseudo=count, seed=own)
        found = PseudoNystrom.of(X[rows], pseudo, seed=own)
        U, values, _ = np.linalg.svd(found.transform(X[rows]), full_matrices=False)
        bases.append((U[:, :k], values[:k] ** 2))
        # The numbers of the landmarks in each product take two bytes each.
        size += 8 * (Z.size + len(pseudo) * len(values[:k])) + 4 * count
    ranks = [len(values) for _, values in bases]
    W = BlockDiagonal(
        np.concatenate([U.reshape(-1) for U, _ in bases]).astype(np.float32), clusters.rows, ranks
    )
    return Meka(
        kernel, X, 0.0, clusters, W, _links(problem, clusters.rows, bases, seed), (), (), None
    ), size


def _links(
    problem: Problem,
    rows: list[NDArray[np.int64]],
    bases: list[tuple[Matrix, Matrix]],
    seed: int,
) -> LinkMatrix:
    """Links by least squares, as those of `meka`."""
    random = np.random.default_rng(seed)
    samples = [
        sample(problem.X[own], U, "leverage", int((1.0 + LINK_SAMPLES) * U.shape[1]), random)
        for own, (U, _) in zip(rows, bases, strict=True)
    ]
    every = np.arange(len(rows))
    pairs = np.vstack(
        [np.column_stack([every, every]), np.column_stack(np.triu_indices(len(rows), 1))]
    )

    def made(s: int, t: int) -> Matrix:
        if s == t:
            return np.diag(bases[s][1])
        return link(samples[s], samples[t], problem.kernel)

    return LinkMatrix.of(pairs, made, [U.shape[1] for U, _ in bases], np.dtype(np.float32))


def render(found: Mapping[str, Any]) -> str:
    """A table for each problem."""
    tables = []
    for one in found["problems"]:
        title = f"{one['problem']}, k={one['rank']}, c={one['clusters']}, γ={one['gamma']:g}"
        rows = [
            [
                basis,
                cell(of["error"], 5),
                f"{of['nbytes']['mean'] / 1e6:.2f}",
                f"{of['map']['mean'] / 1e6:.2f}",
                f"{of['values']['mean']:.0f}",
            ]
            for basis, of in one["bases"].items()
        ]
        tables.append(common.table([title, "error", "W, L MB", "map MB", "values"], rows))
    return "\n\n".join(tables)
