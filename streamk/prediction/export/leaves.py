"""The leaves of trees as arrays of one shape, and the paths to them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import NOWHERE, LocalKernels, filled

__all__ = ["Leaves", "leaves_of", "paths"]

Numbers = NDArray[Any]


class Leaves(NamedTuple):
    """The models of all leaves, each filled up with what has weights of 0.

    Of a scaled event z, ``c_j = exp(exponent_j + z . landmark_j + z^2 . squares)``. Scores are a
    linear function of these and of products of two. All is float32 where nothing is said.
    """

    squares: Numbers
    """(leaves, d)"""
    exponents: Numbers
    """(leaves, landmarks)"""
    landmarks: Numbers
    """(leaves, d, landmarks)"""
    pairs: Numbers
    """int64 (2, leaves, pairs)"""
    weights: Numbers
    """(leaves, landmarks + pairs, outputs)"""
    bias: Numbers
    """(leaves, outputs), `NOWHERE` where a leaf lacks the output"""
    lacks: Numbers
    """bool (leaves, outputs)"""


def leaves_of(model: LocalKernels, n_outputs: int) -> Leaves:
    """Return the leaves of a model, with one landmark at least."""
    count, d = len(model.leaves), len(model.shift)
    most, products, _ = model.leaves[:, :3].max(axis=0).tolist()
    most = max(1, most)
    found = Leaves(
        np.zeros((count, d), np.float32),
        np.full((count, most), NOWHERE, np.float32),
        np.zeros((count, d, most), np.float32),
        np.zeros((2, count, products), np.int64),
        np.zeros((count, most + products, n_outputs), np.float32),
        np.full((count, n_outputs), NOWHERE, np.float32),
        np.ones((count, n_outputs), bool),
    )
    for leaf, (m, p, q, at, pair, output) in enumerate(model.leaves.tolist()):
        wide, width, stride = filled(m), filled(q), 1 if q == 1 else filled(q)
        lengths = (filled(d), wide, d * wide, width, (wide + p) * stride)
        parts = np.split(model.numbers[at:], np.cumsum(lengths))
        outputs = model.outputs[output : output + q]
        weights = parts[4].reshape(wide + p, stride)[:, :q]
        found.squares[leaf] = parts[0][:d]
        found.exponents[leaf, :m] = parts[1][:m]
        found.landmarks[leaf, :, :m] = parts[2].reshape(d, wide)[:, :m]
        found.pairs[:, leaf, :p] = model.pairs[pair : pair + p].T
        found.weights[leaf, :m, outputs] = weights[:m].T
        found.weights[leaf, most : most + p, outputs] = weights[wide:].T
        found.bias[leaf, outputs] = parts[3][:q]
        found.lacks[leaf, outputs] = False
    return found


def paths(children: NDArray[np.int64], root: int) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the sides on which the leaves of a tree are, and their numbers.

    Parameters
    ----------
    children : int64 array of shape (nodes, 2)
        Of all trees.
    root : int
        The tree's first node, or its only leaf.

    Returns
    -------
    float32 array of shape (nodes, leaves)
        +1 and -1 where a leaf is on a node's second and first side, 0 where it is not below it.
    int64 array of shape (leaves,)
    """
    columns, numbers = [], []
    left = [(root, np.zeros(len(children), np.float32))]
    while left:
        place, sides = left.pop()
        if place < 0:
            columns.append(sides)
            numbers.append(-1 - place)
            continue
        for child, side in zip(children[place].tolist(), (-1.0, 1.0), strict=True):
            below = sides.copy()
            below[place] = side
            left.append((child, below))
    return np.stack(columns, axis=1), np.array(numbers, np.int64)
