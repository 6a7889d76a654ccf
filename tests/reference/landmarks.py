"""The oracles of landmarks: every algorithm as plainly as its paper states it.

Nothing here imports streamk. Whole matrices, inverses anew at each step, one column after the
other: speed and memory are no concern, what is written here is meant to be checked by reading.

oASIS: Patel et al., "oASIS: Adaptive column sampling for kernel matrix approximation", whose
sections the names below carry. Randomly pivoted Cholesky: Chen, Epperly, Tropp, Webber, "Randomly
pivoted Cholesky" (2022), and with rejection Epperly, Tropp, Webber, "Embrace rejection" (2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from . import naive

# --- matrices -------------------------------------------------------------------------------


def kernel_matrix(k: naive.Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Between the rows of X and of Y; `naive.kernel` has the same formulas for one pair."""
    delta = np.asarray(X, dtype=float)[:, None, :] - np.asarray(Y, dtype=float)[None, :, :]
    squared = (delta**2).sum(axis=2)
    if k.name == "gaussian":
        return np.exp(-squared / (2.0 * k.scale**2))
    if k.name == "laplacian":
        return np.exp(-abs(delta).sum(axis=2) / k.scale)
    if k.name == "power_exponential":
        return np.exp(-np.sqrt(abs(delta) / k.scale).sum(axis=2))
    if k.name == "linear":
        return np.asarray(X, dtype=float) @ np.asarray(Y, dtype=float).T
    if k.name == "cauchy":
        return (1.0 / (1.0 + (delta / k.scale) ** 2)).prod(axis=2)
    if k.name == "rational_quadratic":
        return (1.0 + squared / (2.0 * k.nu * k.scale**2)) ** -k.nu
    if k.name == "ntk":
        return np.array([[naive.kernel(k, x, y) for y in Y] for x in X]).reshape(len(X), len(Y))
    assert k.name == "matern"
    r = math.sqrt(2.0 * k.nu) * np.sqrt(squared) / k.scale
    if k.nu == 0.5:
        return np.exp(-r)
    if k.nu == 1.5:
        return (1.0 + r) * np.exp(-r)
    assert k.nu == 2.5
    return (1.0 + r + r**2 / 3.0) * np.exp(-r)


def diffusion_matrix(N: np.ndarray) -> np.ndarray:
    """D^-1/2 N D^-1/2 (section V-A), where the diagonal matrix D holds the row sums of N."""
    root = np.diag(1.0 / np.sqrt(N.sum(axis=1)))
    return root @ N @ root


