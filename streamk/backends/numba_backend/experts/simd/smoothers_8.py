"""Weights of the smoothers, eight side by side, summed by class in explicit vectors.

A sum waits for the one before it where both are of the same class, which is so more often than not,
and for its way through memory. So neighbours among the events go to sums of their own.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends.numba_backend.simd.vectors import Emitter, data
from streamk.backends.pool_arrays import APART, WIDTH

LEAST_EXPONENT = -126
"""Of 2 in the least normal number of single precision. Arithmetic on less takes a hundred times as
long, so that a window of mostly far events would take several times as long as one of near ones."""
POWERS = ((0, 1), (0, 4), (0, 16), (1, 2), (1, 4), (1, 8), (1, 16), (1, 16))
"""Kinds of numbers: powers of the first weight of an event, or of the second."""

_FLOAT = ir.FloatType()
_EIGHT = ir.VectorType(_FLOAT, WIDTH)


def _add(_: Any, w: Any, v: Any, labels: Any, sums: Any, count: Any, classes: Any) -> Any:
    """Add the powers of the weights w and v of events to the sums (APART, classes, WIDTH)."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pairs = zip(signature.args[:4], values[:4], strict=True)
        first, second, numbers, out = (data(context, builder, *pair) for pair in pairs)
        e, (count, classes) = Emitter(builder, _FLOAT), values[4:]

        def event(i: Any, part: int) -> None:
            label = builder.fptosi(builder.load(e.at(numbers, i)), ir.IntType(64))
            row = builder.add(builder.mul(classes, e.size(part)), label)
            place = builder.bitcast(e.at(out, builder.mul(row, e.size(WIDTH))), _EIGHT.as_pointer())
            more = _powers(builder, *(builder.load(e.at(some, i)) for some in (first, second)))
            total = builder.load(place)
            total.align = 4
            builder.store(builder.fadd(total, more), place).align = 4

        def several(n: Any, _: Any) -> list[Any]:
            for part in range(APART):
                event(builder.add(builder.mul(n, e.size(APART)), e.size(part)), part)
            return []

        def one(n: Any, _: Any) -> list[Any]:
            event(builder.add(done, n), 0)
            return []

        rounds = builder.udiv(count, e.size(APART))
        done = builder.mul(rounds, e.size(APART))
        e.loop(rounds, [], several)
        e.loop(builder.sub(count, done), [], one)
        return context.get_dummy_value()

    return types.void(w, v, labels, sums, count, classes), codegen


def _powers(builder: Any, first: Any, second: Any) -> Any:
    """Return the powers of two numbers that `POWERS` says, 0 where they are below normal."""
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [which for which, _ in POWERS])
    two: Any = ir.Constant(ir.VectorType(_FLOAT, 2), ir.Undefined)
    for place, number in enumerate((first, second)):
        two = builder.insert_element(two, number, ir.Constant(ir.IntType(32), place))
    power = builder.shuffle_vector(two, ir.Constant(two.type, ir.Undefined), lanes)
    ends = ir.Constant(_EIGHT, [2.0 ** (LEAST_EXPONENT / wanted) for _, wanted in POWERS])
    normal = builder.fcmp_ordered(">=", power, ends)
    power = builder.select(normal, power, ir.Constant(_EIGHT, [0.0] * WIDTH))
    one = ir.Constant(_EIGHT, [1.0] * WIDTH)
    for exponent in (2, 4, 8, 16):
        bits = [int(wanted >= exponent) for _, wanted in POWERS]
        squared = ir.Constant(ir.VectorType(ir.IntType(1), WIDTH), bits)
        power = builder.fmul(power, builder.select(squared, power, one))
    return power


add: Any = intrinsic(_add)
