"""Stochastic dual coordinate ascent for the hinge loss, on kernel values or on given features.

The dual of ``mean hinge + nu/2 |f|^2`` has a number a_i in [0, 1] for each of n events, and
``f = sum_i a_i y_i k(x_i, .) / (nu n)``. A step on event i moves a_i to where the dual is greatest:
``a_i + nu n (1 - y_i f(x_i)) / k(x_i, x_i)``, cut to [0, 1] (Shalev-Shwartz and Zhang 2013, section
6.2). Events come in the order of the pass, which is random.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.doubly_stochastic.rivals.expansion import BLOCK, Expansion, gaussian

Numbers = NDArray[Any]


class KernelSDCA:
    """SDCA whose f is a sum of kernels at the events with a_i above 0.

    Parameters
    ----------
    gamma : float
        Of the kernel.
    nu : float
        Regularization.
    n : int
        Events that there are.
    """

    def __init__(self, gamma: float, nu: float, n: int) -> None:
        self.expansion, self._unit = Expansion(gamma), nu * n
        self._places = np.full(n, -1)
        """Of each event among the centers, -1 where it is none."""

    def learn(self, first: int, X: Numbers, y: Numbers) -> None:
        """Steps on the events from number `first` on, with labels -1 and +1."""
        for at in range(0, len(X), BLOCK):
            rows = np.asarray(X[at : at + BLOCK], np.float32)
            self._learn(first + at, rows, y[at : at + BLOCK].astype(np.float64))

    def _learn(self, first: int, X: Numbers, y: Numbers) -> None:
        expansion, places = self.expansion, self._places[first : first + len(X)]
        known = places >= 0
        numbers = np.zeros(len(X))
        numbers[known] = expansion.coefficients[places[known]] * y[known] * self._unit
        F, K = expansion.scores(X), gaussian(X, X, expansion.gamma)
        _kernel_steps(F, K, y, self._unit, numbers)
        expansion.coefficients[places[known]] = numbers[known] * y[known] / self._unit
        added = np.flatnonzero(~known & (numbers > 0.0))
        places[added] = expansion.size + np.arange(len(added))
        expansion.add(X[added], numbers[added] * y[added] / self._unit)

    def scores(self, X: Numbers) -> Numbers:
        """f(x) of rows (n, d)."""
        return self.expansion.scores(np.asarray(X, np.float32))


class LinearSDCA:
    """SDCA of a linear function of features that are given.

    Parameters
    ----------
    nu : float
        Regularization.
    n : int
        Events that there are.
    """

    def __init__(self, nu: float, n: int) -> None:
        self._unit, self._numbers, self.weights = nu * n, np.zeros(n), np.zeros(0)

    def learn(self, first: int, Z: Numbers, y: Numbers) -> None:
        """Steps on features (m, r) of the events from number `first` on."""
        if not len(self.weights):
            self.weights = np.zeros(Z.shape[1])
        numbers = self._numbers[first : first + len(Z)]
        _linear_steps(Z.astype(np.float64), y.astype(np.float64), self._unit, numbers, self.weights)

    def scores(self, Z: Numbers) -> Numbers:
        """f of features (m, r)."""
        return Z @ self.weights


@numba.njit(cache=True)
def _kernel_steps(F: Any, K: Any, y: Any, unit: float, numbers: Any) -> None:
    """Take the steps of a block; F (n,) are its scores before, numbers (n,) the a_i."""
    for j in range(len(y)):
        best = numbers[j] + unit * (1.0 - y[j] * F[j]) / K[j, j]
        best = min(1.0, max(0.0, best))
        change = (best - numbers[j]) * y[j] / unit
        numbers[j] = best
        if change != 0.0:
            for i in range(j, len(y)):
                F[i] += change * K[j, i]


@numba.njit(cache=True)
def _linear_steps(Z: Any, y: Any, unit: float, numbers: Any, weights: Any) -> None:
    """Take steps on rows of features."""
    for j in range(len(y)):
        score = square = 0.0
        for k in range(len(weights)):
            score += Z[j, k] * weights[k]
            square += Z[j, k] * Z[j, k]
        if square == 0.0:
            continue
        best = numbers[j] + unit * (1.0 - y[j] * score) / square
        best = min(1.0, max(0.0, best))
        change = (best - numbers[j]) * y[j] / unit
        numbers[j] = best
        if change != 0.0:
            for k in range(len(weights)):
                weights[k] += change * Z[j, k]
