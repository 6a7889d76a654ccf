"""Table 3: numerical ranks of the blocks between clusters, of k-means and of a random partition.

4,000 points of ijcnn1, five clusters, the Gaussian kernel with γ=1, which the paper leaves open.
The rank is the number of singular values above max(n, m) |A|_2 δ, δ=1e-6. Clusters are in the order
of the ranks of their own blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.meka import paper, problems
from benchmarks.meka.problems import SEED, Matrix
from streamk.factorization.clusters import clustered
from streamk.kernels import Gaussian

POINTS, CLUSTERS, GAMMA, DELTA = 4000, 5, 1.0, 1e-6


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Ranks of the blocks of both partitions."""
    problem = problems.some(problems.problem("ijcnn1", data, GAMMA, quick=quick), POINTS)
    X = problem.X
    labels = {
        "k-means": clustered(X, CLUSTERS, seed=SEED).labels,
        "random": np.random.default_rng(SEED).integers(0, CLUSTERS, len(X)),
    }
    return {
        "n": len(X),
        "gamma": GAMMA,
        "ranks": {name: _ordered(block_ranks(X, drawn)) for name, drawn in labels.items()},
        "sizes": {name: np.bincount(drawn).tolist() for name, drawn in labels.items()},
    }


def block_ranks(X: Matrix, labels: Any) -> list[list[int]]:
    """Ranks of all blocks."""
    G = Gaussian(gamma=GAMMA).pairwise(X)
    rows = [np.flatnonzero(labels == s) for s in range(labels.max() + 1)]
    ranks = np.zeros((len(rows), len(rows)), np.int64)
    for s, own in enumerate(rows):
        for t in range(s + 1):
            values = np.linalg.svd(G[np.ix_(own, rows[t])], compute_uv=False)
            least = max(len(own), len(rows[t])) * values[0] * DELTA
            ranks[s, t] = ranks[t, s] = np.count_nonzero(values > least)
    return ranks.tolist()


def _ordered(ranks: list[list[int]]) -> list[list[int]]:
    table = np.array(ranks)
    order = np.argsort(table.diagonal(), kind="stable")
    return table[np.ix_(order, order)].tolist()


def render(found: Mapping[str, Any]) -> str:
    """Ours beside the paper's."""
    tables = []
    for name, ranks in found["ranks"].items():
        rows = [
            [f"cluster {s + 1}", *map(str, row), "", *map(str, theirs)]
            for s, (row, theirs) in enumerate(zip(ranks, paper.RANKS[name], strict=True))
        ]
        count = len(ranks)
        header = [f"Table 3, ranks, {name}", *map(str, range(1, count + 1)), "", "paper's"]
        tables.append(common.table([*header, *[""] * (count - 1)], rows))
    return "\n\n".join(tables)
