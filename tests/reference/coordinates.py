"""Linear models of given coordinates: gradient steps, and Newton steps by the matrix itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.losses import Loss, LossCode

Array = NDArray[Any]
FLATTEST = 1e-4


def slopes(loss: Loss, f: Array, y: Any) -> Array:
    """The gradient of the loss in the outputs f; y is a whole number where it is a class."""
    return np.asarray(loss.gradient(f[None], np.array([y]))[0])


def curvature(loss: Loss, f: Array, y: Any) -> float:
    """What the loss curves at most in a direction of the outputs f, or a bound on it."""
    g = slopes(loss, f, y)
    found = 1.0
    if loss.code == LossCode.LOGISTIC:
        found = (np.abs(g) * (1.0 - np.abs(g))).max()
    elif loss.code == LossCode.SOFTMAX:  # by Gershgorin's circles of diag(p) - p p'
        p = np.exp(f - f.max()) / np.exp(f - f.max()).sum()
        found = 2.0 * (p * (1.0 - p)).max()
    elif loss.code == LossCode.HUBER:
        found = loss.parameter / max(loss.parameter, abs(float(f[0]) - y))
    elif loss.code == LossCode.SQUARED_HINGE:
        found = min(2.0, len(g)) * g.any()
    return max(float(found), FLATTEST)


def descend(Phi: Array, y: Array, W: Array, loss: Loss, decay: float, rate: float) -> Array:
    """The coefficients after a gradient step for each row."""
    for phi, label in zip(Phi, y.tolist(), strict=True):
        W = decay * W - rate * np.outer(phi, slopes(loss, phi @ W, label))
    return W


def newton(
    Phi: Array, y: Array, W: Array, A: Array, loss: Loss, *, forgetting: float, ridge: float,
    turn: int = 0, pulls: int = 1,
) -> tuple[Array, Array]:  # fmt: skip
    """The coefficients, and the matrix A, after a step of second order for each row.

    What A forgets of the ridge comes back, as so many events a row of one coordinate and label 0.
    """
    size = len(A)
    back = (1.0 - forgetting) * ridge * size / pulls
    for t, (phi, label) in enumerate(zip(Phi, y.tolist(), strict=True), turn):
        f = phi @ W
        A = forgetting * A + curvature(loss, f, label) * np.outer(phi, phi)
        W = W - np.outer(np.linalg.solve(A, phi), slopes(loss, f, label))
        for i in np.arange(t * pulls, (t + 1) * pulls) % size if back else ():
            e = np.eye(size)[i]
            A = A + back * np.outer(e, e)
            W = W - np.outer(np.linalg.solve(A, e), back * W[i])
    return W, A
