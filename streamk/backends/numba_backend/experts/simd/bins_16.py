"""Bins of ranks, those of 16 tables side by side, in explicit vectors.

The ranks of a table's columns are gathered. The vectoriser cannot know that no gathered place is
one that is written to, and would go from number to number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends import LANES
from streamk.backends.numba_backend.simd.vectors import Emitter, data

_FLOAT, _INT32 = ir.FloatType(), ir.IntType(32)
_NUMBERS = ir.VectorType(_INT32, LANES)


def _locate(
    _: Any,
    r: Any,
    columns: Any,
    shifts: Any,
    factors: Any,
    bins: Any,
    sums: Any,
    count: Any,
    members: Any,
) -> Any:
    """Write sums of factors times bins, see `grids.locate`, of 16 tables `count` times.

    Each table has so many `members`.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e, pairs = Emitter(builder, _FLOAT), zip(signature.args[:6], values[:6], strict=True)
        ranks, picked, shift, factor, width, out = (data(context, builder, *pair) for pair in pairs)
        count, members = values[6:]
        tables = builder.mul(count, e.size(LANES))

        def sixteen(n: Any, _: Any) -> list[Any]:
            first = builder.mul(n, e.size(LANES))
            several = e.load(e.at(width, first))

            def column(j: Any, totals: list[Any]) -> list[Any]:
                place = builder.add(builder.mul(j, tables), first)
                found = _binned(e, ranks, _load(e, picked, place), several, e.at(shift, place))
                return [builder.add(totals[0], builder.mul(_load(e, factor, place), found))]

            (total,) = e.loop(members, [ir.Constant(_NUMBERS, [0] * LANES)], column)
            builder.store(total, _sixteen(e, out, first)).align = 4
            return []

        e.loop(count, [], sixteen)
        return context.get_dummy_value()

    return types.void(r, columns, shifts, factors, bins, sums, count, members), codegen


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


locate: Any = intrinsic(_locate)
