"""Triangular systems, and a Cholesky factor that loses a row.

A triangular system has ``l^2 / 2`` multiply-adds, and each unknown waits for those before it. One
system goes by columns: when a block of unknowns is known, their multiples are added to the sums of
all that come after, in passes over consecutive numbers. `GROUP` systems with one factor lie in the
lanes of vectors, and the register tiles of `pairwise` make the sums of a few rows from all unknowns
before them. Either way a sum has the same terms in the same order, and so the same bits.

The factor L and its transpose lie in one symmetric square whose side is a multiple of `LANES`. Read
from the last row and column backwards it is the factor of the other system, ``L' q = phi``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from streamk.backends import GROUP, LANES, KernelCode
from streamk.backends.numba_backend.compiling import compiled, part
from streamk.backends.numba_backend.pairwise import sums as tile_sums
from streamk.backends.numba_backend.simd.vectors import Emitter, data

ROWS = 8
"""Unknowns of a group's systems whose sums over all earlier ones are made together."""
_LINEAR = KernelCode.LINEAR


def _type_add_rows(_: Any, S: Any, s: Any, v: Any, at: Any, by: Any, s_at: Any, chunks: Any) -> Any:
    """Add to consecutive sums the multiples of LANES rows, one row after the other.

    The rows' numbers begin at `at` in S and lie `by` apart, the sums at `s_at`; there are `chunks`
    times LANES of them. v holds the factors.
    """
    sizes = (at, by, s_at, chunks)
    signature = types.void(S, s, v, *(types.int64 for _ in sizes))

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        rows, sums, factors = (
            data(context, builder, kind, value)
            for kind, value in zip(signature.args[:3], values[:3], strict=True)
        )
        at, by, s_at, chunks = values[3:]
        e = Emitter(builder, context.get_data_type(signature.args[0].dtype))
        splats = [e.splat(builder.load(e.at(factors, e.size(i)))) for i in range(LANES)]
        first = [e.at(rows, e.offset((at, e.size(1)), (by, e.size(i)))) for i in range(LANES)]
        total = e.at(sums, s_at)

        def add(chunk: Any, _: list[Any]) -> list[Any]:
            offset = e.offset((chunk, e.size(LANES)))
            place = e.at(total, offset)
            sum_ = e.load(place)
            for row, factor in zip(first, splats, strict=True):
                sum_ = e.fma(e.load(e.at(row, offset)), factor, sum_)
            e.store(sum_, place)
            return []

        e.loop(chunks, [], add)
        return context.get_dummy_value()

    return signature, codegen


_add_rows: Any = intrinsic(_type_add_rows)


@part
def solve_one(S: Any, size: Any, k: Any, s: Any) -> None:
    """Turn k into ``L^-1 k``; `s` is room, as many numbers as S has rows."""
    flat, stride, v = S.reshape(-1), S.shape[1], np.empty(LANES)
    s[:] = 0.0
    for first in range(0, size, LANES):
        stop = min(size, first + LANES)
        for i in range(first, stop):
            row, sum_ = S[i], s[i]
            for m in range(first, i):
                sum_ += row[m] * k[m]
            k[i] = (k[i] - sum_) / row[i]
        if stop < size:
            v[:] = k[first:stop]
            chunks = (size - stop + LANES - 1) // LANES
            _add_rows(flat, s, v, first * stride + stop, stride, stop, chunks)