def diffusion_rows(k: naive.Kernel, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Entries of new points Y against the points X that D was summed over."""
    of_X = kernel_matrix(k, X, X).sum(axis=1)
    N = kernel_matrix(k, Y, X)
    return N / np.sqrt(np.outer(N.sum(axis=1), of_X))


# --- approximations -------------------------------------------------------------------------


def nystrom(G: np.ndarray, indices: Sequence[int]) -> np.ndarray:
    """C W^+ C' (equation 2)."""
    C = G[:, list(indices)]
    return C @ np.linalg.pinv(C[list(indices)], rcond=1e-13, hermitian=True) @ C.T


def relative_error(approximation: np.ndarray, G: np.ndarray) -> float:
    """In the Frobenius norm (section V-B)."""
    return float(np.linalg.norm(approximation - G) / np.linalg.norm(G))


def schur_complement(G: np.ndarray, earlier: Sequence[int], i: int) -> float:
    """What column i adds to the span of the earlier ones (equation 4)."""
    b, W = G[list(earlier), i], G[np.ix_(list(earlier), list(earlier))]
    return float(G[i, i] - b @ np.linalg.solve(W, b))


# --- oASIS ----------------------------------------------------------------------------------


class Selection(NamedTuple):
    """Columns in the order of their selection; `deltas[t]` is what step t chose from."""

    indices: list[int]
    schur: list[float]  # of each column when it was selected, given those before it
    deltas: list[np.ndarray]  # one vector a step, of all columns; the start is no step
    C: np.ndarray
    W_inverse: np.ndarray


def largest(delta: np.ndarray, taken: Sequence[int]) -> int:
    """The column not taken with the largest |delta|, the lowest index in a tie."""
    size = abs(delta)
    size[list(taken)] = -1.0
    return int(np.argmax(size))  # the first of equals


def oasis(
    G: np.ndarray,
    count: int,
    start: Sequence[int],
    tol: float = 0.0,
    choose: Callable[[np.ndarray, Sequence[int]], int] = largest,
) -> Selection:
    """Algorithm 1, with the paper's own updates of W^-1 and of R = W^-1 C'.

    Another `choose` follows another program's choices, to see what they were made from.
    """
    d = np.diag(G)
    chosen = list(start)
    schur = [schur_complement(G, chosen[:t], i) for t, i in enumerate(chosen)]
    deltas = []
    C = G[:, chosen]
    W_inverse = np.linalg.inv(C[chosen])
    R = W_inverse @ C.T
    while len(chosen) < min(count, len(G)):
        delta = d - (C.T * R).sum(axis=0)
        i = choose(delta, chosen)
        if abs(delta[i]) < tol:
            break
        s, q, c = 1.0 / delta[i], R[:, [i]], G[:, [i]]
        W_inverse = np.block([[W_inverse + s * q @ q.T, -s * q], [-s * q.T, s]])  # equation 5
        rest = q.T @ C.T - c.T
        R = np.vstack([R + s * q @ rest, -s * rest])  # equation 6
        C = np.hstack([C, c])
        chosen.append(i)
        schur.append(float(delta[i]))
        deltas.append(delta)
    return Selection(chosen, schur, deltas, C, W_inverse)


def decided(selection: Selection, largest_diagonal: float) -> int:
    """How many leading columns any correct program must choose alike.

    Up to the first step whose two largest Schur complements are closer than 1e-10 of the largest
    diagonal entry: there rounding chooses.
    """
    start = len(selection.indices) - len(selection.deltas)
    for step, delta in enumerate(selection.deltas):
        taken = selection.indices[: start + step]
        free = np.sort(abs(np.delete(delta, taken)))
        if len(free) > 1 and free[-1] - free[-2] < 1e-10 * largest_diagonal:
            return start + step
    return len(selection.indices)


# --- rivals ---------------------------------------------------------------------------------


def leverage_scores(G: np.ndarray, k: int) -> np.ndarray:
    """|U_k(j, :)|^2 of the rank-k eigendecomposition (section II-D2)."""
    _, U = np.linalg.eigh(G)  # eigenvalues ascend
    return (U[:, -k:] ** 2).sum(axis=1)


def without(E: np.ndarray, i: int) -> np.ndarray:
    """The residual E after column i: E - E_:i E_i: / E_ii."""
    return E - np.outer(E[:, i], E[i]) / E[i, i]


def farahat(G: np.ndarray, count: int) -> tuple[list[int], list[float]]:
    """The column whose removal from the residual lowers its norm most (section II-D3).

    That is the largest |E_:i|^2 / E_ii; the indices and these values at each step.
    """
    E, chosen, gains = G.astype(float), [], []
    for _ in range(count):
        free = [i for i in range(len(G)) if i not in chosen]
        gain = {i: float(E[:, i] @ E[:, i] / E[i, i]) if E[i, i] > 0.0 else 0.0 for i in free}
        i = max(free, key=lambda i: (gain[i], -i))
        chosen.append(i)
        gains.append(gain[i])
        E = without(E, i)
    return chosen, gains


def proportional(weights: np.ndarray, u: float) -> int:
    """The index whose share of the weights holds u of [0, 1): a draw proportional to them."""
    total, mark = 0.0, u * math.fsum(weights)
    for i, weight in enumerate(weights):
        total += float(weight)
        if mark < total:
            return i
    return int(np.flatnonzero(weights)[-1])  # rounding of the sum


def rpcholesky(G: np.ndarray, count: int, uniforms: Iterator[float]) -> list[int]:
    """Randomly pivoted Cholesky: each column drawn in proportion to the residual's diagonal."""
    E, chosen = G.astype(float), []
    for _ in range(count):
        weights = np.maximum(np.diag(E), 0.0)
        weights[chosen] = 0.0
        i = proportional(weights, next(uniforms))
        chosen.append(i)
        E = without(E, i)
    return chosen


# --- landmarks on a stream ------------------------------------------------------------------


class Incremental:
    """One event after the other, the inverse of W anew for each.

    `events_idle` counts for each landmark the events since it was the one most leaned on, or since
    it was admitted.
    """

    def __init__(
        self,
        k: Callable[[np.ndarray, np.ndarray], np.ndarray],
        max_landmarks: int,
        tol: float = 1e-3,
        half_life: float | None = None,
        margin: float = 0.0,
    ) -> None:
        """`k` gives the kernel matrix between the rows of two sets of points."""
        self.k, self.max_landmarks, self.tol = k, max_landmarks, tol
        self.half_life, self.margin = half_life, margin
        self.points: list[np.ndarray] = []
        self.events_idle: list[int] = []

    def gram(self, points: list[np.ndarray]) -> np.ndarray:
        return self.k(np.array(points), np.array(points))

    def schur(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Delta of x and q = W^-1 k, the combination of landmarks that comes nearest to x."""
        itself = float(self.k(x[None], x[None])[0, 0])
        if not self.points:
            return itself, np.zeros(0)
        column = self.k(np.array(self.points), x[None])[:, 0]
        q = np.linalg.solve(self.gram(self.points), column)
        return itself - float(column @ q), q

    def removal_costs(self, points: list[np.ndarray]) -> np.ndarray:
        """The Schur complement of each point given all the others."""
        return 1.0 / np.diag(np.linalg.inv(self.gram(points)))

    def learn_one(self, x: np.ndarray) -> list[tuple[str, int]]:
        """("admission", position) and ("removal", position), in their order."""
        delta, q = self.schur(x)
        if self.points:
            self.events_idle = [idle + 1 for idle in self.events_idle]
            self.events_idle[int(np.argmax(abs(q)))] = 0
        if not delta > self.tol:
            return []
        changes = [("admission", len(self.points))]
        if len(self.points) == self.max_landmarks:
            claims = self.removal_costs([*self.points, x])[:-1]
            if self.half_life is not None:
                claims = claims * 0.5 ** (np.array(self.events_idle) / self.half_life)
            j = int(np.argmin(claims))
            if not delta > (1.0 + self.margin) * claims[j]:
                return []
            changes.append(("removal", j))
        for change, j in changes:
            if change == "admission":
                self.points.append(x)
                self.events_idle.append(0)
            else:
                del self.points[j], self.events_idle[j]
        return changes


def projected(W: np.ndarray, a: np.ndarray, j: int) -> np.ndarray:
    """Coefficients of f = sum_i a_i k(z_i, .) when landmark j is removed.

    The nearest function of the span of the others, in the norm of the RKHS.
    """
    rest = [i for i in range(len(W)) if i != j]
    return a[rest] + np.linalg.solve(W[np.ix_(rest, rest)], W[rest, j]) * a[j]


# --- data -----------------------------------------------------------------------------------


def two_moons(n: int, rng: np.random.Generator, noise: float = 0.05) -> np.ndarray:
    """Two interlocking half circles of radius 1 in the plane, half of the points on each."""
    half = n // 2
    upper, lower = math.pi * rng.random(half), math.pi * rng.random(n - half)
    X = np.vstack(
        [
            np.column_stack([np.cos(upper), np.sin(upper)]),
            np.column_stack([1.0 - np.cos(lower), 0.5 - np.sin(lower)]),
        ]
    )
    return X + noise * rng.normal(size=X.shape)


def borg(
    dimension: int, per_vertex: int, rng: np.random.Generator, variance: float = 0.1
) -> np.ndarray:
    """Gaussian clouds N(v, variance I) around each vertex v of the unit cube (section V-B)."""
    vertices = [[(v >> bit) & 1 for bit in range(dimension)] for v in range(2**dimension)]
    centers = np.repeat(np.array(vertices, dtype=float), per_vertex, axis=0)
    return centers + math.sqrt(variance) * rng.normal(size=centers.shape)


def largest_distance(X: np.ndarray) -> float:
    """Between any two rows; the paper's sigma is a share of it."""
    return max(float(np.sqrt(((X - x) ** 2).sum(axis=1)).max()) for x in X)
