"""Coordinates in the span of landmarks, and which events are worth a place among them.

Each unknown of a triangular system is what remains of its right-hand side after the terms of the
unknowns before it, added up one after the other in their order, so that a row's bits are its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends.incremental import ADMIT, KEEP, LONGEST, KernelNumbers, Rule, Span
from streamk.backends.numpy_backend.pairwise import pairwise

Array = NDArray[Any]

_AHEAD = 32
"""Events looked at together."""


def laid(points: Array) -> Array:
    """Return the landmarks as they are."""
    return points


def coordinates(kernel: KernelNumbers, span: Span, X: Array, Phi: Array, schur: Array) -> None:
    """Write ``L^-1 k(points, x)`` of the rows of `X`, and their Schur complements."""
    pairwise(*kernel, X, span.points, Phi)
    solve(span.S, Phi)
    schur[:] = 1.0
    for values in Phi.T:
        schur -= values * values


def watch(
    kernel: KernelNumbers, span: Span, rule: Rule, X: Array, number: int, Phi: Array
) -> tuple[int, int, float]:
    """Look at events until one should change the landmarks."""
    for first in range(0, len(X), _AHEAD):
        some, part = X[first : first + _AHEAD], Phi[first : first + _AHEAD]
        schur = np.empty(len(some))
        coordinates(kernel, span, some, part, schur)
        Q = part.copy()
        solve_back(span.S, Q)
        for i, (q, delta) in enumerate(zip(Q, schur.tolist(), strict=True)):
            verdict = _outcome(q, delta, number + first + i + 1, rule)
            if verdict != KEEP:
                return first + i + 1, verdict, delta
    return len(X), KEEP, 0.0


def _outcome(q: Array, delta: float, now: int, rule: Rule) -> int:
    """Return what becomes of an event; note the landmark that it leans on most."""
    if rule.rate > 0.0 and len(q):
        rule.leaned[np.argmax(np.abs(q))] = now
    if not delta > rule.floor:
        return KEEP
    # The determinant of W grows by this factor where the event replaces a landmark; over delta, it
    # is what the diagonal of the inverse becomes where the event joins the landmarks.
    gains = delta * rule.inverse + q * q
    most = gains.max(initial=0.0)
    if not most < delta / rule.noise:
        return KEEP
    if not most < delta / rule.rounding:
        return int(np.argmax(gains)) if most > 1.0 else KEEP
    if not rule.full:
        return ADMIT
    if rule.rate > 0.0:
        gains *= 2.0 ** np.minimum(rule.rate * (now - rule.leaned), LONGEST)
    j = int(np.argmax(gains))
    return j if gains[j] > rule.threshold else KEEP


def solve(S: Array, K: Array) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-1 k``."""
    sums = np.zeros(K.shape)
    for m in range(K.shape[1]):
        K[:, m] = (K[:, m] - sums[:, m]) / S[m, m]
        sums[:, m + 1 :] += K[:, m, None] * S[m, m + 1 : K.shape[1]]


def solve_back(S: Array, K: Array) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-T k``."""
    sums = np.zeros(K.shape)
    for m in range(K.shape[1] - 1, -1, -1):
        K[:, m] = (K[:, m] - sums[:, m]) / S[m, m]
        sums[:, :m] += K[:, m, None] * S[m, :m]


def remove_row(S: Array, size: int, j: int, cosines: Array, sines: Array) -> None:
    """Make of the factor of W, of that size, the factor of W without row and column j."""
    U = np.delete(np.triu(S[:size, :size]), j, axis=1)
    last = size - 1
    for i in range(j, last):
        r = math.sqrt(U[i, i] * U[i, i] + U[i + 1, i] * U[i + 1, i])
        c, s = U[i, i] / r, U[i + 1, i] / r
        U[i, i:], U[i + 1, i:] = c * U[i, i:] + s * U[i + 1, i:], c * U[i + 1, i:] - s * U[i, i:]
        U[i, i] = r
        cosines[i - j], sines[i - j] = c, s
    S[:last, :last] = np.triu(U[:last]) + np.triu(U[:last], 1).T


def factorise(W: Array, S: Array, least: float) -> int:
    """Write the factor of the first rows of `W` into `S`, and return how many."""
    for i, w in enumerate(W):
        k = w[None, :i].copy()
        solve(S, k)
        left = w[i] - float(k[0] @ k[0])
        if not left > least:
            return i
        S[i, :i] = S[:i, i] = k[0]
        S[i, i] = math.sqrt(left)
    return len(W)


def residual(S: Array, W: Array) -> float:
    """Return the largest error of an element of ``L L'``."""
    L = np.tril(S[: len(W), : len(W)])
    return float(np.abs(L @ L.T - W).max(initial=0.0))
