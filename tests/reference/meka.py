"""The oracles of MEKA: the paper's formulas as plainly as it states them.

Nothing here imports streamk. Whole matrices, dense inverses and eigendecompositions: speed and
memory are no concern, what is written here is meant to be checked by reading. What the paper draws
at random is handed over: labels, sampled columns, sampled rows.

Si, Hsieh, Dhillon, "Memory efficient kernel approximation" (JMLR 2017), whose sections and
equations the names below carry. Rivals: Li, Kwok, Lu, "Making large-scale Nyström approximation
possible" (2010); Kumar, Mohri, Talwalkar, "Ensemble Nyström method" (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The kernel matrix between the rows of two sets of points."""

CUTOFF = 1e-13
"""Eigenvalue, relative to the largest, that is nothing but rounding."""


# --- matrices -------------------------------------------------------------------------------


def pseudo_inverse(M: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(M, rcond=CUTOFF, hermitian=True)


def leading(M: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues, which descend, and their vectors; none that is rounding."""
    values, vectors = np.linalg.eigh(M)
    order = np.argsort(-values)[:rank]
    order = order[values[order] > CUTOFF * values.max()]
    return values[order], vectors[:, order]


def relative_error(approximation: np.ndarray, G: np.ndarray) -> float:
    """|G~ - G|_F / |G|_F (section 6.1)."""
    return float(np.linalg.norm(approximation - G) / np.linalg.norm(G))


def rows_of(labels: Sequence[int]) -> list[np.ndarray]:
    """The points of each cluster, ascending."""
    each = np.asarray(labels)
    return [np.flatnonzero(each == s) for s in range(int(each.max()) + 1)]


def nearest(X: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """The cluster of each point."""
    return ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)


# --- block kernel approximation (section 4.1) -----------------------------------------------


def block_kernel(G: np.ndarray, labels: Sequence[int]) -> np.ndarray:
    """Blocks within clusters are exact, all others 0."""
    each = np.asarray(labels)
    return np.where(each[:, None] == each[None, :], G, 0.0)


def within(G: np.ndarray, labels: Sequence[int]) -> float:
    """D, the sum of squared entries within clusters: |G~ - G|_F^2 = |G|_F^2 - D."""
    return sum(float((G[np.ix_(rows, rows)] ** 2).sum()) for rows in rows_of(labels))


# --- a basis of one block -------------------------------------------------------------------


class Basis(NamedTuple):
    """G~ = W L W' of one diagonal block, where W = C T for the columns C at its landmarks."""

    W: np.ndarray
    L: np.ndarray
    T: np.ndarray


def nystrom(C: np.ndarray, M: np.ndarray, rank: int) -> Basis:
    """C M_k^+ C' (equation 1), where M_k is the best approximation of M of that rank."""
    values, U = leading(M, rank)
    T = U / np.sqrt(values)
    return Basis(C @ T, np.eye(len(values)), T)


def truncated_nystrom(C: np.ndarray, M: np.ndarray, rank: int) -> Basis:
    """The best approximation of C M^+ C' of that rank, with a W of orthonormal columns.

    Equation 1 truncates M, before the columns are seen; this truncates what they span.
    """
    values, W = leading(C @ pseudo_inverse(M) @ C.T, rank)
    T = pseudo_inverse(M) @ C.T @ W / values
    return Basis(W, np.diag(values), T)


def row_basis(C: np.ndarray, stands_for: Sequence[float], own: np.ndarray, rank: int) -> Basis:
    """The leading left singular vectors of columns of the whole block row (section 7.2).

    `stands_for` says how many points of the block row each column stands for, and `own` is the
    Nyström approximation of the diagonal block, of which these vectors keep a part.
    """
    D = np.diag(np.asarray(stands_for))
    values, W = leading(C @ D @ C.T, rank)
    return Basis(W, W.T @ own @ W, D @ C.T @ W / values)


def ensemble_nystrom(G: np.ndarray, samples: Sequence[Sequence[int]], rank: int) -> np.ndarray:
    """ENys (Kumar et al.): the mean of what each expert makes of columns of its own, 3 of them."""
    total = np.zeros_like(G)
    for columns in samples:
        C = G[:, list(columns)]
        W = nystrom(C, C[list(columns)], rank).W
        total += W @ W.T
    return total / len(samples)


# --- MEKA (section 5.2) ---------------------------------------------------------------------


class Meka(NamedTuple):
    """G~ = W L W' (equation 13); `L` lacks the blocks that are 0."""

    rows: list[np.ndarray]
    bases: list[Basis]
    L: dict[tuple[int, int], np.ndarray]


Samples = tuple[Sequence[int], Sequence[int]]
"""v_s and v_t: rows of W_s and of W_t, counted within their clusters."""


def least_squares(
    G: np.ndarray,
    W_s: np.ndarray,
    W_t: np.ndarray,
    weights_s: Sequence[float] | None = None,
    weights_t: Sequence[float] | None = None,
) -> np.ndarray:
    """L that minimizes |G - W_s L W_t'|_F, by the paper's closed form.

    With weights it minimizes the sum of w_i w_j (G - W_s L W_t')_ij^2. A diagonal matrix of them
    stands between the factors of each Gram matrix.
    """
    D_s = np.eye(len(W_s)) if weights_s is None else np.diag(np.asarray(weights_s))
    D_t = np.eye(len(W_t)) if weights_t is None else np.diag(np.asarray(weights_t))
    left = np.linalg.inv(W_s.T @ D_s @ W_s) @ W_s.T @ D_s
    right = D_t @ W_t @ np.linalg.inv(W_t.T @ D_t @ W_t)
    return left @ G @ right


def chances(W: np.ndarray, count: int) -> np.ndarray:
    """Of rows to be among `count` samples that are drawn by their leverage scores: not the paper's.

    Half of the probability goes by |W_i|^2 and half to all alike, times what makes the sum of the
    chances `count` where none is more than 1.
    """
    scores = (W**2).sum(axis=1)
    p = 0.5 * scores / scores.sum() + 0.5 / len(W)
    low, high = 0.0, count / p.min()
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.minimum(1.0, middle * p).sum() < count:
            low = middle
        else:
            high = middle
    return np.minimum(1.0, high * p)


def linked(kernel: Kernel, centers: np.ndarray, threshold: float) -> np.ndarray:
    """Which blocks there are: L(s,t) = 0 where k(m_s, m_t) <= threshold; never the diagonal."""
    return (kernel(centers, centers) > threshold) | np.eye(len(centers), dtype=bool)


def meka(
    G: np.ndarray,
    rows: list[np.ndarray],
    bases: list[Basis],
    samples: Mapping[tuple[int, int], Samples],
    weights: Mapping[tuple[int, int], Samples] | None = None,
) -> Meka:
    """Algorithm 1; blocks without samples are 0 (thresholding)."""
    L = {(s, s): basis.L for s, basis in enumerate(bases)}
    for (s, t), (v_s, v_t) in samples.items():
        block = G[np.ix_(rows[s], rows[t])]
        some = block[np.ix_(list(v_s), list(v_t))]
        W_s, W_t = bases[s].W[list(v_s)], bases[t].W[list(v_t)]
        L[s, t] = least_squares(some, W_s, W_t, *(weights[s, t] if weights else (None, None)))
    return Meka(rows, bases, L)


def full_links(G: np.ndarray, rows: list[np.ndarray], bases: list[Basis]) -> Meka:
    """L = W' G W, for W of orthonormal columns (section 7.1): every entry is a sample."""
    pairs = [(s, t) for s in range(len(rows)) for t in range(len(rows))]
    blocks = {(s, t): G[np.ix_(rows[s], rows[t])] for s, t in pairs}
    return Meka(rows, bases, {(s, t): bases[s].W.T @ blocks[s, t] @ bases[t].W for s, t in pairs})


def block_diagonal(m: Meka) -> np.ndarray:
    """W (n, sum of ranks), its rows in the order of the points."""
    ranks = [basis.W.shape[1] for basis in m.bases]
    W = np.zeros((sum(map(len, m.rows)), sum(ranks)))
    for s, (rows, basis) in enumerate(zip(m.rows, m.bases, strict=True)):
        W[rows, sum(ranks[:s]) : sum(ranks[: s + 1])] = basis.W
    return W


def link_matrix(m: Meka) -> np.ndarray:
    """L (sum of ranks, sum of ranks)."""
    ranks = [basis.W.shape[1] for basis in m.bases]
    zeros = [[np.zeros((i, j)) for j in ranks] for i in ranks]
    for (s, t), block in m.L.items():
        zeros[s][t] = block
    return np.block(zeros)


def approximation(m: Meka) -> np.ndarray:
    W = block_diagonal(m)
    return W @ link_matrix(m) @ W.T


def nbytes(sizes: Sequence[int], ranks: Sequence[int], links: np.ndarray, itemsize: int) -> int:
    """Of W and L, whose blocks (s,t) and (t,s) are kept once."""
    W = sum(n * k for n, k in zip(sizes, ranks, strict=True))
    pairs = [(s, t) for s in range(len(ranks)) for t in range(s, len(ranks)) if links[s, t]]
    return itemsize * (W + sum(ranks[s] * ranks[t] for s, t in pairs))


# --- ranks of the clusters (section 5.2) ----------------------------------------------------


def same_ranks(sizes: Sequence[int], rank: int) -> list[int]:
    """(i) k for all; a block has no more than its size."""
    return [min(rank, n) for n in sizes]


def ranks_by_size(sizes: Sequence[int], rank: int) -> list[float]:
    """(ii) Shares of c k in proportion to the sizes, before they are rounded."""
    return [len(sizes) * rank * n / sum(sizes) for n in sizes]


def ranks_by_spectrum(M: Sequence[np.ndarray], rank: int) -> list[int]:
    """(iii) How many of the largest c k eigenvalues of the block-diagonal M each block has."""
    values = [(value, s) for s, block in enumerate(M) for value in np.linalg.eigvalsh(block)]
    largest = sorted(values, reverse=True)[: len(M) * rank]
    return [sum(s == t for _, t in largest) for s in range(len(M))]


# --- positive semidefinite (section 7.1) ----------------------------------------------------


def clipped(L: np.ndarray) -> np.ndarray:
    """MEKA-PSD: L with its negative eigenvalues set to 0."""
    values, U = np.linalg.eigh(L)
    return U @ np.diag(np.maximum(values, 0.0)) @ U.T


def root(L: np.ndarray) -> np.ndarray:
    """The symmetric R with R R = the clipped L."""
    values, U = np.linalg.eigh(L)
    return U @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ U.T


def diagonal_shift(G: np.ndarray) -> float:
    """The least that makes G semidefinite when it is added to the diagonal."""
    return max(0.0, -float(np.linalg.eigvalsh(G).min()))


# --- what it is for (sections 6.3 and 7.3) --------------------------------------------------


def woodbury(W: np.ndarray, L: np.ndarray, lam: float) -> np.ndarray:
    """(lam I + W L W')^-1.

    The printed form needs the inverse of L, which clipping takes away; this one does not.
    """
    inner = np.linalg.inv(lam * np.eye(len(L)) + L @ W.T @ W)
    return (np.eye(len(W)) - W @ inner @ L @ W.T) / lam


def ridge(G: np.ndarray, lam: float, y: np.ndarray) -> np.ndarray:
    """alpha where lam alpha' alpha + alpha' G alpha - 2 alpha' y is least (equation 19)."""
    return np.linalg.solve(lam * np.eye(len(G)) + G, y)


def eigh(G: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues of largest magnitude, which descend in it, and their vectors."""
    values, vectors = np.linalg.eigh(G)
    order = np.argsort(-abs(values), kind="stable")[:count]
    return values[order], vectors[:, order]


# --- points never seen ----------------------------------------------------------------------


def coordinates(
    kernel: Kernel,
    x: np.ndarray,
    centers: np.ndarray,
    landmarks: Sequence[np.ndarray],
    T: Sequence[np.ndarray],
) -> np.ndarray:
    """w(x) = T_s' k(Z_s, x) of the nearest cluster s, at its place among the sum of the ranks."""
    s = int(nearest(x[None], centers)[0])
    ranks = [block.shape[1] for block in T]
    w = np.zeros(sum(ranks))
    w[sum(ranks[:s]) : sum(ranks[: s + 1])] = T[s].T @ kernel(landmarks[s], x[None])[:, 0]
    return w


def predict(w: np.ndarray, L: np.ndarray, W: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """The approximate kernel values between x and the points, times their coefficients."""
    return w @ L @ W.T @ alpha
