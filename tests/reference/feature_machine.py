"""Recursive feature machines, as plainly as their paper states them.

Radhakrishnan, Beaglehole, Pandit and Belkin, "Mechanism for feature learning in neural networks and
backpropagation-free machine learning models" (Science 2024): kernel ridge regression with the
kernel ``k(|x - z|_M)``, ``|t|_M = sqrt(t' M t)``; the average gradient outer product (AGOP) of what
it found, ``mean of sum over outputs of grad f grad f'``, is the next M. Nothing here imports
streamk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from . import naive

Function = Callable[[np.ndarray], np.ndarray]
"""Outputs (c,) at a point (d,)."""


def root(M) -> np.ndarray:
    """A symmetric matrix whose square is M."""
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def kernel(k: naive.Kernel, M, x, z) -> float:
    """The kernel between points whose difference is measured by the metric M (d, d)."""
    return naive.kernel(k, root(M) @ np.asarray(x), root(M) @ np.asarray(z))


def expansion(k: naive.Kernel, M, Z, A) -> Function:
    """``f(x) = sum_j k(x, z_j) a_j`` of centers Z (p, d) and coefficients A (p, c)."""

    def f(x) -> np.ndarray:
        found = np.zeros(A.shape[1])
        for z, a in zip(Z, A, strict=True):
            found += kernel(k, M, x, z) * a
        return found

    return f


def differences(f: Function, x, step: float = 1e-6) -> np.ndarray:
    """The gradient of each output at x by central differences, (c, d)."""
    columns = []
    for j in range(len(x)):
        e = np.zeros(len(x))
        e[j] = step
        columns.append((f(x + e) - f(x - e)) / (2.0 * step))
    return np.array(columns).T


NEAR = 0.01
"""Of a column's deviation, by which slopes of the power exponential kernel are smoothed."""


def slope(k: naive.Kernel, x, z, near=None) -> np.ndarray:
    """The gradient of ``k(x, z)`` with respect to x, (d,), 0 where there is none.

    That of the power exponential kernel has no bound near ``x_j = z_j``: for the derivative of
    ``sqrt(|t|)`` stands that of ``(t^2 + h^2)^(1/4)``, h = `near` of the column, by default 0.
    """
    t = [float(a) - float(b) for a, b in zip(x, z, strict=True)]
    value, L = naive.kernel(k, x, z), k.scale
    if k.name == "laplacian":
        return np.array([-value * np.sign(u) / L for u in t])
    if k.name == "power_exponential":
        of_root = []
        for u, h in zip(t, [0.0] * len(t) if near is None else near, strict=True):
            fourth_power = u * u + float(h) ** 2
            of_root.append(0.5 * u / fourth_power**0.75 if u else 0.0)
        return np.array([-value * s / math.sqrt(L) for s in of_root])
    if k.name == "cauchy":
        return np.array([-value * 2.0 * u / (L * L + u * u) for u in t])
    r = math.sqrt(sum(u * u for u in t)) / L
    if k.name == "gaussian":
        of_distance = -r * value
    elif k.name == "rational_quadratic":
        of_distance = -r * (1.0 + r * r / (2.0 * k.nu)) ** (-k.nu - 1.0)
    elif k.nu == 0.5:
        of_distance = -value
    elif k.nu == 1.5:
        of_distance = -3.0 * r * math.exp(-math.sqrt(3.0) * r)
    else:
        root5 = math.sqrt(5.0)
        of_distance = -5.0 / 3.0 * r * (1.0 + root5 * r) * math.exp(-root5 * r)
    return np.array([of_distance * u / (r * L * L) if r > 0.0 else 0.0 for u in t])


def gradient(k: naive.Kernel, M, Z, A, x, part: float = NEAR) -> np.ndarray:
    """The gradient of each output of the expansion at x, (c, d): chain rule through root(M).

    Slopes are smoothed by this part of the deviation of each column of the centers, mapped.
    """
    R, found = root(M), np.zeros((A.shape[1], len(x)))
    near = part * (np.asarray(Z) @ R).std(axis=0)
    for z, a in zip(Z, A, strict=True):
        found += np.outer(a, R @ slope(k, R @ x, R @ z, near))
    return found


def agop(gradients: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over events of the outer products of gradients (c, d), summed over outputs: (d, d)."""
    d = gradients[0].shape[1]
    G = np.zeros((d, d))
    for of_event in gradients:
        for g in of_event:
            G += np.outer(g, g)
    return G / len(gradients)


def scaled(k: naive.Kernel, G, C) -> np.ndarray:
    """The multiple of G in which events of covariance C are as far apart as by the identity.

    That is the root of the mean square; of the Laplacian the mean of ``sum_j sqrt(M_jj) |t_j|``,
    and of the power exponential kernel that of ``sum_j sqrt(sqrt(M_jj) |t_j|)``, for which
    deviations of columns stand.
    """
    deviations = np.sqrt(np.diag(C))
    if k.name == "laplacian":
        return G * (deviations.sum() / (np.sqrt(np.diag(G)) @ deviations)) ** 2
    if k.name == "power_exponential":
        roots = np.sqrt(deviations)
        return G * (roots.sum() / (np.diag(G) ** 0.25 @ roots)) ** 4
    return G * np.trace(C) / np.trace(G @ C)


def rounds(
    k: naive.Kernel,
    X,
    Y,
    ridges: Sequence[float],
    *,
    diagonal: bool,
    part: float = NEAR,
):
    """Coefficients (p, c) and metric (d, d) of each round; that of round 0 is I.

    Products over the columns, such as the Laplacian, whose distance is
    ``sum_j sqrt(M_jj) |x_j - z_j|``, have diagonal metrics.
    """
    M, found = np.eye(X.shape[1]), []
    for ridge in ridges:
        K = np.array([[kernel(k, M, x, z) for z in X] for x in X])
        A = np.linalg.solve(K + ridge * np.eye(len(X)), Y - Y.mean(axis=0))
        found.append((A, M))
        G = agop([gradient(k, M, X, A, x, part) for x in X])
        G = np.diag(np.diag(G)) if diagonal else G
        M = scaled(k, G, np.cov(X.T, bias=True))
    return found


def left_out(k: naive.Kernel, ridge: float, X, y, parts: int) -> np.ndarray:
    """What each event (n, d) is predicted by kernel ridge regression on the other parts' events."""
    X, y, found = np.asarray(X), np.asarray(y), np.empty(len(y))
    for part in np.array_split(np.arange(len(y)), parts):
        rest = [i for i in range(len(y)) if i not in part]
        K = np.array([[naive.kernel(k, X[i], X[j]) for j in rest] for i in rest])
        a = np.linalg.solve(K + ridge * np.eye(len(rest)), y[rest] - y[rest].mean())
        for i in part:
            own = [naive.kernel(k, X[i], X[j]) for j in rest]
            found[i] = y[rest].mean() + np.dot(own, a)
    return found


def leaf(directions, thresholds, children, x, at: int = 0) -> int:
    """The leaf of a point, from a split on: to the right where its product is above the threshold.

    A child is another split, or ``-1 - leaf``.
    """
    if not len(thresholds):
        return 0
    right = (
        sum(float(v) * float(u) for v, u in zip(directions[at], x, strict=True)) > thresholds[at]
    )
    child = children[at][int(right)]
    return -1 - child if child < 0 else leaf(directions, thresholds, children, x, child)