@part
def solve_one_back(S: Any, size: Any, k: Any, s: Any) -> None:
    """Turn k into ``L^-T k``."""
    flat, stride, v = S.reshape(-1), S.shape[1], np.zeros(LANES)
    s[:] = 0.0
    for first in range((size - 1) // LANES * LANES, -1, -LANES):
        stop = min(size, first + LANES)
        for i in range(stop - 1, first - 1, -1):
            row, sum_ = S[i], s[i]
            for m in range(stop - 1, i, -1):
                sum_ += row[m] * k[m]
            k[i] = (k[i] - sum_) / row[i]
            v[first + LANES - 1 - i] = k[i]
        # The factors of rows that the last block lacks are still 0.
        last = (first + LANES - 1) * stride
        _add_rows(flat, s, v, last, -stride, 0, first // LANES)


@part
def solve_lanes(S: Any, size: Any, back: Any, T: Any, R: Any) -> None:
    """Turn a group's right-hand sides, T[m * GROUP + lane], into its solutions.

    With `back` they are those of ``L' q = phi``, from the last unknown to the first.
    """
    flat, stride = S.reshape(-1), S.shape[1]
    at, by, step = (0, stride, 1)
    if back:
        at, by, step = (size - 1) * (stride + 1), -stride, -1
    for first in range(0, size, ROWS):
        rows = min(ROWS, size - first)
        if first > 0:
            tile_sums(_LINEAR, T, 0, first, flat, at + first * by, rows, by, step, 0.0, R)
        else:
            R[:] = 0.0
        for i in range(rows):
            place = at + (first + i) * by + first * step
            sums = R[i * GROUP : (i + 1) * GROUP]
            for m in range(i):
                factor, start = flat[place + m * step], (first + m) * GROUP
                for lane in range(GROUP):
                    sums[lane] += factor * T[start + lane]
            pivot, start = flat[place + i * step], (first + i) * GROUP
            for lane in range(GROUP):
                T[start + lane] = (T[start + lane] - sums[lane]) / pivot


@compiled
def _remove_row(S: Any, size: Any, j: Any, cosines: Any, sines: Any) -> None:
    last = size - 1
    for i in range(j):
        row = S[i]
        for c in range(j, last):
            row[c] = row[c + 1]
    carried = S[j, 1:size].copy()
    for i in range(j, last):
        above, below = S[i], S[i + 1]
        a, b = carried[i], below[i + 1]
        r = math.sqrt(a * a + b * b)
        c, s = a / r, b / r
        cosines[i - j], sines[i - j] = c, s
        for m in range(i, last):
            x, y = carried[m], below[m + 1]
            above[m] = c * x + s * y
            carried[m] = c * y - s * x
        above[i] = r
    for i in range(j, last):
        for m in range(i):
            S[i, m] = S[m, i]


@compiled
def _residual(S: Any, size: Any, W: Any) -> Any:
    flat, stride, v = S.reshape(-1), S.shape[1], np.empty(LANES)
    worst, row = 0.0, np.empty(S.shape[0])
    for i in range(size):
        row[:] = 0.0
        start = i // LANES * LANES
        chunks = (size - start + LANES - 1) // LANES
        for first in range(0, i + 1, LANES):
            stop = min(i + 1, first + LANES)
            v[:] = 0.0
            v[: stop - first] = S[i, first:stop]
            _add_rows(flat, row, v, first * stride + start, stride, start, chunks)
        for c in range(i, size):
            worst = max(worst, abs(row[c] - W[i, c]))
    return worst


@compiled
def _factorise(W: Any, S: Any, least: Any) -> Any:
    size = len(W)
    k, s = np.empty(size), np.empty(S.shape[0])
    for i in range(size):
        k[:] = W[i]
        solve_one(S, i, k, s)
        left = W[i, i]
        for m in range(i):
            left -= k[m] * k[m]
        if not left > least:
            return i
        S[i, :i] = k[:i]
        S[:i, i] = k[:i]
        S[i, i] = math.sqrt(left)
    return size


@compiled
def _solve_rows(S: Any, K: Any, back: Any) -> None:
    s = np.empty(S.shape[0])
    for r in range(K.shape[0]):
        if back:
            solve_one_back(S, K.shape[1], K[r], s)
        else:
            solve_one(S, K.shape[1], K[r], s)


def solve(S: Any, K: Any) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-1 k``."""
    _solve_rows(S, K, False)


def solve_back(S: Any, K: Any) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-T k``."""
    _solve_rows(S, K, True)


def remove_row(S: Any, size: int, j: int, cosines: Any, sines: Any) -> None:
    """Make of the factor of W, of that size, the factor of W without row and column j.

    L without row j has a number beyond the diagonal in each later row. Rotations of
    neighbouring columns, from j on, put them away; `cosines` and `sines` (size - 1 - j,) tell
    them.
    """
    _remove_row(S, size, j, cosines, sines)


def residual(S: Any, W: Any) -> float:
    """Return the largest error of an element of ``L L'``."""
    return float(_residual(S, len(W), W))


def factorise(W: Any, S: Any, least: float) -> int:
    """Write the factor of the first rows and columns of `W` (l, l) into `S`, return how many.

    They end where a Schur complement is not above `least`, or with W.
    """
    return int(_factorise(W, S, least))
