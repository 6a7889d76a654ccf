"""Loops of prediction over rows of sixteen numbers in single precision, in explicit vectors.

Arrays come with places in them as numbers: numba would count a slice's references, and check each
index for being negative, which takes as long as a small model.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends import LANES
from streamk.backends.numba_backend.simd.exponential import SINGLE
from streamk.backends.numba_backend.simd.vectors import Emitter, data

_LEAST = -(2.0**127)
_AT_ONCE = 4
"""Sums that go on side by side: one would wait for the last addition."""


def _emitter(context: Any, builder: Any) -> Emitter:
    return Emitter(builder, context.get_data_type(types.float32))


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


def _affine(
    _: Any, w: Any, M: Any, at: Any, bias: Any, out: Any, to: Any, rows: Any, vectors: Any
) -> Any:
    """Write M[bias] and on, and the rows of the matrix from M[at] on, times w, to out[to] and on.

    A row, and the sum, has so many vectors of LANES numbers.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e = _emitter(context, builder)
        weights, numbers, sums = (
            data(context, builder, signature.args[i], values[i]) for i in (0, 1, 4)
        )
        matrix, begins, sums = (
            e.at(numbers, values[2]),
            e.at(numbers, values[3]),
            e.at(sums, values[5]),
        )
        count, width = values[6], values[7]
        stride = builder.mul(width, e.size(LANES))
        rounds = builder.udiv(count, e.size(_AT_ONCE))
        done = builder.mul(rounds, e.size(_AT_ONCE))

        def vector(v: Any, _: Any) -> list[Any]:
            """Sum the rows, times their weights, in the columns of one vector."""
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

            start = [e.load(e.at(begins, first)), *[e.constant(0.0)] * (_AT_ONCE - 1)]
            p, q, r, s = e.loop(rounds, start, several)
            total = builder.fadd(builder.fadd(p, q), builder.fadd(r, s))
            (total,) = e.loop(builder.sub(count, done), [total], one)
            e.store(total, e.at(sums, first))
            return []

        e.loop(width, [], vector)
        return context.get_dummy_value()

    return types.void(w, M, at, bias, out, to, rows, vectors), codegen


def _dot(_: Any, a: Any, M: Any, at: Any, vectors: Any) -> Any:
    """Return the inner product of a and of the numbers from M[at] on, of so many vectors."""
    return types.float32(a, M, at, vectors), _summed(squared=False)


def _squares(_: Any, a: Any, M: Any, at: Any, vectors: Any) -> Any:
    """Return the sum of the squares of a, times the numbers from M[at] on."""
    return types.float32(a, M, at, vectors), _summed(squared=True)


def _summed(*, squared: bool) -> Any:
    """Return the emitter of a sum of products, of the first factor or of its square."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e = _emitter(context, builder)
        left, right = (data(context, builder, signature.args[i], values[i]) for i in (0, 1))
        right = e.at(right, values[2])

        def add(v: Any, totals: list[Any]) -> list[Any]:
            first = builder.mul(v, e.size(LANES))
            a, b = e.load(e.at(left, first)), e.load(e.at(right, first))
            return [e.fma(builder.fmul(a, a) if squared else a, b, totals[0])]

        (total,) = e.loop(values[3], [e.constant(0.0)], add)
        return builder.extract_element(e.totals([total]), e.size(0))

    return codegen


def _exponentials(_: Any, room: Any, vectors: Any, shift: Any) -> Any:
    """Put exp(min(x + shift, 0)) in the place of x, so many vectors."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e = _emitter(context, builder)
        numbers, added = data(context, builder, signature.args[0], values[0]), e.splat(values[2])

        def vector(v: Any, _: Any) -> list[Any]:
            place = e.at(numbers, builder.mul(v, e.size(LANES)))
            x, zero = builder.fadd(e.load(place), added), e.constant(0.0)
            e.store(_decayed(e, builder.select(builder.fcmp_ordered("<", x, zero), x, zero)), place)
            return []

        e.loop(values[1], [], vector)
        return context.get_dummy_value()

    return types.void(room, vectors, shift), codegen


def _maximum(_: Any, room: Any, at: Any, vectors: Any) -> Any:
    """Return the greatest of so many vectors of numbers from room[at] on."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e = _emitter(context, builder)
        numbers = e.at(data(context, builder, signature.args[0], values[0]), values[1])

        def greater(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        def look(v: Any, most: list[Any]) -> list[Any]:
            return [greater(most[0], e.load(e.at(numbers, builder.mul(v, e.size(LANES)))))]

        (most,) = e.loop(values[2], [e.constant(_LEAST)], look)
        for stride in (8, 4, 2, 1):
            most = greater(most, e.chosen(most, [lane ^ stride for lane in range(LANES)]))
        return builder.extract_element(most, e.size(0))

    return types.float32(room, at, vectors), codegen


affine: Any = intrinsic(_affine)
dot: Any = intrinsic(_dot)
squares: Any = intrinsic(_squares)
exponentials: Any = intrinsic(_exponentials)
maximum: Any = intrinsic(_maximum)
