"""NORMA: stochastic gradient descent in the space of the kernel, an event a step.

Step t on an event (x, y) makes f to ``(1 - g_t nu) f + g_t y k(x, .)`` if ``y f(x) < 1``, else to
``(1 - g_t nu) f`` (Kivinen, Smola and Williamson 2004, section III, soft margin loss). Steps are
taken one after the other; the kernel values of a block of events are found together.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.doubly_stochastic.rivals.expansion import BLOCK, Expansion, gaussian
from streamk.learners.common.steps import Step

Numbers = NDArray[Any]


class Norma:
    """NORMA with the hinge loss, without truncation and intercept.

    Parameters
    ----------
    gamma : float
        Of the kernel.
    nu : float
        Regularization.
    step : Step
        g_t, one of the learner's own rules.
    """

    def __init__(self, gamma: float, nu: float, step: Step) -> None:
        self.expansion, self._nu, self._step, self._t = Expansion(gamma), nu, step, 0

    def learn(self, first: int, X: Numbers, y: Numbers) -> None:
        """Steps on events (n, d) with labels -1 and +1, in their order."""
        for at in range(0, len(X), BLOCK):
            self._learn(np.asarray(X[at : at + BLOCK], np.float32), y[at : at + BLOCK])

    def _learn(self, X: Numbers, y: Numbers) -> None:
        sizes = self._step.sizes(self._t + 1, len(X))
        F, K = self.expansion.scores(X), gaussian(X, X, self.expansion.gamma)
        coefficients = np.zeros(len(X))
        decay = _steps(F, K, y.astype(np.float64), sizes, self._nu, coefficients)
        self.expansion.coefficients[:] *= decay
        added = np.flatnonzero(coefficients)
        self.expansion.add(X[added], coefficients[added])
        self._t += len(X)

    def scores(self, X: Numbers) -> Numbers:
        """f(x) of rows (n, d)."""
        return self.expansion.scores(np.asarray(X, np.float32))


@numba.njit(cache=True)
def _steps(F: Any, K: Any, y: Any, sizes: Any, nu: float, coefficients: Any) -> float:
    """Take the steps of a block: F (n,) are its scores before; return how much f has shrunk."""
    shrunk = 1.0
    for j in range(len(y)):
        decay = 1.0 - sizes[j] * nu
        margin = y[j] * F[j]
        shrunk *= decay
        for i in range(j):
            coefficients[i] *= decay
        if margin < 1.0:
            coefficients[j] = sizes[j] * y[j]
        for i in range(j + 1, len(y)):
            F[i] = decay * F[i] + coefficients[j] * K[j, i]
    return shrunk
