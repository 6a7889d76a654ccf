"""Numbers of one table's rules, four side by side, in explicit vectors of one table or of four.

The vectoriser does not see that what belongs to the rules repeats from table to table, and would go
from number to number. The arrays but the cells are (tables, RULES), of a multiple of four tables.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from streamk.backends import LANES
from streamk.backends.numba_backend.experts.simd.cells_16 import Cells
from streamk.backends.pool_arrays import RULES


def _gather(_: Any, cells: Any, A: Any, out: Any, place: Any, count: Any, line: Any) -> Any:
    """Copy the rules' numbers from the same place of all cells."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        numbers, cell, found = c.data

        def table(t: Any, _: Any) -> list[Any]:
            here = c.emitter.at(c.cell(numbers, cell, t), values[3])
            c.store_few(c.load_few(here), found, t)
            return []

        c.emitter.loop(c.count, [], table)
        return context.get_dummy_value()

    return types.void(cells, A, out, place, count, line), codegen


def _accumulate(_: Any, factors: Any, a: Any, out: Any, count: Any, line: Any) -> Any:
    """Write the sums over tables of factors times coefficients."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        e = c.emitter
        weights, given, sums = c.data

        def four(i: Any, totals: list[Any]) -> list[Any]:
            a, b = (e.load(c.strip(numbers, i)) for numbers in (weights, given))
            return [e.fma(a, b, totals[0])]

        (total,) = e.loop(_vectors(c), [e.constant(0.0)], four)
        c.store_few(c.folded(total), sums)
        return context.get_dummy_value()

    return types.void(factors, a, out, count, line), codegen


def _scale(_: Any, a: Any, g: Any, out: Any, count: Any, line: Any) -> Any:
    """Write the numbers of all tables times one for each rule."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        e = c.emitter
        given, few, found = c.data
        by = e.load_repeated(few, RULES)

        def four(i: Any, _: Any) -> list[Any]:
            e.store(builder.fmul(e.load(c.strip(given, i)), by), c.strip(found, i))
            return []

        e.loop(_vectors(c), [], four)
        return context.get_dummy_value()

    return types.void(a, g, out, count, line), codegen


def _add(_: Any, g: Any, out: Any, count: Any, line: Any) -> Any:
    """Add one number for each rule to those of all tables."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        e = c.emitter
        few, found = c.data
        more = e.load_repeated(few, RULES)

        def four(i: Any, _: Any) -> list[Any]:
            here = c.strip(found, i)
            e.store(builder.fadd(e.load(here), more), here)
            return []

        e.loop(_vectors(c), [], four)
        return context.get_dummy_value()

    return types.void(g, out, count, line), codegen


def _descend(
    _: Any, cells: Any, steps: Any, squares: Any, g: Any, A: Any, count: Any, line: Any
) -> Any:
    """Step along the slopes g of the only output, and put the squares behind the coefficients."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        c = Cells(context, builder, signature, values)
        e = c.emitter
        numbers, moves, sums, few, cell = c.data
        down = builder.fneg(c.load_few(few))

        def table(t: Any, _: Any) -> list[Any]:
            here = c.cell(numbers, cell, t)
            c.store_few(e.fma(c.load_few(moves, t), down, c.load_few(here)), here)
            c.store_few(c.load_few(sums, t), e.at(here, e.size(RULES)))
            return []

        e.loop(c.count, [], table)
        return context.get_dummy_value()

    return types.void(cells, steps, squares, g, A, count, line), codegen


def _vectors(c: Cells) -> Any:
    """Return how many vectors the tables' numbers fill."""
    return c.emitter.builder.udiv(c.count, c.emitter.size(LANES // RULES))


gather: Any = intrinsic(_gather)
accumulate: Any = intrinsic(_accumulate)
scale: Any = intrinsic(_scale)
add: Any = intrinsic(_add)
descend: Any = intrinsic(_descend)
