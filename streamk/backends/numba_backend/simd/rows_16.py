"""Weighted sums of rows in single precision, in explicit vectors of sixteen numbers."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from streamk.backends import LANES
from streamk.backends.numba_backend.simd.vectors import Emitter, data

_AT_ONCE = 4
"""Sums that go on side by side: one would wait for the last addition."""


def _combine(_: Any, w: Any, M: Any, at: Any, out: Any, rows: Any, vectors: Any) -> Any:
    """Add the rows of the matrix that begins at M[at], times w, to out.

    M, w and out are float32; a row, and out, has so many vectors of LANES numbers.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e = Emitter(builder, context.get_data_type(types.float32))
        weights, matrix, sums = (
            data(context, builder, signature.args[i], values[i]) for i in (0, 1, 3)
        )
        matrix, count, width = e.at(matrix, values[2]), values[4], values[5]
        stride = builder.mul(width, e.size(LANES))
        rounds = builder.udiv(count, e.size(_AT_ONCE))
        done = builder.mul(rounds, e.size(_AT_ONCE))

        def vector(v: Any, _: Any) -> list[Any]:
            first = builder.mul(v, e.size(LANES))

            def add(row: Any, total: Any) -> Any:
                place = e.at(matrix, builder.add(builder.mul(row, stride), first))
                weight = e.splat(builder.load(e.at(weights, row)))
                return e.fma(weight, e.load(place), total)

            def several(n: Any, totals: list[Any]) -> list[Any]:
                row = builder.mul(n, e.size(_AT_ONCE))
                return [add(builder.add(row, e.size(j)), t) for j, t in enumerate(totals)]

            def one(n: Any, totals: list[Any]) -> list[Any]:
                return [add(builder.add(done, n), totals[0])]

            place = e.at(sums, first)
            begins = [e.load(place), *[e.constant(0.0)] * (_AT_ONCE - 1)]
            p, q, r, s = e.loop(rounds, begins, several)
            total = builder.fadd(builder.fadd(p, q), builder.fadd(r, s))
            (total,) = e.loop(builder.sub(count, done), [total], one)
            e.store(total, place)
            return []

        e.loop(width, [], vector)
        return context.get_dummy_value()

    return types.void(w, M, at, out, rows, vectors), codegen


def _dot(_: Any, a: Any, M: Any, at: Any, vectors: Any) -> Any:
    """Return the inner product of a and of the numbers from M[at] on, of so many vectors."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e = Emitter(builder, context.get_data_type(types.float32))
        left, right = (data(context, builder, signature.args[i], values[i]) for i in (0, 1))
        right = e.at(right, values[2])

        def add(v: Any, totals: list[Any]) -> list[Any]:
            first = builder.mul(v, e.size(LANES))
            return [e.fma(e.load(e.at(left, first)), e.load(e.at(right, first)), totals[0])]

        (total,) = e.loop(values[3], [e.constant(0.0)], add)
        return builder.extract_element(e.totals([total]), e.size(0))

    return types.float32(a, M, at, vectors), codegen


combine: Any = intrinsic(_combine)
dot: Any = intrinsic(_dot)
