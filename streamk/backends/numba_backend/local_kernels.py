"""Prediction by a tree of small kernel models; see `streamk.backends.LocalKernels`.

An event is scaled, routed down the tree and evaluated at its leaf in one pass, by vectors of LANES
numbers in single precision. Nothing is allocated: `scores` has its workspace from the caller.

Arrays come with places in them as numbers: numba would count a slice's references, and check each
index for being negative, which takes as long as a small model.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from streamk.backends import FARTHEST_LOCAL, LANES, Array, LocalKernels, filled
from streamk.backends.jit.compiling import compiling, parts
from streamk.backends.jit.lanes import fma, greatest, load, repeated, store, summed, where
from streamk.backends.numba_backend.exponential import decayed_vector

_LEAST = np.float32(-(2.0**127))
_part = parts(fastmath={"contract"}, forceinline=True)
_called = compiling(fastmath={"contract"})
"""It keeps the interpreter's lock, so that two threads never share its workspace."""
_in_parallel = compiling(nogil=True, fastmath={"contract"})
_MANY = 256
"""Rows from which on the interpreter's lock is let go."""


@_part
def _affine(w: Any, M: Any, at: Any, out: Any, to: Any, rows: Any, stride: Any) -> None:
    """Write numbers and so many rows, all of M[at] and on, times 1 and w, to out[to] and on.

    A row has `stride` numbers, a multiple of LANES.
    """
    zero, fours = np.float32(0.0), rows - rows % 4
    for first in range(0, stride, LANES):
        p, q = load(M, at + first), repeated(zero)
        r, s = q, q
        for i in range(0, fours, 4):  # one sum would wait for its last addition
            place = at + first + (i + 1) * stride
            p = fma(load(M, place), w[i], p)
            q = fma(load(M, place + stride), w[i + 1], q)
            r = fma(load(M, place + 2 * stride), w[i + 2], r)
            s = fma(load(M, place + 3 * stride), w[i + 3], s)
        p = (p + q) + (r + s)
        for i in range(fours, rows):
            p = fma(load(M, at + first + (i + 1) * stride), w[i], p)
        store(p, out, to + first)


@_part
def _dot(a: Any, M: Any, at: Any, size: Any) -> Any:
    """Return the inner product of a and the numbers from M[at] on, a multiple of LANES."""
    total = repeated(np.float32(0.0))
    for i in range(0, size, LANES):
        total = fma(load(a, i), load(M, at + i), total)
    return summed(total)


@_part
def _squares(a: Any, M: Any, at: Any, size: Any) -> Any:
    """Return the sum of the squares of a, times the numbers from M[at] on."""
    total = repeated(np.float32(0.0))
    for i in range(0, size, LANES):
        x = load(a, i)
        total = fma(x * x, load(M, at + i), total)
    return summed(total)


@_part
def _exponentials(room: Any, size: Any, shift: Any) -> None:
    """Put exp(min(x + shift, 0)) in the place of x."""
    zero = np.float32(0.0)
    for i in range(0, size, LANES):
        x = load(room, i) + shift
        store(decayed_vector(where(x < zero, x, zero)), room, i)


@_part
def _greatest(room: Any, at: Any, size: Any) -> Any:
    """Return the greatest of the numbers from room[at] on."""
    most = repeated(_LEAST)
    for i in range(0, size, LANES):
        x = load(room, at + i)
        most = where(most > x, most, x)
    return greatest(most)


def find_leaves(model: LocalKernels, X: Array, out: Array) -> None:
    """Write the leaves of raw events X, float64 (n, d), to out, int64 (n, trees)."""
    model = model._replace(normals=model.filled_normals)
    _find(*model[:7], X, np.zeros(model.normals.shape[1], np.float32), out)


class Evaluator:
    """Evaluates a model; several threads may do so at once."""

    def __init__(self, model: LocalKernels) -> None:
        self._model = model._replace(normals=model.filled_normals)
        self._size = filled(len(model.shift)) + model.workspace
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
def _rescale(shift: Any, factor: Any, fill: Any, X: Any, i: Any, z: Any) -> Any:
    """Write the scaled event i; return whether it is finite."""
    finite = True
    for j in range(len(shift)):
        value = X[i, j]
        finite &= abs(value) != np.inf
        value = value if value == value else fill[j]  # NaN differs from itself
        value = (value - shift[j]) * factor[j]
        value = value if value < FARTHEST_LOCAL else FARTHEST_LOCAL
        z[j] = value if value > -FARTHEST_LOCAL else -FARTHEST_LOCAL
    return finite


@_part
def _leaf(normals: Any, offsets: Any, children: Any, node: Any, z: Any) -> Any:
    wide = normals.shape[1]
    while node >= 0:
        right = _dot(z, normals, node * wide, wide) >= offsets[node]
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
        _rescale(shift, factor, fill, X, i, z)
        for t in range(len(roots)):
            out[i, t] = _leaf(normals, offsets, children, roots[t], z)


@_part
def _add_leaf(
    leaves: Any,
    leaf: Any,
    absent: Any,
    numbers: Any,
    pairs: Any,
    outputs: Any,
    d: Any,
    z: Any,
    room: Any,
    weight: Any,
    out: Any,
    i: Any,
) -> None:
    """Add the scores of the scaled event z by its leaf, times the weight, to row i of out."""
    m, p, q, at = leaves[leaf, 0], leaves[leaf, 1], leaves[leaf, 2], leaves[leaf, 3]
    pair, output = leaves[leaf, 4], leaves[leaf, 5]
    wide, some = -(-m // LANES) * LANES, -(-q // LANES) * LANES
    exponent = _squares(z, numbers, at, len(z))
    at += len(z)
    _affine(z, numbers, at, room, 0, d, wide)
    at += (1 + d) * wide
    _exponentials(room, wide, exponent)
    for n in range(p):
        room[wide + n] = room[pairs[pair + n, 0]] * room[pairs[pair + n, 1]]
    basis = wide + p
    end = (basis + LANES - 1) // LANES * LANES
    if out.shape[1] == 1:
        for n in range(basis, end):
            room[n] = 0.0
        score = numbers[at] + _dot(room, numbers, at + LANES, end)
        out[i, 0] += weight * score
        return
    missing = weight * absent[leaf]
    for k in range(out.shape[1]):
        out[i, k] += missing
    if q == 1:  # the only one is the greatest, and its weights lie otherwise
        out[i, outputs[output]] -= missing
        return
    _affine(room, numbers, at, room, end, basis, some)
    less = weight * _greatest(room, end, some) + missing
    for k in range(q):
        out[i, outputs[output + k]] += weight * room[end + k] - less


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
        if not _rescale(shift, factor, fill, X, i, z):
            return i
        for k in range(out.shape[1]):
            out[i, k] = 0.0
        for t in range(len(roots)):
            leaf = _leaf(normals, offsets, children, roots[t], z)
            _add_leaf(leaves, leaf, absent, numbers, pairs, outputs, d, z, room, weight, out, i)
    return len(X)


def _named_otherwise(function: Any, name: str) -> FunctionType:
    """Return the same function with a cache of its own.

    numba's cache tells functions apart by their names, and not by `nogil`.
    """
    copy = FunctionType(function.__code__, function.__globals__, name)
    copy.__qualname__ = name
    return copy


_scores = _called(_evaluate)
_scores_of_many = _in_parallel(_named_otherwise(_evaluate, "_evaluate_many"))
