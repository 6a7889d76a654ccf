"""Prediction by a tree of small kernel models; see `streamk.backends.LocalKernels`.

An event is scaled, routed down the tree and evaluated at its leaf in one pass, by vectors of LANES
numbers in single precision. Nothing is allocated: `scores` has its workspace from the caller.

Arrays come with places in them as numbers: numba would count a slice's references, and check each
index for being negative, which takes as long as a small model.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from streamk.backends import FARTHEST_LOCAL, LANES, Array, LocalKernels, filled
from streamk.backends.jit.compiling import compiling, parts
from streamk.backends.jit.vectors import Emitter, emitted
from streamk.backends.numba_backend.exponential import SINGLE

_LEAST = -(2.0**127)
_FLOAT = ir.FloatType()


def _decayed(e: Emitter, x: Any) -> Any:
    """Return exp(x) of x <= 0, 0 where it is below normal, see `exponential`."""
    b, c = e.builder, SINGLE
    shifted = e.fma(x, e.constant(c.turns), e.constant(c.big))
    n = b.fsub(shifted, e.constant(c.big))
    r = e.fma(n, e.constant(-c.high), x)
    r = e.fma(n, e.constant(-c.low), r)
    g = e.constant(c.polynomial[-1])
    for coefficient in c.polynomial[-2::-1]:
        g = e.fma(g, r, e.constant(coefficient))
    whole = ir.VectorType(ir.IntType(32), e.lanes)
    bits = b.shl(b.bitcast(shifted, whole), ir.Constant(whole, [c.shift] * e.lanes))
    power = b.bitcast(b.add(bits, ir.Constant(whole, [c.bias] * e.lanes)), e.vector)
    value = b.fmul(b.fadd(e.fma(b.fmul(g, r), r, r), e.constant(1.0)), power)
    return b.select(b.fcmp_ordered("<", x, e.constant(c.least)), e.constant(0.0), value)


@emitted()
def affine(
    builder: Any, w: Any, M: Any, at: Any, bias: Any, out: Any, to: Any, rows: Any, vectors: Any
) -> None:
    """Write M[bias] and on, and the rows of the matrix from M[at] on, times w, to out[to] and on.

    A row, and the sum, has so many vectors of LANES numbers.
    """
    e = Emitter(builder, _FLOAT)
    stride = builder.mul(vectors, e.size(LANES))

    def vector(v: Any, _: Any) -> list[Any]:
        """Sum the rows, times their weights, in the columns of one vector."""
        first = builder.mul(v, e.size(LANES))

        def add(row: Any, total: Any) -> Any:
            place = e.at(e.at(M, at), builder.add(builder.mul(row, stride), first))
            weight = e.splat(builder.load(e.at(w, row)))
            return e.fma(weight, e.load(place), total)

        start = e.load(e.at(e.at(M, bias), first))
        e.store(e.summed(rows, add, start), e.at(e.at(out, to), first))
        return []

    e.loop(vectors, [], vector)


@emitted(types.float32)
def dot(builder: Any, a: Any, M: Any, at: Any, vectors: Any) -> Any:
    """Return the inner product of a and of the numbers from M[at] on, of so many vectors."""
    return _summed(builder, a, M, at, vectors, lambda x: x)


@emitted(types.float32)
def squares(builder: Any, a: Any, M: Any, at: Any, vectors: Any) -> Any:
    """Return the sum of the squares of a, times the numbers from M[at] on."""
    return _summed(builder, a, M, at, vectors, lambda x: builder.fmul(x, x))


def _summed(
    builder: Any, a: Any, M: Any, at: Any, vectors: Any, factor: Callable[[Any], Any]
) -> Any:
    """Emit a sum of products, whose first factors are made of the numbers of a."""
    e = Emitter(builder, _FLOAT)
    right = e.at(M, at)

    def add(v: Any, totals: list[Any]) -> list[Any]:
        first = builder.mul(v, e.size(LANES))
        return [e.fma(factor(e.load(e.at(a, first))), e.load(e.at(right, first)), totals[0])]

    (total,) = e.loop(vectors, [e.constant(0.0)], add)
    return builder.extract_element(e.totals([total]), e.size(0))


@emitted()
def exponentials(builder: Any, room: Any, vectors: Any, shift: Any) -> None:
    """Put exp(min(x + shift, 0)) in the place of x, so many vectors."""
    e = Emitter(builder, _FLOAT)
    added, zero = e.splat(shift), e.constant(0.0)

    def vector(v: Any, _: Any) -> list[Any]:
        place = e.at(room, builder.mul(v, e.size(LANES)))
        x = builder.fadd(e.load(place), added)
        e.store(_decayed(e, builder.select(builder.fcmp_ordered("<", x, zero), x, zero)), place)
        return []

    e.loop(vectors, [], vector)


@emitted(types.float32)
def maximum(builder: Any, room: Any, at: Any, vectors: Any) -> Any:
    """Return the greatest of so many vectors of numbers from room[at] on."""
    e = Emitter(builder, _FLOAT)
    numbers = e.at(room, at)

    def greater(a: Any, b: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", a, b), a, b)

    def look(v: Any, most: list[Any]) -> list[Any]:
        return [greater(most[0], e.load(e.at(numbers, builder.mul(v, e.size(LANES)))))]

    (most,) = e.loop(vectors, [e.constant(_LEAST)], look)
    for stride in (8, 4, 2, 1):
        most = greater(most, e.chosen(most, [lane ^ stride for lane in range(LANES)]))
    return builder.extract_element(most, e.size(0))


_part = parts(fastmath={"contract"}, forceinline=True)
_called = compiling(fastmath={"contract"})
"""It keeps the interpreter's lock, so that two threads never share its workspace."""
_in_parallel = compiling(nogil=True, fastmath={"contract"})
_MANY = 256
"""Rows from which on the interpreter's lock is let go."""


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
        right = dot(z, normals, node * wide, wide // LANES) >= offsets[node]
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
    vectors, some = (m + LANES - 1) // LANES, (q + LANES - 1) // LANES
    wide = vectors * LANES
    exponent = squares(z, numbers, at, len(z) // LANES)
    at += len(z)
    affine(z, numbers, at + wide, at, room, 0, d, vectors)
    at += (1 + d) * wide
    exponentials(room, vectors, exponent)
    for n in range(p):
        room[wide + n] = room[pairs[pair + n, 0]] * room[pairs[pair + n, 1]]
    basis = wide + p
    end = (basis + LANES - 1) // LANES * LANES
    if out.shape[1] == 1:
        for n in range(basis, end):
            room[n] = 0.0
        score = numbers[at] + dot(room, numbers, at + LANES, end // LANES)
        out[i, 0] += weight * score
        return
    missing = weight * absent[leaf]
    for k in range(out.shape[1]):
        out[i, k] += missing
    if q == 1:  # the only one is the greatest, and its weights lie otherwise
        out[i, outputs[output]] -= missing
        return
    affine(room, numbers, at + some * LANES, at, room, end, basis, some)
    less = weight * maximum(room, end, some) + missing
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
