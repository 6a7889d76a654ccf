"""Doubly stochastic gradients with the preconditioner by blocks, written plainly.

Events, features and leave-one-out changes one by one: each direction without an event is solved for
on the other events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streamk.losses import Loss

Numbers = np.ndarray[Any, Any]

SIZES = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.0)
FACTOR, LEAST, MOST = 4.0, 4.0**-10, 4.0**10
EPSILON = 1e-7
FEW = 32


def direction(
    Phi: Numbers, G: Numbers, W: Numbers, h: float, nu: float, damping: float, n: int | None = None
) -> Numbers:
    """Return the direction of a step; sums over events are divided by n."""
    m, events = Phi.shape[1], len(Phi) if n is None else n
    A = h * Phi.T @ Phi / events + (m * (nu + EPSILON) + damping) * np.eye(m)
    return -np.linalg.solve(A, Phi.T @ G / events + m * nu * W)


def left_out(Phi: Numbers, G: Numbers, W: Numbers, h: float, nu: float, damping: float) -> Numbers:
    """Return how the direction that does not know an event changes its outputs, for each."""
    n = len(Phi)
    return np.array(
        [
            Phi[i] @ direction(np.delete(Phi, i, 0), np.delete(G, i, 0), W, h, nu, damping, n)
            for i in range(n)
        ]
    )


class Preconditioned:
    """A learner of numbers, or of classes by softmax."""

    def __init__(
        self,
        loss: Loss,
        features: Callable[[Numbers, int, int], Numbers],
        *,
        n_outputs: int,
        h: float,
        nu: float = 0.0,
        block: int,
        n_features: int,
        size: float | None = None,
        eta: int | None = None,
    ) -> None:
        self.loss, self.features, self.h, self.nu = loss, features, h, nu
        self.block, self.size, self.eta = block, size, eta
        self.W = np.zeros((n_features, n_outputs))
        self.mean = self.W.copy()
        self.t, self.damping, self.rising = 0, 1.0, False

    def outputs(self, X: Numbers, W: Numbers) -> Numbers:
        return self.features(X, 0, len(W)) @ W

    def learn(self, X: Numbers, y: Sequence[Any]) -> None:
        blocks = len(self.W) // self.block
        start = self.t % blocks * self.block
        some = slice(start, start + self.block)
        F, labels = self.outputs(X, self.W), np.array(y)
        G = self.loss.gradient(F, labels)
        Phi, W = self.features(X, start, start + self.block), self.W[some]
        if self.size is not None:
            damping = 0.0 if len(X) >= self.block else self.block / len(X)
            self.W[some] = W + self.size * direction(Phi, G, W, self.h, self.nu, damping)
        else:
            self.W[some] = W + self.searched(Phi, F, G, W, labels)
        self.t += 1
        if self.eta is not None:
            weight = (1 + self.eta) / (self.t + self.eta)
            self.mean += weight * (self.W - self.mean)

    def searched(
        self, Phi: Numbers, F: Numbers, G: Numbers, W: Numbers, labels: Numbers
    ) -> Numbers:
        def best(damping: float) -> tuple[float, float]:
            changes = left_out(Phi, G, W, self.h, self.nu, damping)
            found = []
            for size in SIZES:
                rises = self.loss.value(F + size * changes, labels) - self.loss.value(F, labels)
                found.append((float(rises.mean() + rises.std() / len(rises) ** 0.5), size))
            return min(found)

        few = Phi.shape[1] / len(Phi) if len(Phi) < min(FEW, Phi.shape[1]) else 0.0
        factor = FACTOR if self.rising else 1.0 / FACTOR
        used = max(self.damping, few)
        other = min(max(used * factor, LEAST, few), MOST)
        mine, theirs = best(used), best(other)
        if theirs[0] < mine[0]:
            self.damping = min(max(self.damping * factor, LEAST), MOST)
            used, mine = other, theirs
        else:
            self.rising = not self.rising
        return mine[1] * direction(Phi, G, W, self.h, self.nu, used)
