"""Sums of a matrix's rows, and steps of rank one, in explicit vectors of eight numbers.

Rows are as long as there are experts or outputs: some 40 numbers, or 7. The vectoriser would take
much of such a row from number to number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends.numba_backend.simd.vectors import Emitter, data

_LANES = 8
_AT_ONCE = 4
"""Rows whose sums go on side by side: one would wait for the last addition."""
_DOUBLE = ir.DoubleType()


class _Columns:
    """Emits loops along rows: vectors that are full, and then what is left over.

    Within `each` the methods load and store the vectors of the columns that the loop is at.
    """

    def __init__(self, builder: Any, columns: Any) -> None:
        self.emitter = e = Emitter(builder, _DOUBLE, lanes=_LANES)
        self.columns = columns
        self._full = builder.udiv(columns, e.size(_LANES))
        self._left = builder.urem(columns, e.size(_LANES))
        self._first: Any = None
        self._in_part = False

    def each(self, body: Callable[[], None]) -> None:
        """Emit what a body does with each vector of columns."""
        b, e = self.emitter.builder, self.emitter

        def full(i: Any, _: Any) -> list[Any]:
            self._first, self._in_part = b.mul(i, e.size(_LANES)), False
            body()
            return []

        def rest(_: Any, __: Any) -> list[Any]:
            self._first, self._in_part = b.mul(self._full, e.size(_LANES)), True
            body()
            return []

        e.loop(self._full, [], full)
        some = b.icmp_unsigned(">", self._left, e.size(0))
        e.loop(b.zext(some, self._left.type), [], rest)

    def load(self, numbers: Any, row: Any = None) -> Any:
        """Load the columns of a vector, or of a row of a matrix, as numbers of double precision."""
        place = self._place(numbers, row)
        if self._in_part:
            return self.emitter.load_some(place, 0, self._left)
        return self.emitter.load(place)

    def store(self, value: Any, numbers: Any, row: Any = None) -> None:
        """Store what `load` loads, in double precision."""
        place = self._place(numbers, row)
        if self._in_part:
            self.emitter.store_some(value, place, self._left)
        else:
            self.emitter.store(value, place)

    def _place(self, numbers: Any, row: Any) -> Any:
        e, place = self.emitter, self._first
        if row is not None:
            place = e.builder.add(e.builder.mul(row, self.columns), place)
        return e.at(numbers, place)


def _combine(_: Any, w: Any, M: Any, out: Any, rows: Any, columns: Any) -> Any:
    """Write the sum of the rows of M, of single or double precision, times float64 w."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pairs = zip(signature.args[:3], values[:3], strict=True)
        weights, matrix, sums = (data(context, builder, *pair) for pair in pairs)
        count, c = values[3], _Columns(builder, values[4])
        e = c.emitter
        rounds = builder.udiv(count, e.size(_AT_ONCE))
        done = builder.mul(rounds, e.size(_AT_ONCE))

        def add(row: Any, total: Any) -> Any:
            weight = e.splat(builder.load(e.at(weights, row)))
            return e.fma(weight, c.load(matrix, row), total)

        def several(n: Any, totals: list[Any]) -> list[Any]:
            row = builder.mul(n, e.size(_AT_ONCE))
            return [add(builder.add(row, e.size(j)), v) for j, v in enumerate(totals)]

        def one(n: Any, totals: list[Any]) -> list[Any]:
            return [add(builder.add(done, n), totals[0])]

        def vector() -> None:
            p, q, r, s = e.loop(rounds, [e.constant(0.0)] * _AT_ONCE, several)
            total = builder.fadd(builder.fadd(p, q), builder.fadd(r, s))
            (total,) = e.loop(builder.sub(count, done), [total], one)
            c.store(total, sums)

        c.each(vector)
        return context.get_dummy_value()

    return types.void(w, M, out, rows, columns), codegen


def _shrink(_: Any, P: Any, v: Any, scale: Any, n: Any) -> Any:
    """Make a matrix (n, n) of double precision ``(P - v v') scale``."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pairs = zip(signature.args[:2], values[:2], strict=True)
        matrix, numbers = (data(context, builder, *pair) for pair in pairs)
        c = _Columns(builder, values[3])
        e, by = c.emitter, c.emitter.splat(values[2])

        def vector() -> None:
            some = c.load(numbers)

            def row(j: Any, _: Any) -> list[Any]:
                down = builder.fneg(e.splat(builder.load(e.at(numbers, j))))
                new = builder.fmul(e.fma(down, some, c.load(matrix, j)), by)
                c.store(new, matrix, j)
                return []

            e.loop(c.columns, [], row)

        c.each(vector)
        return context.get_dummy_value()

    return types.void(P, v, scale, n), codegen


combine: Any = intrinsic(_combine)
shrink: Any = intrinsic(_shrink)
