"""Prediction by a tree of small kernel models; see `streamk.backends.LocalKernels`."""

from __future__ import annotations

import numpy as np

from streamk.backends.codes import FARTHEST_LOCAL, Array, LocalKernels, filled

__all__ = ["Evaluator", "find_leaves"]

_AT_ONCE = 1024
"""Rows whose numbers are kept in memory at once."""


def find_leaves(model: LocalKernels, X: Array, out: Array) -> None:
    """Write the leaves of raw events X, float64 (n, d), to out, int64 (n, trees)."""
    for first in range(0, len(X), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        Z = _scaled(model, X[rows])
        for tree, root in enumerate(model.roots.tolist()):
            out[rows, tree] = _leaves(model, Z, root)


class Evaluator:
    """Evaluates a model; several threads may do so at once."""

    def __init__(self, model: LocalKernels) -> None:
        self._model = model

    def scores(self, X: Array, out: Array) -> int:
        """Write the scores of raw events X, float64 (n, d), to out, float32 (n, outputs).

        Returns
        -------
        int
            The first row with an infinite value, or n.
        """
        model = self._model
        (infinite,) = np.nonzero(np.isinf(X).any(axis=1))
        if len(infinite):
            return int(infinite[0])
        for first in range(0, len(X), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            Z, part = _scaled(model, X[rows]), out[rows]
            part[...] = 0.0
            for root in model.roots.tolist():
                part += _of_tree(model, root, Z, out.shape[1]) / np.float32(len(model.roots))
        return len(X)


def _scaled(model: LocalKernels, X: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        Z = (np.where(np.isnan(X), model.fill, X) - model.shift) * model.factor
    bounded: Array = np.clip(Z, -FARTHEST_LOCAL, FARTHEST_LOCAL)
    return bounded.astype(np.float32)


def _of_tree(model: LocalKernels, root: int, Z: Array, outputs: int) -> Array:
    """Return the scores (n, outputs) of scaled events by one of the trees."""
    leaves = _leaves(model, Z, root)
    found = np.repeat(model.absent[leaves, None], outputs, axis=1)
    for leaf in np.unique(leaves).tolist():
        mine = np.flatnonzero(leaves == leaf)
        _, _, q, _, _, first = model.leaves[leaf].tolist()
        scores = _of_leaf(model, leaf, Z[mine])
        if outputs > 1:
            scores -= scores.max(axis=1, keepdims=True)
        found[np.ix_(mine, model.outputs[first : first + q])] = scores
    return found


def _leaves(model: LocalKernels, Z: Array, root: int) -> Array:
    nodes = np.full(len(Z), root)
    while True:
        (inner,) = np.nonzero(nodes >= 0)
        if not len(inner):
            return -1 - nodes
        at = nodes[inner]
        right = (Z[inner] * model.normals[at]).sum(axis=1) >= model.offsets[at]
        nodes[inner] = model.children[at, right.astype(int)]


def _of_leaf(model: LocalKernels, leaf: int, Z: Array) -> Array:
    """Return the scores (n, outputs of the leaf) of scaled events."""
    m, p, q, at, first_pair, _ = model.leaves[leaf].tolist()
    d, wide, outputs = Z.shape[1], filled(m), filled(q)
    numbers = model.numbers[at:]
    squares, numbers = numbers[:d], numbers[filled(d) :]
    exponents, numbers = numbers[:wide], numbers[wide:]
    landmarks, numbers = numbers[: d * wide].reshape(d, wide), numbers[d * wide :]
    bias, numbers = numbers[:q], numbers[outputs:]
    powers = Z @ landmarks + exponents + ((Z * Z) @ squares)[:, None]
    c = np.exp(np.minimum(powers, 0.0))
    pairs = model.pairs[first_pair : first_pair + p]
    c = np.concatenate([c, c[:, pairs[:, 0]] * c[:, pairs[:, 1]]], axis=1)
    stride = 1 if q == 1 else outputs
    weights = numbers[: (wide + p) * stride].reshape(wide + p, stride)[:, :q]
    scores: Array = bias + c @ weights
    return scores
