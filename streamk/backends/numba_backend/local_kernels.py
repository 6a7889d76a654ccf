"""Prediction by a tree of small kernel models; see `streamk.backends.LocalKernels`.

An event is scaled, routed down the tree and evaluated at its leaf in one pass, by vectors of LANES
numbers in single precision. Nothing is allocated: `scores` has its workspace from the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends.codes import FARTHEST_LOCAL, LANES, Array, LocalKernels
from streamk.backends.numba_backend.compilation.compiling import compiling, parts
from streamk.backends.numba_backend.experts.compiled import exponential
from streamk.backends.numba_backend.simd import rows_16

__all__ = ["Evaluator", "find_leaves"]

_part = parts(fastmath={"contract"}, forceinline=True)
_sums = parts(fastmath={"contract", "reassoc", "nsz"}, forceinline=True)
"""Sums may be taken in another order, so that they fill vectors."""
_called = compiling(fastmath={"contract"})
"""It keeps the interpreter's lock, so that two threads never share its workspace."""
_in_parallel = compiling(nogil=True, fastmath={"contract"})
_MANY = 256
"""Rows from which on the interpreter's lock is let go."""


def find_leaves(model: LocalKernels, X: Array, out: Array) -> None:
    """Write the leaves of raw events X, float64 (n, d), to out, int64 (n, trees)."""
    _find(*model[:7], X, np.empty(len(model.shift), np.float32), out)


class Evaluator:
    """Evaluates a model; several threads may do so at once."""

    def __init__(self, model: LocalKernels) -> None:
        self._model = tuple(model)
        m, p, q = (-(-model.leaves[:, i].max() // LANES) * LANES for i in range(3))
        self._size = int(-(-len(model.shift) // LANES) * LANES + m + p + 2 * q)
        self._workspace = np.zeros(self._size, np.float32)

    def scores(self, X: Array, out: Array) -> int:
        """Write the scores of raw events X, float64 (n, d), to out, float32 (n, outputs).

        Returns
        -------
        int
            The first row with an infinite value, where it stopped, or n.
        """
        if len(X) < _MANY:
            found: int = _scores(*self._model, X, self._workspace, out)
        else:
            found = _scores_of_many(*self._model, X, np.zeros(self._size, np.float32), out)
        return found


@_part
def _rescale(shift: Any, factor: Any, fill: Any, x: Any, z: Any) -> Any:
    """Write the scaled event; return whether it is finite."""
    finite = True
    for j in range(len(shift)):
        value = x[j]
        finite &= abs(value) != np.inf
        if np.isnan(value):
            value = fill[j]
        value = (value - shift[j]) * factor[j]
        z[j] = min(max(value, -FARTHEST_LOCAL), FARTHEST_LOCAL)
    return finite


@_sums
def _product(z: Any, normal: Any) -> Any:
    total = np.float32(0.0)
    for j in range(len(normal)):
        total += z[j] * normal[j]
    return total


@_sums
def _weighted_square(z: Any, weights: Any) -> Any:
    total = np.float32(0.0)
    for j in range(len(weights)):
        total += z[j] * z[j] * weights[j]
    return total


@_part
def _leaf(normals: Any, offsets: Any, children: Any, node: Any, z: Any) -> Any:
    while node >= 0:
        right = _product(z, normals[node]) >= offsets[node]
        node = children[node, 1 if right else 0]
    return -1 - node


@_called
def _find(
    shift: Any,
    factor: Any,
    fill: Any,
    normals: Any,
    offsets: Any,
    children: Any,
    roots: Any,
    X: Any,
    z: Any,
    out: Any,
) -> None:
    for i in range(len(X)):
        _rescale(shift, factor, fill, X[i], z)
        for t in range(len(roots)):
            out[i, t] = _leaf(normals, offsets, children, roots[t], z)


@_part
def _exponentials(c: Any, count: Any, exponent: Any) -> None:
    for j in range(count):
        c[j] = exponential(min(c[j] + exponent, np.float32(0.0)))


@_sums
def _total(numbers: Any, count: Any) -> Any:
    total = np.float32(0.0)
    for k in range(count):
        total += numbers[k]
    return total


@_part
def _log_of_sum(scores: Any, count: Any, workspace: Any) -> Any:
    """Return the logarithm of the sum of the exponentials of so many scores."""
    largest = scores[0]
    for k in range(1, count):
        largest = max(largest, scores[k])
    for k in range(count):
        workspace[k] = scores[k]
    _exponentials(workspace, count, -largest)
    return largest + np.log(_total(workspace, count))


@_part
def _add_leaf(
    leaf: Any,
    absent: Any,
    numbers: Any,
    pairs: Any,
    outputs: Any,
    d: Any,
    z: Any,
    room: Any,
    weight: Any,
    row: Any,
) -> None:
    """Add the scores of a scaled event z by its leaf, times the weight; room is workspace."""
    m, p, q, at, pair, output = leaf[0], leaf[1], leaf[2], leaf[3], leaf[4], leaf[5]
    vectors, wide = (m + LANES - 1) // LANES, (q + LANES - 1) // LANES
    exponent = _weighted_square(z, numbers[at : at + d])
    at += (d + LANES - 1) // LANES * LANES
    room[: vectors * LANES] = numbers[at : at + vectors * LANES]
    at += vectors * LANES
    rows_16.combine(z, numbers, at, room, d, vectors)
    at += d * vectors * LANES
    _exponentials(room, vectors * LANES, exponent)
    basis = vectors * LANES
    for n in range(p):
        room[basis + n] = room[pairs[pair + n, 0]] * room[pairs[pair + n, 1]]
    basis += p
    filled = (basis + LANES - 1) // LANES
    if q == 1:
        room[basis : filled * LANES] = 0.0
        score = numbers[at] + rows_16.dot(room, numbers, at + LANES, filled)
        if len(row) == 1:
            row[0] += weight * score
        else:
            for k in range(len(row)):
                row[k] += weight * absent
            row[outputs[output]] -= weight * absent
        return
    totals = room[filled * LANES :]
    totals[: wide * LANES] = numbers[at : at + wide * LANES]
    rows_16.combine(room, numbers, at + wide * LANES, totals, basis, wide)
    less = _log_of_sum(totals, q, totals[wide * LANES :]) + absent
    for k in range(len(row)):
        row[k] += weight * absent
    for k in range(q):
        row[outputs[output + k]] += weight * (totals[k] - less)


def _evaluate(
    shift: Any,
    factor: Any,
    fill: Any,
    normals: Any,
    offsets: Any,
    children: Any,
    roots: Any,
    absent: Any,
    leaves: Any,
    numbers: Any,
    pairs: Any,
    outputs: Any,
    X: Any,
    workspace: Any,
    out: Any,
) -> Any:
    d = len(shift)
    z = workspace[: (d + LANES - 1) // LANES * LANES]
    room = workspace[len(z) :]
    weight = np.float32(1.0 / len(roots))
    for i in range(len(X)):
        if not _rescale(shift, factor, fill, X[i], z):
            return i
        row = out[i]
        row[:] = 0.0
        for t in range(len(roots)):
            n = _leaf(normals, offsets, children, roots[t], z)
            _add_leaf(leaves[n], absent[n], numbers, pairs, outputs, d, z, room, weight, row)
    return len(X)


_scores, _scores_of_many = _called(_evaluate), _in_parallel(_evaluate)
