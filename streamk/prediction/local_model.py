"""A kernel model on few landmarks: the model of one leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXPONENTIAL", "LocalModel"]

Numbers = NDArray[Any]

EXPONENTIAL = 8
"""Multiply-adds that an exponential counts as."""


@dataclass(frozen=True)
class LocalModel:
    """Scores ``bias + W' c`` on the kernel values of landmarks and products of two of them.

    The values are those of the Gaussian kernel with a width of each column's own, ``c_j = exp(-|s z
    - l_j|^2)``. The product of two is a constant times a Gaussian of half the variance around the
    midpoint of the two landmarks: a pseudo landmark whose kernel value takes one multiplication.
    """

    outputs: NDArray[np.int64]
    """(q,), numbers of the outputs that it has scores for, ascending"""
    landmarks: Numbers
    """float64 (m, d), scaled by `scale` as points are"""
    scale: Numbers
    """float64 (d,), s"""
    pairs: NDArray[np.int64]
    """(p, 2)"""
    weights: Numbers
    """float64 (m + p, q)"""
    bias: Numbers
    """float64 (q,)"""

    def scores(self, Z: Numbers) -> Numbers:
        """Return the scores (n, q) of points (n, d), in double precision."""
        found: Numbers = self.bias + self.basis(Z) @ self.weights
        return found

    def basis(self, Z: Numbers) -> Numbers:
        """Return the kernel values and their products (n, m + p)."""
        return with_products(np.exp(-squared(Z * self.scale, self.landmarks)), self.pairs)


def squared(X: Numbers, Y: Numbers) -> Numbers:
    """Return the squared distances (n, m) of points (n, d) and (m, d)."""
    found: Numbers = X @ Y.T
    found *= -2.0
    found += np.einsum("ij,ij->i", X, X)[:, None]
    found += np.einsum("ij,ij->i", Y, Y)
    return np.maximum(found, 0.0, out=found)


def with_products(C: Numbers, pairs: NDArray[np.int64]) -> Numbers:
    """Return kernel values (n, m) beside the products of the pairs (n, m + p)."""
    if not len(pairs):
        return C
    return np.concatenate([C, C[:, pairs[:, 0]] * C[:, pairs[:, 1]]], axis=1)
