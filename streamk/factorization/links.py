"""Links between clusters by least squares on sampled rows (§5.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamk.kernels import Kernel

Numbers = NDArray[np.float64]

SAMPLINGS = ("leverage", "uniform")

_CUT = 1e-6
"""Singular values of the sampled rows below this part of the largest one are left out."""
_SOUND, _MORE = 0.4, 1.5
"""Least singular value of weighted rows that see all directions of an orthonormal basis (it is 1 of
all rows, and about .5 of four times as many rows as directions), and by how much more rows are
drawn where it is less."""
_ROUNDS = 30
"""Of spreading probabilities over rows that are not certain yet; a few are enough."""


@dataclass(frozen=True)
class Sample:
    """Some rows of a cluster, and what solves for coordinates from them."""

    points: Numbers
    """(q, d)"""
    inverse: Numbers
    """Pseudo-inverse of the (weighted) rows of W(s), times the weights, (rank, q)."""


def sample(
    X: Numbers, W: Numbers, sampling: str, count: int, random: np.random.Generator
) -> Sample:
    """Draw `count` rows of a cluster of points X (n, d) with the basis W (n, rank), or all.

    By leverage more are drawn, half as many again each time, until they see all directions of the
    basis: else the least squares might say anything about one that they miss.
    """
    while True:
        rows, weights = _drawn(W, sampling, count, random)
        U, values, V = np.linalg.svd(W[rows] * weights[:, None], full_matrices=False)
        if sampling == "uniform" or len(rows) == len(X) or values[-1] >= _SOUND:
            break
        count = math.ceil(_MORE * count)
    kept = values > _CUT * values[0]
    inverse = (V[kept].T / values[kept]) @ U[:, kept].T * weights
    return Sample(X[rows], inverse)


def _drawn(
    W: Numbers, sampling: str, count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], Numbers]:
    """Return rows and their weights."""
    if count >= len(W):
        return np.arange(len(W)), np.ones(len(W))
    if sampling == "uniform":
        return np.sort(random.choice(len(W), count, replace=False)), np.ones(count)
    return by_leverage(W, count, random)


def by_leverage(
    W: Numbers, count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], Numbers]:
    """Draw rows by their leverage scores, half of the probability spread over all rows.

    Uniformly drawn rows may miss a direction that few points have, and the least squares then say
    anything about it. The half that is spread bounds the weights. It is a systematic sample in
    random order, so that each row comes at most once, with its probability.
    """
    scores = np.einsum("ik,ik->i", W, W)
    p = 0.5 * scores / scores.sum() + 0.5 / len(W)
    chance = np.minimum(1.0, count * p)
    for _ in range(_ROUNDS):
        free = chance < 1.0
        left = count - np.count_nonzero(~free)
        chance[free] = np.minimum(1.0, left * p[free] / p[free].sum())
        if np.count_nonzero(chance < 1.0) == np.count_nonzero(free):
            break
    order = random.permutation(len(W))
    edges = np.cumsum(chance[order])
    marks = random.random() + np.arange(count)
    rows = np.sort(order[np.unique(np.searchsorted(edges, marks[marks < edges[-1]], "right"))])
    return rows, 1.0 / np.sqrt(chance[rows])


def link(one: Sample, other: Sample, kernel: Kernel) -> Numbers:
    """Return L(s, t), (rank of s, rank of t): the least squares solution on the sampled block."""
    G = kernel.pairwise(one.points, other.points)
    L: Numbers = one.inverse @ G @ other.inverse.T
    return L
