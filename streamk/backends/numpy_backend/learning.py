"""Losses' gradients and steps on coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, LANES, LossCode


def finish(acc: NDArray[Any], factor: float, F: NDArray[Any]) -> None:
    """Write the partial sums' sum, times the factor, into `F`."""
    F[...] = acc[:, :, 0]
    for lane in range(1, LANES):
        F += acc[:, :, lane]
    F *= factor


def softmax(F: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of each row of a float64 array of shape (n, k)."""
    E = np.exp(F - F.max(axis=1, keepdims=True))
    return np.asarray(E / E.sum(axis=1, keepdims=True))


def sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic function, with one exponential of a negative number: no overflow at either end."""
    e = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, e) / (1.0 + e))


def targets(F: NDArray[np.float64], y: NDArray[Any], classes: bool) -> NDArray[np.float64]:
    """Return what each output is measured against: y itself, or -1/+1 for class numbers."""
    if not classes:
        return np.asarray(y, dtype=np.float64)[:, None]
    if F.shape[1] == 1:
        return np.asarray(2.0 * y[:, None] - 1.0)
    T = np.full(F.shape, -1.0)
    T[np.arange(len(F)), y.astype(np.intp)] = 1.0
    return T


def crammer_singer(
    F: NDArray[np.float64], y: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return 1 + (best other output) - (true output), and the number of the best other."""
    rows, true = np.arange(len(F)), y.astype(np.intp)
    others = F.copy()
    others[rows, true] = -np.inf
    best = others.argmax(axis=1)
    return 1.0 + F[rows, best] - F[rows, true], best


def _slopes(
    code: int, p: float, F: NDArray[np.float64], Y: NDArray[np.float64]
) -> NDArray[np.float64]:
    r = F - Y
    match code:
        case LossCode.SQUARED:
            return r
        case LossCode.HINGE:
            return -Y * (Y * F < 1.0)
        case LossCode.SQUARED_HINGE:
            return -Y * np.maximum(0.0, 1.0 - Y * F)
        case LossCode.LOGISTIC:
            return -Y * sigmoid(-Y * F)
        case LossCode.HUBER:
            return np.clip(r, -p, p)
        case LossCode.EPSILON_INSENSITIVE:
            return np.asarray(np.sign(r) * (np.abs(r) > p))
        case _:
            return np.where(r > 0, 1.0 - p, np.where(r < 0, -p, 0.0))


def loss_gradient(
    code: int,
    parameter: float,
    classes: bool,
    F: NDArray[Any],
    y: NDArray[Any],
    weight: float,
    G: NDArray[Any],
) -> None:
    """Write the weighted (sub)gradient of each row's loss in its outputs into `G`."""
    if code == LossCode.SOFTMAX:
        slopes = softmax(F)
        slopes[np.arange(len(F)), y.astype(np.intp)] -= 1.0
    elif code in (LossCode.HINGE, LossCode.SQUARED_HINGE) and F.shape[1] > 1:
        margin, best = crammer_singer(F, y)
        slope = (margin > 0) * (1.0 if code == LossCode.HINGE else margin)
        slopes = np.zeros(F.shape)
        slopes[np.arange(len(F)), y.astype(np.intp)] -= slope
        slopes[np.arange(len(F)), best] += slope
    else:
        slopes = _slopes(code, parameter, F, targets(F, y, classes))
    G[...] = weight * slopes


def _values(
    code: int, p: float, F: NDArray[np.float64], Y: NDArray[np.float64]
) -> NDArray[np.float64]:
    r = F - Y
    match code:
        case LossCode.SQUARED:
            return 0.5 * r * r
        case LossCode.HINGE:
            return np.maximum(0.0, 1.0 - Y * F)
        case LossCode.SQUARED_HINGE:
            return 0.5 * np.maximum(0.0, 1.0 - Y * F) ** 2
        case LossCode.LOGISTIC:
            return np.logaddexp(0.0, -Y * F)
        case LossCode.HUBER:
            a = np.abs(r)
            return np.where(a <= p, 0.5 * r * r, p * (a - 0.5 * p))
        case LossCode.EPSILON_INSENSITIVE:
            return np.maximum(0.0, np.abs(r) - p)
        case _:
            return np.maximum(-p * r, (1.0 - p) * r)


def loss_values(
    code: int, parameter: float, classes: bool, F: NDArray[Any], y: NDArray[Any]
) -> NDArray[np.float64]:
    """Return each row's loss, float64 (n,)."""
    if code == LossCode.SOFTMAX:
        top = F.max(axis=1)
        chosen = F[np.arange(len(F)), y.astype(np.intp)]
        return np.asarray(np.log(np.exp(F - top[:, None]).sum(axis=1)) + top - chosen)
    if code in (LossCode.HINGE, LossCode.SQUARED_HINGE) and F.shape[1] > 1:
        violation = np.maximum(crammer_singer(F, y)[0], 0.0)
        return violation if code == LossCode.HINGE else 0.5 * violation**2
    return np.asarray(_values(code, parameter, F, targets(F, y, classes)).sum(axis=1))


def score(
    code: int,
    parameter: float,
    classes: bool,
    F: NDArray[Any],
    y: NDArray[Any],
    kept: float,
    most: float,
    losses: NDArray[np.float64],
) -> None:
    """Shrink the losses of functions by a factor and add theirs on rows of F, up to the most."""
    n, functions, outputs = F.shape
    rows, labels = F.reshape(n * functions, outputs), np.repeat(y, functions)
    found = loss_values(code, parameter, classes, rows, labels).reshape(n, functions)
    losses[...] = np.fmin(kept * losses + found.sum(axis=0), most)  # the most also for NaN


def descend(
    A: NDArray[Any], squares: NDArray[Any], g: NDArray[Any], rate: float, start: int, stop: int
) -> None:
    """Subtract ``rate * g`` from the features start...stop of these chunks.

    Where there are `squares`, they take in the squared gradient, and the gradient is divided by
    their root.
    """
    feature = np.arange(len(A) * CHUNK).reshape(len(A), 1, CHUNK)
    g = g * ((feature >= start) & (feature < stop))
    if len(squares):
        squares += g * g
        g = g / (np.sqrt(squares) + g.dtype.type(1e-8))
    A -= A.dtype.type(rate) * g


def decay(A: NDArray[Any], factor: float) -> None:
    """Multiply all coefficients by the factor."""
    A *= A.dtype.type(factor)
