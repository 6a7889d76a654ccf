"""Cells of random binning in explicit vectors: their outputs, slopes and steps, and where they are.

The vectoriser does not see that what belongs to the rules repeats from table to table and through
a cell, and would go from number to number. Cells of several outputs are vectors of 16 numbers, four
outputs by four rules. Of one output, the arrays but the cells are (tables, RULES), of a multiple of
four tables.

Bins of ranks, those of 16 tables side by side, in explicit vectors.

The ranks of a table's columns are gathered. The vectoriser cannot know that no gathered place is
one that is written to, and would go from number to number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from streamk.backends import LANES
from streamk.backends.banks import RULES
from streamk.backends.jit.vectors import Emitter, emitted

_FLOAT, _INT32 = ir.FloatType(), ir.IntType(32)
_NUMBERS = ir.VectorType(_INT32, LANES)
_FOUR = ir.VectorType(_FLOAT, RULES).as_pointer()


class _Cells(Emitter):
    """Emits what the loops over tables have in common."""

    def __init__(self, builder: Any) -> None:
        super().__init__(builder, _FLOAT)

    def cell(self, cells: Any, A: Any, t: Any, line: Any) -> Any:
        """Return where a table's cell begins; `line` is the numbers that a cell takes."""
        b = self.builder
        number = b.sext(b.load(self.at(cells, t)), ir.IntType(64))
        return self.at(A, b.mul(number, line))

    def strips(self, used: Any) -> Any:
        """Return how many vectors so many numbers of a cell are."""
        return self.builder.udiv(used, self.size(LANES))

    def rules(self, few: Any, t: Any) -> Any:
        """Return a table's numbers, one for each rule, repeated throughout a vector."""
        return self.load_repeated(self._few(few, t), RULES)

    def strip(self, place: Any, i: Any) -> Any:
        """Return where strip i of a cell begins."""
        return self.at(place, self.builder.mul(i, self.size(LANES)))

    def load_few(self, place: Any, t: Any = None) -> Any:
        """Load a table's numbers, one for each rule; those at the place without a table."""
        value = self.builder.load(self.builder.bitcast(self._few(place, t), _FOUR))
        value.align = 4
        return value

    def store_few(self, value: Any, place: Any, t: Any = None) -> None:
        """Store what `load_few` loads."""
        there = self.builder.bitcast(self._few(place, t), _FOUR)
        self.builder.store(value, there).align = 4

    def _few(self, place: Any, t: Any) -> Any:
        return place if t is None else self.at(place, self.builder.mul(t, self.size(RULES)))

    def folded(self, vector: Any) -> Any:
        """Return the sums of the lanes of each rule."""
        for size in (LANES // 2, LANES // 4):
            low, high = range(size), range(size, 2 * size)
            vector = self.builder.fadd(self.chosen(vector, low), self.chosen(vector, high))
        return vector


@emitted()
def accumulate(
    builder: Any, cells: Any, factors: Any, A: Any, out: Any, used: Any, count: Any, line: Any
) -> None:
    """Write the sums over tables of factors times coefficients."""
    e = _Cells(builder)

    def strip(i: Any, _: Any) -> list[Any]:
        def add(t: Any, total: Any) -> Any:
            there = e.load(e.strip(e.cell(cells, A, t, line), i))
            return e.fma(there, e.rules(factors, t), total)

        e.store(e.summed(count, add), e.strip(out, i))
        return []

    e.loop(e.strips(used), [], strip)


@emitted()
def slopes(
    builder: Any, cells: Any, A: Any, g: Any, out: Any, used: Any, count: Any, line: Any
) -> None:
    """Write for each table and rule the sum of slopes times coefficients."""
    e = _Cells(builder)
    strips = e.strips(used)

    def table(t: Any, _: Any) -> list[Any]:
        place = e.cell(cells, A, t, line)

        def strip(i: Any, totals: list[Any]) -> list[Any]:
            return [e.fma(e.load(e.strip(place, i)), e.load(e.strip(g, i)), totals[0])]

        (total,) = e.loop(strips, [e.constant(0.0)], strip)
        e.store_few(e.folded(total), out, t)
        return []

    e.loop(count, [], table)


@emitted()
def descend(
    builder: Any, cells: Any, steps: Any, squares: Any, g: Any, A: Any, last: Any, used: Any,
    count: Any, line: Any,
) -> None:  # fmt: skip
    """Step along the slopes g, and put the squares at place `last` of the cells."""
    e = _Cells(builder)
    strips = e.strips(used)

    def table(t: Any, _: Any) -> list[Any]:
        place, step = e.cell(cells, A, t, line), builder.fneg(e.rules(steps, t))

        def strip(i: Any, _: Any) -> list[Any]:
            here = e.strip(place, i)
            e.store(e.fma(step, e.load(e.strip(g, i)), e.load(here)), here)
            return []

        e.loop(strips, [], strip)
        e.store_few(e.load_few(squares, t), e.at(place, last))
        return []

    e.loop(count, [], table)


@emitted()
def gather(builder: Any, cells: Any, A: Any, out: Any, place: Any, count: Any, line: Any) -> None:
    """Copy the rules' numbers from the same place of all cells."""
    e = _Cells(builder)

    def table(t: Any, _: Any) -> list[Any]:
        e.store_few(e.load_few(e.at(e.cell(cells, A, t, line), place)), out, t)
        return []

    e.loop(count, [], table)


@emitted()
def accumulate_one(builder: Any, factors: Any, a: Any, out: Any, count: Any) -> None:
    """Write the sums over tables of factors times coefficients."""
    e = _Cells(builder)

    def four(i: Any, totals: list[Any]) -> list[Any]:
        return [e.fma(e.load(e.strip(factors, i)), e.load(e.strip(a, i)), totals[0])]

    (total,) = e.loop(_vectors(e, count), [e.constant(0.0)], four)
    e.store_few(e.folded(total), out)


@emitted()
def scale(builder: Any, a: Any, g: Any, out: Any, count: Any) -> None:
    """Write the numbers of all tables times one for each rule."""
    e = _Cells(builder)
    by = e.load_repeated(g, RULES)

    def four(i: Any, _: Any) -> list[Any]:
        e.store(builder.fmul(e.load(e.strip(a, i)), by), e.strip(out, i))
        return []

    e.loop(_vectors(e, count), [], four)


@emitted()
def add(builder: Any, g: Any, out: Any, count: Any) -> None:
    """Add one number for each rule to those of all tables."""
    e = _Cells(builder)
    more = e.load_repeated(g, RULES)

    def four(i: Any, _: Any) -> list[Any]:
        here = e.strip(out, i)
        e.store(builder.fadd(e.load(here), more), here)
        return []

    e.loop(_vectors(e, count), [], four)


@emitted()
def descend_one(
    builder: Any, cells: Any, steps: Any, squares: Any, g: Any, A: Any, count: Any, line: Any
) -> None:
    """Step along the slopes g of the only output, and put the squares behind the coefficients."""
    e = _Cells(builder)
    down = builder.fneg(e.load_few(g))

    def table(t: Any, _: Any) -> list[Any]:
        here = e.cell(cells, A, t, line)
        e.store_few(e.fma(e.load_few(steps, t), down, e.load_few(here)), here)
        e.store_few(e.load_few(squares, t), e.at(here, e.size(RULES)))
        return []

    e.loop(count, [], table)


def _vectors(e: Emitter, count: Any) -> Any:
    """Return how many vectors the tables' numbers fill."""
    return e.builder.udiv(count, e.size(LANES // RULES))


@emitted()
def locate(
    builder: Any, r: Any, columns: Any, shifts: Any, factors: Any, bins: Any, sums: Any, count: Any,
    members: Any,
) -> None:  # fmt: skip
    """Write sums of factors times bins, see `binning.locate`, of 16 tables `count` times.

    Each table has so many `members`.
    """
    e = Emitter(builder, _FLOAT)
    tables = builder.mul(count, e.size(LANES))

    def sixteen(n: Any, _: Any) -> list[Any]:
        first = builder.mul(n, e.size(LANES))
        several = e.load(e.at(bins, first))

        def column(j: Any, totals: list[Any]) -> list[Any]:
            place = builder.add(builder.mul(j, tables), first)
            found = _binned(e, r, _load(e, columns, place), several, e.at(shifts, place))
            return [builder.add(totals[0], builder.mul(_load(e, factors, place), found))]

        (total,) = e.loop(members, [ir.Constant(_NUMBERS, [0] * LANES)], column)
        builder.store(total, _sixteen(e, sums, first)).align = 4
        return []

    e.loop(count, [], sixteen)


def _binned(e: Emitter, ranks: Any, columns: Any, several: Any, shifts: Any) -> Any:
    """Return the bins that the ranks of some columns are in, the one after the last if missing."""
    b = e.builder
    ranked = _gathered(e, ranks, columns)
    there = b.fcmp_ordered(">=", ranked, e.constant(0.0))
    missing = b.fadd(several, e.constant(1.0))
    place = b.select(there, e.fma(ranked, several, e.load(shifts)), missing)
    return b.fptosi(place, _NUMBERS)


def _gathered(e: Emitter, numbers: Any, places: Any) -> Any:
    """Return the numbers at some places."""
    b, bits = e.builder, ir.VectorType(ir.IntType(1), LANES)
    start = e.splat(numbers, ir.VectorType(numbers.type, LANES))
    pointers = b.gep(start, [places], inbounds=True, source_etype=_FLOAT)
    signature = ir.FunctionType(e.vector, [pointers.type, _INT32, bits, e.vector])
    gather = e.function(signature, f"llvm.masked.gather.v{LANES}f32.v{LANES}p0")
    every = ir.Constant(bits, [1] * LANES)
    return b.call(gather, [pointers, ir.Constant(_INT32, 4), every, e.constant(0.0)])


def _load(e: Emitter, numbers: Any, place: Any) -> Any:
    """Load whole numbers of 32 bits."""
    value = e.builder.load(_sixteen(e, numbers, place))
    value.align = 4
    return value


def _sixteen(e: Emitter, numbers: Any, place: Any) -> Any:
    """Return the pointer to a vector of whole numbers."""
    return e.builder.bitcast(e.at(numbers, place), _NUMBERS.as_pointer())
