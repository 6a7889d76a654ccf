"""EigenPro and the normal equations, as plainly as they can be stated.

Nothing here imports streamk; a kernel is a function of two matrices of points. Algorithms,
equations and lemmas are those of Abedsoltan, Belkin and Pandit, "Toward large kernel models", 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

Gram = Callable[[np.ndarray, np.ndarray], np.ndarray]


def top(K, q: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The q largest eigenvalues and their vectors, and the next eigenvalue (Definition 1)."""
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1], vectors[:, ::-1]
    return values[:q], vectors[:, :q], values[q]


def correction(k: Gram, S, q: int, X, g) -> np.ndarray:
    """Q_s K(S, X) g: P{k(., X) g} is k(., X) g - k(., S) times this (Lemma 5, equation 30)."""
    values, E, following = top(k(S, S), q)
    return E @ np.diag((1 - following / values) / values) @ E.T @ k(S, X) @ g


def preconditioned(k: Gram, S, q: int) -> Gram:
    """The kernel k_P(x, x') = P{k(., x)}(x')."""
    values, E, following = top(k(S, S), q)
    Q = E @ np.diag((1 - following / values) / values) @ E.T
    return lambda X, Y: k(X, Y) - k(X, S) @ Q @ k(S, Y)


def step_size(k: Gram, S, q: int, X) -> float:
    """The step for the sum of the gradients of a batch X."""
    of_p, m = preconditioned(k, S, q), len(X)
    norm = np.diag(of_p(S, S)).max()
    tail = top(k(S, S), q)[2]
    largest = np.linalg.eigvalsh(of_p(X, X))[-1]
    return 1 / max(norm + (m - 1) * tail / len(S), largest)


Batches = Iterable[tuple[np.ndarray, np.ndarray]]


def eigenpro3(k: Gram, batches: Batches, Z, sample, q: int, every: int) -> list[np.ndarray]:
    """Algorithm 2 with exact projection after so many batches, whose points are centers till then.

    The preconditioner is of the centers Z[sample]. Returns the coefficients of each projection.
    """
    a, S = None, Z[sample]
    X_t, a_t = np.zeros((0, Z.shape[1])), None
    found = []
    for number, (X, y) in enumerate(batches):
        if a is None:
            a, a_t = np.zeros((len(Z), y.shape[1])), np.zeros((0, y.shape[1]))
        g = k(X, Z) @ a + k(X, X_t) @ a_t - y
        step = step_size(k, S, q, X)
        a[sample] += step * correction(k, S, q, X, g)
        X_t, a_t = np.vstack([X_t, X]), np.vstack([a_t, -step * g])
        if (number + 1) % every == 0:
            a = a + np.linalg.solve(k(Z, Z), k(Z, X_t) @ a_t)
            X_t, a_t = X_t[:0], a_t[:0]
            found.append(a.copy())
    return found


def eigenpro2(k: Gram, X, y, sample, q: int, orders, m: int) -> np.ndarray:
    """Algorithm 3: coefficients for K(X, X) a = y after an epoch in each of some orders."""
    a, S = np.zeros_like(y), X[sample]
    for order in orders:
        for at in range(0, len(X), m):
            rows = order[at : at + m]
            g = k(X[rows], X) @ a - y[rows]
            step = step_size(k, S, q, X[rows])
            a[rows] -= step * g
            a[sample] += step * correction(k, S, q, X[rows], g)
    return a


def ridge_regression(k: Gram, Z, X, T, constant, ridge: float, forgetting: float) -> np.ndarray:
    """Coefficients of least squares on centers, where an event counts less for each one after."""
    w = np.diag(forgetting ** np.arange(len(X) - 1, -1, -1.0))
    G = k(Z, X) @ w @ k(X, Z) + ridge * k(Z, Z)
    return np.linalg.solve(G, k(Z, X) @ w @ (T - constant))
