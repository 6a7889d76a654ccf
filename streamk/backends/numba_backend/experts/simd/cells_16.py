"""Cells of several outputs, in explicit vectors of 16 numbers: four outputs by four rules.

The vectoriser does not see that the rules' factors repeat through a cell, and would go from number
to number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends import LANES
from streamk.backends.numba_backend.simd.vectors import Emitter, data
from streamk.backends.pool_arrays import RULES

_AT_ONCE = 4
"""Tables whose sums go on side by side: one would wait for the last addition."""


class Cells:
    """Emits what the loops over tables have in common, from the arguments of an intrinsic.

    Its arguments are arrays, then other numbers, the last of which are `count` tables and the
    `line` of numbers that a cell takes.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, values: Any) -> None:
        self.emitter = Emitter(builder, ir.FloatType())
        pairs = zip(signature.args, values, strict=True)
        self.data = [data(context, builder, k, v) for k, v in pairs if isinstance(k, types.Array)]
        self.count, self.line = values[-2:]
        self._four = ir.VectorType(ir.FloatType(), RULES).as_pointer()

    def cell(self, cells: Any, A: Any, t: Any) -> Any:
        """Return where a table's cell begins."""
        b, e = self.emitter.builder, self.emitter
        number = b.sext(b.load(e.at(cells, t)), ir.IntType(64))
        return e.at(A, b.mul(number, self.line))

    def strips(self, used: Any) -> Any:
        """Return how many vectors so many numbers of a cell are."""
        return self.emitter.builder.udiv(used, self.emitter.size(LANES))

    def rules(self, few: Any, t: Any) -> Any:
        """Return a table's numbers, one for each rule, repeated throughout a vector."""
        e = self.emitter
        return e.load_repeated(e.at(few, e.builder.mul(t, e.size(RULES))), RULES)

    def strip(self, place: Any, i: Any) -> Any:
        """Return where strip i of a cell begins."""
        return self.emitter.at(place, self.emitter.builder.mul(i, self.emitter.size(LANES)))

    def load_few(self, place: Any, t: Any = None) -> Any:
        """Load a table's numbers, one for each rule; those at the place without a table."""
        value = self.emitter.builder.load(self._few(place, t))
        value.align = 4
        return value

    def store_few(self, value: Any, place: Any, t: Any = None) -> None:
        """Store what `load_few` loads."""
        self.emitter.builder.store(value, self._few(place, t)).align = 4

    def _few(self, place: Any, t: Any) -> Any:
        b, e = self.emitter.builder, self.emitter
        if t is not None:
            place = e.at(place, b.mul(t, e.size(RULES)))
        return b.bitcast(place, self._four)

    def folded(self, vector: Any) -> Any:
        """Return the sums of the lanes of each rule."""
        b = self.emitter.builder
        for size in (LANES // 2, LANES // 4):
            vector = b.fadd(_lanes(b, vector, 0, size), _lanes(b, vector, size))
        return vector


def _accumulate(
    _: Any, cells: Any, factors: Any, A: Any, out: Any, used: Any, count: Any, line: Any
) -> Any:
    """Write the sums over tables of factors times coefficients."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        e = c.emitter
        numbers, few, cell, sums = c.data
        rounds, strips = builder.udiv(c.count, e.size(_AT_ONCE)), c.strips(values[4])

        def strip(i: Any, _: Any) -> list[Any]:
            def add(t: Any, total: Any) -> Any:
                return e.fma(e.load(c.strip(c.cell(numbers, cell, t), i)), c.rules(few, t), total)

            def several(n: Any, totals: list[Any]) -> list[Any]:
                first = builder.mul(n, e.size(_AT_ONCE))
                return [add(builder.add(first, e.size(j)), v) for j, v in enumerate(totals)]

            done = builder.mul(rounds, e.size(_AT_ONCE))

            def one(t: Any, totals: list[Any]) -> list[Any]:
                return [add(builder.add(done, t), totals[0])]

            p, q, r, s = e.loop(rounds, [e.constant(0.0)] * _AT_ONCE, several)
            total = builder.fadd(builder.fadd(p, q), builder.fadd(r, s))
            (total,) = e.loop(builder.sub(c.count, done), [total], one)
            e.store(total, c.strip(sums, i))
            return []

        e.loop(strips, [], strip)
        return context.get_dummy_value()

    return types.void(cells, factors, A, out, used, count, line), codegen


def _slopes(_: Any, cells: Any, A: Any, g: Any, out: Any, used: Any, count: Any, line: Any) -> Any:
    """Write for each table and rule the sum of slopes times coefficients."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        e = c.emitter
        numbers, cell, given, sums = c.data
        strips = c.strips(values[4])

        def table(t: Any, _: Any) -> list[Any]:
            place = c.cell(numbers, cell, t)

            def strip(i: Any, totals: list[Any]) -> list[Any]:
                return [e.fma(e.load(c.strip(place, i)), e.load(c.strip(given, i)), totals[0])]

            (total,) = e.loop(strips, [e.constant(0.0)], strip)
            c.store_few(c.folded(total), sums, t)
            return []

        e.loop(c.count, [], table)
        return context.get_dummy_value()

    return types.void(cells, A, g, out, used, count, line), codegen


def _descend(
    _: Any,
    cells: Any,
    steps: Any,
    squares: Any,
    g: Any,
    A: Any,
    last: Any,
    used: Any,
    count: Any,
    line: Any,
) -> Any:
    """Step along the slopes g, and put the squares at place `last` of the cells."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        e = c.emitter
        numbers, moves, sums, given, cell = c.data
        strips = c.strips(values[6])

        def table(t: Any, _: Any) -> list[Any]:
            place, step = c.cell(numbers, cell, t), builder.fneg(c.rules(moves, t))

            def strip(i: Any, _: Any) -> list[Any]:
                here = c.strip(place, i)
                e.store(e.fma(step, e.load(c.strip(given, i)), e.load(here)), here)
                return []

            e.loop(strips, [], strip)
            c.store_few(c.load_few(sums, t), e.at(place, values[5]))
            return []

        e.loop(c.count, [], table)
        return context.get_dummy_value()

    return types.void(cells, steps, squares, g, A, last, used, count, line), codegen


def _lanes(builder: Any, value: Any, first: int, count: int | None = None) -> Any:
    """Return some lanes of a vector, from the first on."""
    count = first if count is None else count
    order = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)


accumulate: Any = intrinsic(_accumulate)
slopes: Any = intrinsic(_slopes)
descend: Any = intrinsic(_descend)
