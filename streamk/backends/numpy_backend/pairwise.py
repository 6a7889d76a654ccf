"""Kernels between points, and their product with vectors, tile by tile.

A distance is the sum of what the columns contribute, in their order, each from the difference of
two numbers. The shorter way, ``|x|^2 + |y|^2 - 2 x.y`` by a matrix product, cancels: in single
precision it leaves a distance between equal points of 3e-4 times their length, and what it gives
depends on the points around them.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import KernelCode
from streamk.backends.numpy_backend.tangent import neural_tangent

_EXPONENTIALS = (KernelCode.GAUSSIAN, KernelCode.LAPLACIAN, KernelCode.POWER_EXPONENTIAL)
"""Those that are the exponential of their sum."""
_ROWS, _CENTERS = 64, 512
"""Points of a tile, whose few temporaries then stay in the second cache."""


def pairwise(
    code: int, parameter: float, scale: float, X: NDArray[Any], Y: NDArray[Any], out: NDArray[Any]
) -> None:
    """Write the kernel between the rows of `X` and of `Y` into `out`."""
    for r in range(0, len(X), _ROWS):
        for c in range(0, len(Y), _CENTERS):
            K = _tile(code, parameter, scale, X[r : r + _ROWS], Y[c : c + _CENTERS])
            out[r : r + _ROWS, c : c + _CENTERS] = K


def pairwise_product(
    code: int,
    parameter: float,
    scale: float,
    X: NDArray[Any],
    Y: NDArray[Any],
    V: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Write the kernel between the rows of `X` and of `Y`, times `V`, into `out`."""
    for r in range(0, len(X), _ROWS):
        rows = X[r : r + _ROWS]
        total = np.zeros((len(rows), V.shape[1]))
        for c in range(0, len(Y), _CENTERS):
            K = _tile(code, parameter, scale, rows, Y[c : c + _CENTERS])
            # No matrix product: a row's sum is then the same in whatever batch it comes.
            for o, v in enumerate(V[c : c + _CENTERS].T):
                total[:, o] += (K * v).sum(axis=1, dtype=np.float64)
        out[r : r + _ROWS] = total


@cache
def sum_factor(code: int, parameter: float, scale: float, dtype: np.dtype[Any]) -> Any:
    """Return what a pair's sum over columns is multiplied with, of the type of the points.

    It is kept where that type can hold it: 0 times infinity is no kernel.
    """
    factor = {
        KernelCode.GAUSSIAN: 0.5 * scale * scale,
        KernelCode.LAPLACIAN: scale,
        KernelCode.POWER_EXPONENTIAL: math.sqrt(scale),
        KernelCode.MATERN: 2.0 * parameter * scale * scale,
        KernelCode.CAUCHY: scale * scale,
        KernelCode.RATIONAL_QUADRATIC: scale * scale / (2.0 * parameter if parameter else 1.0),
        KernelCode.LINEAR: 1.0,
        KernelCode.NTK: 0.25,
    }[KernelCode(code)]
    limits = np.finfo(dtype)
    return dtype.type(min(max(factor, float(limits.tiny)), float(limits.max)))


def _tile(
    code: int, parameter: float, scale: float, X: NDArray[Any], Y: NDArray[Any]
) -> NDArray[Any]:
    factor = sum_factor(code, parameter, scale, X.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        return _of_sums(code, parameter, factor, _sums(code, factor, X, Y))


def _sums(code: int, factor: Any, X: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """Return the sum or product of the kernel's term of each column."""
    S = np.full((len(X), len(Y)), 1.0 if code == KernelCode.CAUCHY else 0.0, X.dtype)
    for x, y in zip(X.T, Y.T, strict=True):
        if code == KernelCode.LINEAR:
            S += x[:, None] * y
            continue
        t = x[:, None] - y
        if code == KernelCode.LAPLACIAN:
            S += np.abs(t, out=t)
        elif code == KernelCode.POWER_EXPONENTIAL:
            S += np.sqrt(np.abs(t, out=t), out=t)
        elif code == KernelCode.CAUCHY:
            t *= t
            S *= 1.0 + factor * t
        else:
            t *= t
            S += t
    return S


def _of_sums(code: int, parameter: float, factor: Any, S: NDArray[Any]) -> NDArray[Any]:
    """Return the kernel from those sums."""
    if code == KernelCode.LINEAR:
        return S
    if code == KernelCode.CAUCHY:
        return np.asarray(1.0 / S)
    if code in _EXPONENTIALS:
        return np.asarray(np.exp(-factor * S))
    if code == KernelCode.RATIONAL_QUADRATIC:
        return np.asarray((1.0 / np.sqrt(1.0 + factor * S)) ** round(2.0 * parameter))
    if code == KernelCode.NTK:
        return neural_tangent(factor * S, round(parameter))
    r = np.sqrt(factor * S)
    K = np.asarray(np.exp(-r))
    # Where the kernel is 0 the polynomial may be infinite.
    r = np.where(K > 0.0, r, 0.0)
    if parameter == 1.5:
        K *= 1.0 + r
    elif parameter == 2.5:
        K *= 1.0 + r + r * r / 3.0
    return K
