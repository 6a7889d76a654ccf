"""Linear models of given coordinates.

A model's coefficients W are (l, outputs), the coordinates of events Phi (n, l) and the labels y
(n,), all float64 and C-contiguous. A loss is its code, its parameter and whether labels are numbers
of classes, as of `loss_gradient`. Events are learned one after the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends.jit.compiling import compiled, compiling, exact, exact_part, part
from streamk.backends.numba_backend.learning import loss_gradient
from streamk.losses import LossCode

_LOGISTIC, _SOFTMAX = int(LossCode.LOGISTIC), int(LossCode.SOFTMAX)
_HUBER, _SQUARED_HINGE = int(LossCode.HUBER), int(LossCode.SQUARED_HINGE)
_FLATTEST = 1e-4
"""Curvature that a loss counts as having at least: a step divides by it."""

# A sum in as many parts as a vector has lanes, several times as fast as one in turn. Each of these
# sums belongs to one event, whatever events are learned with it.
summing = compiling(nogil=True, fastmath={"contract", "reassoc"})


@summing
def _dot(a: Any, b: Any, first: Any) -> Any:
    total = 0.0
    for j in range(first, a.shape[0]):
        total += a[j] * b[j]
    return total


@part
def _output(phi: Any, W: Any, f: Any) -> None:
    f[:] = 0.0
    for i in range(phi.shape[0]):
        for k in range(W.shape[1]):
            f[k] += phi[i] * W[i, k]


@exact
def outputs(Q: Any, W: Any, F: Any) -> None:
    """Write the outputs ``W' q`` of each row of Q (n, l) into F (n, outputs)."""
    for r in range(Q.shape[0]):
        _output(Q[r], W, F[r])


@part
def _slopes(phi: Any, y: Any, W: Any, loss: Any, F: Any, G: Any) -> Any:
    """Write outputs into F and the loss's slopes in them into G; return whether F is finite."""
    code, parameter, classes = loss
    _output(phi, W, F[0])
    for k in range(W.shape[1]):
        if not math.isfinite(F[0, k]):
            return False
    loss_gradient(code, parameter, classes, F, y, 1.0, G)
    return True


@part
def _move(W: Any, decay: Any, direction: Any, factor: Any, g: Any) -> None:
    for i in range(W.shape[0]):
        step = factor * direction[i]
        for k in range(W.shape[1]):
            W[i, k] = decay * W[i, k] - step * g[k]


@exact
def descend(
    Phi: Any, y: Any, W: Any, loss: Any, decays: Any, rates: Any, Q: Any = None, F: Any = None
) -> Any:
    """Take a gradient step for each row: ``W = decay W - rate phi l'(W' phi, y)``.

    With Q and F, the row of F gets the `outputs` of the row of Q before.

    Returns
    -------
    int
        How many rows are learned: fewer than there are where a prediction overflows.
    """
    f, G = np.empty((1, W.shape[1])), np.empty((1, W.shape[1]))
    for r in range(Phi.shape[0]):
        if Q is not None:
            _output(Q[r], W, F[r])
        if not _slopes(Phi[r], y[r : r + 1], W, loss, f, G):
            return r
        _move(W, decays[r], Phi[r], rates[r], G[0])
    return Phi.shape[0]


@exact_part
def _curvature(f: Any, g: Any, y: Any, loss: Any) -> Any:
    """Return what the loss curves at most in a direction of the outputs f, with slopes g."""
    code, parameter, most = loss[0], loss[1], 0.0
    if code == _LOGISTIC:
        for k in range(g.shape[0]):
            most = max(most, abs(g[k]) * (1.0 - abs(g[k])))
        return most
    if code == _SOFTMAX:
        top, total = f.max(), 0.0
        for k in range(f.shape[0]):
            total += math.exp(f[k] - top)
        for k in range(f.shape[0]):
            p = math.exp(f[k] - top) / total
            most = max(most, p * (1.0 - p))
        return 2.0 * most
    if code == _HUBER:
        return parameter / max(parameter, abs(f[0] - y))
    if code == _SQUARED_HINGE:
        for k in range(g.shape[0]):
            most = max(most, abs(g[k]))
        return 0.0 if most == 0.0 else (1.0 if g.shape[0] < 2 else 2.0)
    return 1.0


