"""Sums of kernels of many centers, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import GROUP
from streamk.backends.centers import Functions
from streamk.backends.incremental import KernelNumbers
from streamk.backends.numpy_backend.pairwise import pairwise

Array = NDArray[Any]


def lay(points: Array, slots: Array, laid: Array) -> None:
    """Write points into the slots."""
    laid[slots // GROUP, :, slots % GROUP] = points


def expand(kernel: KernelNumbers, X: Array, laid: Array, A: Array, out: Array) -> None:
    """Write the sum of all centers' kernels times coefficients into `out`."""
    K = np.empty((len(X), GROUP), X.dtype)
    out[:] = 0.0
    for g, points in enumerate(laid):
        pairwise(*kernel, X, np.ascontiguousarray(points.T), K)
        part = np.zeros(out.shape, X.dtype)
        some = A[:, g * GROUP : (g + 1) * GROUP].transpose(1, 0, 2).reshape(GROUP, -1)
        for k, a in zip(K.T, some, strict=True):
            part += k[:, None] * a[: out.shape[1]]
        out += part


def add(K: Array, known: Array, A: Array, outputs: Array) -> None:
    """Add what the first centers give, for each row so many of them."""
    for f, k, last in zip(outputs, K, known.tolist(), strict=True):
        for j in range(last):
            f += k[j] * A[j]


def follow(K: Array, Y: Array, functions: Functions, first: int, outputs: Array) -> None:
    """Learn events one after the other, each of them a center from then on."""
    ridges, A, errors = functions
    for i in range(len(outputs)):
        add(K[i : i + 1], np.array([first + i]), A, outputs[i : i + 1])
        missed = Y[i] - outputs[i].reshape(len(ridges), -1)
        A[first + i] = (missed / (1.0 + ridges[:, None])).ravel()
        errors += np.square(missed).sum(axis=1)


def add_one(kernel: KernelNumbers, x: Array, points: Array, A: Array, outputs: Array) -> None:
    """Add what all centers give for one event."""
    K = np.empty((1, len(points)), x.dtype)
    pairwise(*kernel, x, points, K)
    add(K.astype(np.float64), np.array([len(points)]), A, outputs)


def follow_one(
    kernel: KernelNumbers, points: Array, Y: Array, functions: Functions, outputs: Array
) -> None:
    """Learn the last point, a center from then on."""
    K = np.empty((1, len(points)), points.dtype)
    pairwise(*kernel, points[-1:], points, K)
    follow(K.astype(np.float64), Y, functions, len(points) - 1, outputs)
