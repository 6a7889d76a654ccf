"""The growing factor of a kernel matrix: a row a point, a column a landmark.

Entry (i, m) of the factor is ``(k(x_i, z_m) - sum_q F[i, q] L[m, q]) / L[m, m]`` for the landmark
z_m, with L the rows of the landmarks themselves. The sums of a few points with a few landmarks stay
in registers while both pass by, a line of memory at a time; so the factor is read once for
`_TOGETHER` landmarks. Which columns a sum takes in lanes and which, at most `_TOGETHER` - 1, one by
one, depends on m alone: a point's row has the same bits however its columns are divided into
blocks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends import LINE
from streamk.backends.numba_backend.compiling import compiled
from streamk.backends.numba_backend.simd.vectors import Emitter, data

_TOGETHER = 4
"""Landmarks whose sums stay in registers together; a power of two."""
_ROWS = 64
"""Points whose rows stay in the second cache while all landmarks of a block pass."""


def _emit(
    builder: Any, e: Emitter, points: list[Any], landmarks: list[Any], d: Any, by: Any
) -> Any:
    """Emit the sums of products of rows of d numbers, each point with each landmark."""
    ahead = builder.mul(by, e.size(len(points)))
    whole = builder.udiv(d, e.size(e.lanes))
    done = builder.mul(whole, e.size(e.lanes))
    rest = builder.sub(d, done)

    def add(j: Any, totals: list[Any]) -> list[Any]:
        at = e.offset((j, e.size(e.lanes)))
        xs, zs = ([e.load(e.at(row, at)) for row in rows] for rows in (points, landmarks))
        for row in points:
            place = e.at(row, e.offset((ahead, e.size(1)), (j, e.size(e.lanes))))
            e.prefetch(place)
        return products(xs, zs, totals)

    def products(xs: list[Any], zs: list[Any], totals: list[Any]) -> list[Any]:
        pairs = [(x, z) for z in zs for x in xs]
        return [e.fma(x, z, total) for (x, z), total in zip(pairs, totals, strict=True)]

    zeros = [e.constant(0.0)] * (len(points) * len(landmarks))
    totals = e.loop(whole, zeros, add)
    xs, zs = (
        [e.load_some(e.at(row, done), 0, rest) for row in rows] for rows in (points, landmarks)
    )
    return e.totals(products(xs, zs, totals))


def _tile(rows: int, landmarks: int) -> Any:
    """Return the intrinsic that sums the products of some rows of F with some of L into S.

    Its arguments are F, L and S, where each begins, the numbers between the rows of F and of L, the
    columns, and how many rows of L there are: the last one stands for those that are missing.
    """

    @intrinsic
    def tile(
        _: Any, F: Any, L: Any, S: Any, f_at: Any, l_at: Any, s_at: Any, by: Any, step: Any, d: Any,
        count: Any,
    ) -> Any:  # fmt: skip
        sizes = (f_at, l_at, s_at, by, step, d, count)
        signature = types.void(F, L, S, *(types.int64 for _ in sizes))

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args
            f, l, s = (data(context, builder, kinds[i], values[i]) for i in range(3))  # noqa: E741
            f_at, l_at, s_at, by, step, d, count = values[3:]
            element = context.get_data_type(kinds[0].dtype)
            e = Emitter(builder, element, lanes=LINE // (4 if element == ir.FloatType() else 8))
            points = [e.at(f, e.offset((f_at, e.size(1)), (e.size(i), by))) for i in range(rows)]
            others, place = [], e.at(l, l_at)
            for i in range(landmarks):
                others.append(place)
                there = builder.icmp_signed("<", e.size(i + 1), count)
                place = builder.select(there, e.at(place, step), place)
            totals = _emit(builder, e, points, others, d, by)
            for j in range(landmarks):
                own = e.chosen(totals, range(j * rows, (j + 1) * rows))
                place = e.at(s, e.offset((s_at, e.size(1)), (e.size(j), e.size(_ROWS))))
                stored = builder.store(own, builder.bitcast(place, own.type.as_pointer()))
                stored.align = e.bytes
            return context.get_dummy_value()

        return signature, codegen

    return tile


_four_by_four, _one_by_four = _tile(4, _TOGETHER), _tile(1, _TOGETHER)
_four_by_one, _one_by_one = _tile(4, 1), _tile(1, 1)


@compiled
def _sums(F: Any, L: Any, S: Any, r: Any, rows: Any, m: Any, count: Any, d: Any) -> None:
    """Write the sums of `rows` points with `count` landmarks over d columns, a landmark a row."""
    by, step = F.strides[0] // F.itemsize, L.strides[0] // L.itemsize
    fours = rows - rows % 4
    if count > 1:
        for i in range(0, fours, 4):
            _four_by_four(F, L, S, (r + i) * by, m * step, i, by, step, d, count)
        for i in range(fours, rows):
            _one_by_four(F, L, S, (r + i) * by, m * step, i, by, step, d, count)
    else:
        for i in range(0, fours, 4):
            _four_by_one(F, L, S, (r + i) * by, m * step, i, by, step, d, count)
        for i in range(fours, rows):
            _one_by_one(F, L, S, (r + i) * by, m * step, i, by, step, d, count)


@compiled
def extend(K: Any, L: Any, F: Any, start: Any, delta: Any) -> None:
    """Append columns to the factor, from column `start` on, and take their squares off delta."""
    new, n = K.shape
    one = F.dtype.type(1.0)
    S = np.empty((_TOGETHER, _ROWS), F.dtype)
    for r in range(0, n, _ROWS):
        rows = min(_ROWS, n - r)
        f, left = F[r : r + rows], delta[r : r + rows]
        m = 0
        while m < new:
            before = (start + m) - (start + m) % _TOGETHER
            count = min(new - m, before + _TOGETHER - (start + m))
            _sums(F, L, S, r, rows, m, count, before)
            skipped = start + m - before
            for j in range(count):
                s, k, pivot = S[j], K[m + j, r : r + rows], one / L[m + j, start + m + j]
                for q in range(skipped):
                    t, l = f[:, before + q], L[m + j, before + q]  # noqa: E741
                    for i in range(rows):
                        s[i] += t[i] * l
                for q in range(j):
                    t, l = S[q], L[m + j, start + m + q]  # noqa: E741
                    for i in range(rows):
                        s[i] += t[i] * l
                for i in range(rows):
                    value = (k[i] - s[i]) * pivot
                    s[i] = value
                    left[i] -= np.float64(value) * np.float64(value)
                column = f[:, start + m + j]
                for i in range(rows):
                    column[i] = s[i]
            m += count


@compiled
def choose(K: Any, F: Any, start: Any, delta: Any, least: Any, places: Any, schur: Any) -> Any:
    """Append a column for the row of the largest delta, and go on while that exceeds `least`."""
    row = np.empty((1, F.shape[1]), F.dtype)
    for m in range(len(places)):
        place = delta.argmax()  # that of a NaN if there is one
        if m > 0 and not delta[place] > least:
            return m
        places[m], schur[m] = place, delta[place]
        row[0] = F[place]
        row[0, start + m] = math.sqrt(delta[place])
        extend(K[place : place + 1], row, F, start + m, delta)
        delta[place] = -np.inf
    return len(places)
