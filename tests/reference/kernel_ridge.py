"""Kernel ridge regression on a stream, as plainly as it can be stated.

Nothing here imports streamk; a kernel is a function of two matrices of points. All rows of the
kernel matrix are computed anew whenever they are needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Gram = Callable[[np.ndarray, np.ndarray], np.ndarray]

BLOCK = 64


def solution(k: Gram, X, Y, ridge: float) -> np.ndarray:
    """Coefficients of kernel ridge regression: (K + ridge I)^-1 Y."""
    return np.linalg.solve(k(X, X) + ridge * np.eye(len(X)), Y)


def order(seed: int, blocks: int, n: int) -> np.ndarray:
    """The centers in the order of their corrections after so many blocks."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, blocks])))
    return random.permutation(n)


class KernelRidge:
    """One function, of targets Y (n, outputs) and one ridge; slots go round."""

    def __init__(self, k: Gram, ridge: float, capacity: int, work: int, seed: int) -> None:
        self.k, self.ridge, self.capacity, self.work, self.seed = k, ridge, capacity, work, seed
        self.seen = 0
        self.slots: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # x, y, coefficient
        self.block: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.constant: np.ndarray | None = None

    def output(self, x) -> np.ndarray:
        assert self.constant is not None
        f = self.constant.copy()
        for z, _, a in [*self.slots, *self.block]:
            f += self.k(x[None], z[None])[0, 0] * a
        return f

    def learn(self, x, y) -> np.ndarray:
        """Learn an event, and return the outputs before."""
        if self.constant is None:
            self.constant = np.full(len(y), -1.0 if len(y) > 1 else 0.0)
        f = self.output(x)
        self.block.append((x, y, (y - f) / (1.0 + self.ridge)))
        if len(self.block) == BLOCK:
            self.close()
        return f

    def close(self) -> None:
        gone = []
        for one in self.block:
            if len(self.slots) < self.capacity:
                self.slots.append(one)
            else:
                gone.append(self.slots[self.seen % self.capacity])
                self.slots[self.seen % self.capacity] = one
            self.seen += 1
        self.block = []
        blocks = self.seen // BLOCK
        if self.seen <= 4096 and blocks in (1, 2, 4, 8, 16, 32, 64):
            self.constant = np.mean([y for _, y, _ in self.slots], axis=0)
        if gone:
            change = [
                np.abs(sum(self.k(x[None], z[None])[0, 0] * a for z, _, a in gone)).sum()
                for x, _, _ in self.slots
            ]
            self.correct(np.argsort(-np.array(change), kind="stable")[:BLOCK])
        n = len(self.slots)
        turns = order(self.seed, blocks, n)
        for turn in range(max(1, min(n // BLOCK, self.work // n))):
            self.correct(turns[turn * BLOCK : (turn + 1) * BLOCK])

    def correct(self, rows) -> None:
        """Solve for some coefficients, given the others."""
        X, Y, A = (np.array([slot[part] for slot in self.slots]) for part in range(3))
        left = Y[rows] - self.constant - self.k(X[rows], X) @ A - self.ridge * A[rows]
        A[rows] += solution(self.k, X[rows], left, self.ridge)
        self.slots = list(zip(X, Y, A, strict=True))