@part
def _gain(T: Any, phi: Any, size: Any, forgetting: Any, b: Any) -> Any:
    """Take a row into A, T' T being its inverse (Carlson 1973).

    From `size` on phi is 0; a row that forgets has as many numbers as T. Where b is divided by what
    is returned it is ``A^-1 phi``.
    """
    a = forgetting
    b[:] = 0.0
    for i in range(size - 1, -1, -1):
        row = T[i]
        f = _dot(row, phi, i)
        grown = a + f * f
        keep = math.sqrt(a / grown / forgetting)
        take = f / math.sqrt(a * grown * forgetting)
        for j in range(i, T.shape[0]):
            old = row[j]
            row[j] = keep * old - take * b[j]
            b[j] += f * old
        a = grown
    return a


@exact
def newton(
    Phi: Any, y: Any, W: Any, T: Any, loss: Any, forgetting: Any, ridge: Any, turn: Any, pulls: Any,
    Q: Any = None, F: Any = None,
) -> Any:  # fmt: skip
    """Take a step of second order for each row: ``W -= A^-1 phi l'(W' phi, y)``.

    Q and F are as of `descend`.

    Before, A has become ``forgetting A + h phi phi'`` with h at least the curvature of the loss
    in the outputs; ``T' T`` is its inverse, T upper triangular. What A forgets of the ridge
    comes back, `pulls` coordinates a row in their turn, row `turn` having the next ones.

    Returns
    -------
    int
        As of `descend`.
    """
    size, many = T.shape[0], W.shape[1]
    f, G = np.empty((1, many)), np.empty((1, many))
    b, row, pull = np.empty(size), np.empty(size), np.zeros(size)
    back = math.sqrt((1.0 - forgetting) * ridge * size / pulls)
    for r in range(Phi.shape[0]):
        if Q is not None:
            _output(Q[r], W, F[r])
        if not _slopes(Phi[r], y[r : r + 1], W, loss, f, G):
            return r
        h = math.sqrt(max(_curvature(f[0], G[0], y[r], loss), _FLATTEST))
        for i in range(size):
            row[i] = h * Phi[r, i]
        a = _gain(T, row, size, forgetting, b)
        _move(W, 1.0, b, 1.0 / (a * h), G[0])
        for p in range(pulls if forgetting < 1.0 and size > 0 else 0):
            i = ((turn + r) * pulls + p) % size
            pull[i] = back
            for k in range(many):
                G[0, k] = back * W[i, k]
            a = _gain(T, pull, i + 1, 1.0, b)
            _move(W, 1.0, b, 1.0 / a, G[0])
            pull[i] = 0.0
    return Phi.shape[0]


@compiled
def rotate(W: Any, first: Any, cosines: Any, sines: Any) -> None:
    """Rotate rows `first` and the next of W, that and the next, and so on."""
    for n in range(cosines.shape[0]):
        c, s, i = cosines[n], sines[n], first + n
        for k in range(W.shape[1]):
            x, z = W[i, k], W[i + 1, k]
            W[i, k], W[i + 1, k] = c * x + s * z, c * z - s * x


@compiled
def triangular(S: Any) -> Any:
    """Return the upper triangular T with ``T' T = S S'`` of S (l, l + 1).

    S is 0 beyond the diagonal next to the main one.
    """
    size = S.shape[0]
    A = np.ascontiguousarray(S.T)
    for i in range(size):
        r = math.hypot(A[i, i], A[i + 1, i])
        c, s = A[i, i] / r, A[i + 1, i] / r
        for k in range(i, size):
            x, z = A[i, k], A[i + 1, k]
            A[i, k], A[i + 1, k] = c * x + s * z, c * z - s * x
        A[i + 1, i] = 0.0
    return A[:size].copy()
