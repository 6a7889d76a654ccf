"""Linear models of given coordinates: gradient steps, Newton steps, and rotations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.losses import LossCode, softmax

from .backend import loss_gradient

Array = NDArray[Any]
Loss = tuple[int, float, bool]

FLATTEST = 1e-4


def _output(phi: Array, W: Array) -> Array:
    # Summed up in turn, so that coordinates whose coefficients are 0 change no bit.
    return np.cumsum(phi[:, None] * W, axis=0)[-1] if len(W) else np.zeros(W.shape[1])


def outputs(Q: Array, W: Array, F: Array) -> None:
    """Write the outputs of each row."""
    for q, f in zip(Q, F, strict=True):
        f[:] = _output(q, W)


def _slopes(f: Array, y: float, loss: Loss) -> Array | None:
    """Return the loss's slopes in the outputs f, None if one of these is not finite."""
    if not np.isfinite(f).all():
        return None
    G = np.empty((1, len(f)))
    loss_gradient(*loss, f[None], np.array([y]), 1.0, G)
    return np.asarray(G[0])


def descend(
    Phi: Array,
    y: Array,
    W: Array,
    loss: Loss,
    decays: Array,
    rates: Array,
    Q: Array | None = None,
    F: Array | None = None,
) -> int:
    """Take a gradient step for each row; return how many are learned."""
    for r, phi in enumerate(Phi):
        if Q is not None and F is not None:
            F[r] = _output(Q[r], W)
        g = _slopes(_output(phi, W), float(y[r]), loss)
        if g is None:
            return r
        W *= decays[r]
        W -= np.outer(rates[r] * phi, g)
    return len(Phi)


def _curvature(f: Array, g: Array, y: float, loss: Loss) -> float:
    """Return what the loss curves at most in a direction of the outputs f, with slopes g."""
    code, parameter, _ = loss
    match code:
        case LossCode.LOGISTIC:
            return float((np.abs(g) * (1.0 - np.abs(g))).max())
        case LossCode.SOFTMAX:
            # By Gershgorin's circles of diag(p) - p p'.
            p = softmax(f[None])[0]
            return 2.0 * float((p * (1.0 - p)).max())
        case LossCode.HUBER:
            return parameter / max(parameter, abs(float(f[0]) - y))
        case LossCode.SQUARED_HINGE:
            return float(len(g) if len(g) < 2 else 2) if g.any() else 0.0
        case _:
            return 1.0


def _gain(T: Array, phi: Array, forgetting: float) -> Array:
    """Take a row into A, T' T being its inverse; return ``A^-1 phi`` (Carlson 1973)."""
    a, b = forgetting, np.zeros(len(phi))
    for i in range(len(phi) - 1, -1, -1):
        row = T[i, i:].copy()
        f = row @ phi[i:]
        grown = a + f * f
        T[i, i:] = row * math.sqrt(a / grown / forgetting)
        T[i, i:] -= b[i:] * (f / math.sqrt(a * grown * forgetting))
        b[i:] += row * f
        a = grown
    return np.asarray(b / a)


def newton(
    Phi: Array,
    y: Array,
    W: Array,
    T: Array,
    loss: Loss,
    forgetting: float,
    ridge: float,
    turn: int,
    pulls: int,
    Q: Array | None = None,
    F: Array | None = None,
) -> int:
    """Take a step of second order for each row; return how many are learned."""
    size = len(T)
    back = math.sqrt((1.0 - forgetting) * ridge * size / pulls)
    for r, phi in enumerate(Phi):
        if Q is not None and F is not None:
            F[r] = _output(Q[r], W)
        f = _output(phi, W)
        g = _slopes(f, float(y[r]), loss)
        if g is None:
            return r
        h = math.sqrt(max(_curvature(f, g, float(y[r]), loss), FLATTEST))
        W -= np.outer(_gain(T, h * phi, forgetting) / h, g)
        for p in range(pulls if forgetting < 1.0 and size else 0):
            i = ((turn + r) * pulls + p) % size
            pull = np.zeros(size)
            pull[i] = back
            slopes = back * W[i]
            W -= np.outer(_gain(T, pull, 1.0), slopes)
    return len(Phi)


def rotate(W: Array, first: int, cosines: Array, sines: Array) -> None:
    """Rotate rows `first` and the next of W, that and the next, and so on."""
    for i, (c, s) in enumerate(zip(cosines, sines, strict=True), first):
        W[i], W[i + 1] = c * W[i] + s * W[i + 1], c * W[i + 1] - s * W[i]


def triangular(S: Array) -> Array:
    """Return the upper triangular T with ``T' T = S S'`` of S (l, l + 1)."""
    A = np.ascontiguousarray(S.T)
    for i in range(A.shape[1]):
        r = math.hypot(A[i, i], A[i + 1, i])
        rotate(A, i, A[i : i + 1, i] / r, A[i + 1 : i + 2, i] / r)
    return np.ascontiguousarray(np.triu(A[:-1]))
