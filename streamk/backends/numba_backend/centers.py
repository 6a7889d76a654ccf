"""Sums of kernels of many centers, which lie in the lanes of vectors.

``f(x) = sum over centers of a_j k(x, z_j)``. The centers lie in groups of `GROUP` slots: their
points (groups, d, GROUP) with those of a group in the lanes of vectors, and their coefficients
(parts, slots, lanes) with the outputs in the lanes, so many parts as there are needed for all
outputs: GROUP lanes, or one where there are up to `FEW` outputs. Both are float32; where there is
no center or no output, they are 0.

All arrays are C-contiguous. What is computed for a row is the same, bit for bit, whatever rows are
computed with it.

A group's kernels with a tile of rows, and what they add to the outputs, are sums in registers, over
columns and over centers. Nothing of a center is rearranged for a row, so that a single one takes
about as long as its share of many.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import GROUP, LANES, Functions, KernelNumbers, sum_factor
from streamk.backends.jit.compiling import compiled, copy, exact, exact_part, part, short
from streamk.backends.jit.lanes import fma, load, repeated, summed
from streamk.backends.numba_backend.learning import _missed_by
from streamk.backends.numba_backend.pairwise import _pairwise, multiply, of_sums, sums, with_columns

__all__ = [
    "add",
    "add_one",
    "ask_one",
    "expand",
    "follow",
    "follow_one",
    "lay",
    "learn_one",
]

_ROWS = 32
"""Rows of a tile."""
_BRIEF = 1 << 18
"""Numbers of centers up to which one event keeps the interpreter: some 20 microseconds."""
_TILES = 8
"""Groups over which a sum is in single precision, where outputs are few."""


@exact
def _lay(points: Any, slots: Any, laid: Any) -> None:
    for i in range(points.shape[0]):
        group, lane = slots[i] // GROUP, slots[i] % GROUP
        for j in range(points.shape[1]):
            laid[group, j, lane] = points[i, j]


def lay(points: Any, slots: Any, laid: Any) -> None:
    """Write points (n, d) into the slots (n,), of which group g has those from g GROUP on."""
    _lay(points, slots, laid)


@compiled
def _expand(code: Any, parameter: Any, f: Any, X: Any, laid: Any, A: Any, out: Any) -> None:
    (n, d), groups, outputs = X.shape, laid.shape[0], out.shape[1]
    rows = min(n, _ROWS)
    K, spare = np.empty(rows * GROUP, X.dtype), np.empty(rows * GROUP, X.dtype)
    for r in range(0, n, rows):
        count = min(rows, n - r)
        out[r : r + count] = 0.0
        for g in range(groups):
            sums(code, laid, g * d * GROUP, d, X, r * d, count, d, 1, f, K)
            of_sums(code, parameter, f, K[: count * GROUP], spare)
            for q in range(A.shape[0]):
                first = (q * A.shape[1] + g * GROUP) * GROUP
                multiply(A, first, GROUP, K, 0, count, GROUP, 1, spare)
                for i in range(count):
                    for o in range(min(GROUP, outputs - q * GROUP)):
                        out[r + i, q * GROUP + o] += spare[i * GROUP + o]


@part
def _weigh(K: Any, A: Any, k: Any, a: Any, row: Any, tiles: Any) -> Any:
    """Return the sum over some tiles of one row's kernels times the coefficients of an output.

    The row's kernels with the first tile begin at number k of K, those with the next one `row`
    further; the coefficients at a of A, one tile after the other. Lanes are summed up at last.
    """
    p = repeated(K.dtype.type(0.0))
    q = p
    for i in range(tiles):
        x, y = k + i * row, a + i * GROUP
        p = fma(load(K, x), load(A, y), p)
        q = fma(load(K, x + LANES), load(A, y + LANES), q)
    return summed(p + q)


@compiled
def _expand_each(code: Any, parameter: Any, f: Any, X: Any, laid: Any, A: Any, out: Any) -> None:
    """Do it for few outputs, each by itself: centers stay in the lanes until a sum is there."""
    (n, d), groups, (outputs, slots) = X.shape, laid.shape[0], A.shape
    rows = min(n, _ROWS)
    K, spare = np.empty(_TILES * rows * GROUP, X.dtype), np.empty(rows * GROUP, X.dtype)
    for r in range(0, n, rows):
        count = min(rows, n - r)
        out[r : r + count] = 0.0
        for g in range(0, groups, _TILES):
            tiles = min(_TILES, groups - g)
            for t in range(tiles):
                tile = K[t * rows * GROUP : (t * rows + count) * GROUP]
                sums(code, laid, (g + t) * d * GROUP, d, X, r * d, count, d, 1, f, tile)
                of_sums(code, parameter, f, tile, spare)
            for i in range(count):
                for o in range(outputs):
                    a = o * slots + g * GROUP
                    out[r + i, o] += _weigh(K, A, i * GROUP, a, rows * GROUP, tiles)


@short
def _expand_one(code: Any, parameter: Any, f: Any, X: Any, laid: Any, A: Any, out: Any) -> None:
    _expand(code, parameter, f, X, laid, A, out)


@short
def _expand_each_one(
    code: Any, parameter: Any, f: Any, X: Any, laid: Any, A: Any, out: Any
) -> None:
    _expand_each(code, parameter, f, X, laid, A, out)


def expand(kernel: KernelNumbers, X: Any, laid: Any, A: Any, out: Any) -> None:
    """Write f of the rows of X (n, d), float32, into `out` (n, outputs), float64.

    A is the coefficients (parts, slots, lanes). Over the centers of some groups sums are in
    float32, and beyond in float64.
    """
    f = sum_factor(kernel.code, kernel.parameter, kernel.scale, X.dtype)
    if laid.shape[1] == 0:  # at least one column
        X, laid = np.zeros((len(X), 1), X.dtype), np.zeros((len(laid), 1, GROUP), X.dtype)
    one = len(X) == 1 and laid.size <= _BRIEF
    loop: Any = _expand_one if one else _expand
    if A.shape[2] == 1:
        A, loop = A.reshape(A.shape[:2]), _expand_each_one if one else _expand_each
    loop(kernel.code, kernel.parameter, f, X, laid, A, out)


@exact
def _add(K: Any, known: Any, A: Any, outputs: Any) -> None:
    for i in range(outputs.shape[0]):
        for j in range(known[i]):
            for o in range(outputs.shape[1]):
                outputs[i, o] += K[i, j] * A[j, o]


def add(K: Any, known: Any, A: Any, outputs: Any) -> None:
    """Add what other centers give: for row i of `outputs` the first ``known[i]`` of them.

    They have the rows of A (all, outputs), float64, and their kernels with event i are in row
    i of K (n, all), float64.
    """
    _add(K, known, A, outputs)


@exact
def _follow(K: Any, Y: Any, ridges: Any, A: Any, errors: Any, first: Any, outputs: Any) -> None:
    each = Y.shape[1]
    for i in range(outputs.shape[0]):
        row = first + i
        for j in range(row):
            for o in range(outputs.shape[1]):
                outputs[i, o] += K[i, j] * A[j, o]
        for r in range(len(ridges)):
            squares = 0.0
            for o in range(each):
                missed = Y[i, o] - outputs[i, r * each + o]
                A[row, r * each + o] = missed / (1.0 + ridges[r])
                squares += missed * missed
            errors[r] += squares


def follow(K: Any, Y: Any, functions: Functions, first: int, outputs: Any) -> None:
    """Learn events one after the other, each of them a center from then on.

    Event i gets row ``first + i`` of the coefficients, and has its kernels with the centers
    before it in K, as of `add`. `outputs` (n, functions times outputs) has what all others
    give, and gets the whole outputs before the event is learned:
    ``a_i = (y_i - f(x_i)) / (1 + ridge)`` with the rows of Y (n, outputs), for each function.
    """
    _follow(K, Y, *functions, first, outputs)


@short
def _add_one(code: Any, parameter: Any, f: Any, x: Any, points: Any, A: Any, outputs: Any) -> None:
    K = np.empty((1, points.shape[0]), x.dtype)
    _pairwise(code, parameter, f, x, points, K)
    _add(K.astype(np.float64), np.array([points.shape[0]]), A, outputs)


def add_one(kernel: KernelNumbers, x: Any, points: Any, A: Any, outputs: Any) -> None:
    """Do `add` of all centers (m, d) for a single event x (1, d), both float32."""
    f = sum_factor(kernel.code, kernel.parameter, kernel.scale, x.dtype)
    x, points = with_columns(x), with_columns(points)
    _add_one(kernel.code, kernel.parameter, f, x, points, A, outputs)


@short
def _follow_one(
    code: Any, parameter: Any, f: Any, points: Any, Y: Any, ridges: Any, A: Any, errors: Any,
    outputs: Any,
) -> None:  # fmt: skip
    last = points.shape[0] - 1
    K = np.empty((1, last + 1), points.dtype)
    _pairwise(code, parameter, f, points[last:], points, K)
    _follow(K.astype(np.float64), Y, ridges, A, errors, last, outputs)


def follow_one(
    kernel: KernelNumbers, points: Any, Y: Any, functions: Functions, outputs: Any
) -> None:
    """Do `follow` for a single event, the last of the points (m, d), float32."""
    f = sum_factor(kernel.code, kernel.parameter, kernel.scale, points.dtype)
    _follow_one(kernel.code, kernel.parameter, f, with_columns(points), Y, *functions, outputs)


@exact_part
def _say(F: Any, errors: Any, constant: Any, most: Any, said: Any) -> None:
    """Write the outputs of the function with the least error, bounded; no number is 0."""
    best, each = 0, len(constant)
    for r in range(1, len(errors)):
        if errors[r] < errors[best]:
            best = r
    for o in range(each):
        f = F[0, best * each + o] + constant[o]
        said[0, o] = 0.0 if math.isnan(f) else min(max(f, -most), most)


@exact_part
def _give(code: Any, parameter: Any, f: Any, x: Any, laid: Any, A: Any, out: Any) -> None:
    if A.shape[2] == 1:
        _expand_each(code, parameter, f, x, laid, A.reshape((A.shape[0], A.shape[1])), out)
    else:
        _expand(code, parameter, f, x, laid, A, out)


@short
def ask_one(
    code: Any, parameter: Any, f: Any, laid: Any, A: Any,
    base_code: Any, base_parameter: Any, base_f: Any, done: Any, B: Any, last: Any, C: Any,
    points: Any, pending: Any, errors: Any, constant: Any, most: Any,
    learned: Any, x: Any, given: Any, said: Any,
) -> None:  # fmt: skip
    """Predict a single event x (1, d) by several functions of the same centers.

    To what its centers give, each function adds what the two parts of the base do: all of that is
    written to `given` (1, functions times outputs). Then come the first points (m, d), so many as
    are learned, with their rows of the coefficients `pending`, as of `add`. The outputs of the
    function with the least of the errors (functions,) and the constant (outputs,), bounded by
    `most`, are written to `said` (1, outputs). First of all come the numbers of the own
    `KernelSum`, and of those of the base, which have one kernel.
    """
    each = len(constant)
    _give(code, parameter, f, x, laid, A, given)
    if done.shape[0] or last.shape[0]:
        both = np.empty((2, 1, each))
        _give(base_code, base_parameter, base_f, x, done, B, both[0])
        _give(base_code, base_parameter, base_f, x, last, C, both[1])
        for o in range(given.shape[1]):
            given[0, o] += both[0, 0, o % each] + both[1, 0, o % each]
    F = given.copy()
    if learned:
        _add_one(code, parameter, f, x, points[:learned], pending, F)
    _say(F, errors, constant, most, said)


@short
def learn_one(
    code: Any, parameter: Any, f: Any, points: Any, labels: Any, pending: Any,
    ridges: Any, now: Any, errors: Any, constant: Any, most: Any, margins: Any,
    learned: Any, x: Any, y: Any, F: Any, said: Any,
    furthest: Any, largest: Any, total: Any, factor: Any, far: Any, sums: Any,
) -> Any:  # fmt: skip
    """Have a single event with label y (1,) as the next of the points, and do `follow_one` for it.

    F is what `ask_one` has given, the first numbers are those of its own `KernelSum`, and its
    outputs before are written to `said`. Margins are the outputs where labels are numbers of
    classes, and 0 where they are numbers. By these outputs it does `learning.missed`, with the
    last arguments, and returns the total.
    """
    copy(x[0], points[learned])
    labels[learned] = y[0]
    Y = np.empty((1, len(constant)))
    for o in range(len(constant)):
        if margins:
            Y[0, o] = (1.0 if y[0] == (o if margins > 1 else 1) else -1.0) - constant[o]
        else:
            Y[0, o] = y[0] - constant[o]
    _follow_one(code, parameter, f, points[: learned + 1], Y, ridges, pending, now, F)
    _say(F, errors, constant, most, said)
    return _missed_by(said, y, margins > 0, furthest, largest, total, factor, far, sums)
