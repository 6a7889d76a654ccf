"""Exponentials within 2 units in the last place, which vectors take up in loops."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from streamk.backends.jit.compiling import part
from streamk.backends.jit.lanes import operation, widest
from streamk.backends.jit.parts import overload
from streamk.backends.jit.vectors import Emitter


def decayed(x: Any) -> Any:
    """Return exp(x) of x <= 0, within 2 units in the last place; 0 where it is below normal.

    ``x = n log 2 + r`` with n the nearest whole number, which adding and subtracting 1.5 *
    2^(mantissa bits) leaves; ``exp(r) = 1 + r + r^2 g(r)`` with g a minimax polynomial. The bits of
    the sum, shifted to the place of the exponent, are 2^n. The two parts of log 2 keep r exact.
    """
    return np.exp(x)


@overload(decayed)
def _compiled_decayed(x: Any) -> Any:
    return _single() if x == types.float32 else _double()


class Constants(NamedTuple):
    """The numbers of the method."""

    polynomial: tuple[float, ...]
    turns: float
    high: float
    low: float
    big: float
    least: float
    shift: int
    bias: int


SINGLE = Constants(
    (
        *(0.5, 0.166665766661199283, 0.0416665542129841503),
        *(0.0083632328836826182, 0.00139262508314976117),
    ),
    *(1.4426950408889634, 0.693359375, -0.000212194440055, 1.5 * 2.0**23, -87.33654),
    *(23, 0x3F800000),
)


def _single() -> Any:
    f32, i32, c = np.float32, np.int32, SINGLE
    g0, g1, g2, g3, g4 = (f32(g) for g in c.polynomial)
    turns, high, low = f32(c.turns), f32(c.high), f32(c.low)
    big, one, zero, least = f32(c.big), f32(1.0), f32(0.0), f32(c.least)
    shift, bias = i32(c.shift), i32(c.bias)

    def single(x: Any) -> Any:
        shifted = x * turns + big
        n = shifted - big
        r = (x - n * high) - n * low
        g = (((g4 * r + g3) * r + g2) * r + g1) * r + g0
        power = i32((f32(shifted).view(i32) << shift) + bias).view(f32)
        return zero if x < least else ((g * r) * r + r + one) * power

    return single


def _double() -> Any:
    g0, g1, g2, g3 = 0.5, 0.166666666666666675, 0.0416666666666238205, 0.0083333333333300382
    g4, g5, g6 = 0.00138888889173670806, 0.00019841269863171556, 0.0000248015210578682052
    g7, g8, g9 = 2.75572682769056962e-6, 2.76202015910315488e-7, 2.5100472505694996e-8
    turns, high, low = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
    i64, big, least = np.int64, 1.5 * 2.0**52, -708.3964185322641
    shift, bias = i64(52), i64(0x3FF0000000000000)

    def double(x: Any) -> Any:
        shifted = x * turns + big
        n = shifted - big
        r = (x - n * high) - n * low
        g = ((((g9 * r + g8) * r + g7) * r + g6) * r + g5) * r + g4
        g = (((g * r + g3) * r + g2) * r + g1) * r + g0
        power = i64((np.float64(shifted).view(i64) << shift) + bias).view(np.float64)
        return 0.0 if x < least else ((g * r) * r + r + 1.0) * power

    return double


@part
def exponential(x: Any) -> Any:
    """Return exp(x) of x < 88, as `decayed` does.

    It rounds by adding and subtracting, which sums in another order would undo, so it is compiled
    by itself; callers take its instructions in as they are.
    """
    return decayed(x)


def _emit_vector(e: Emitter, x: Any) -> Any:
    b, c, kind = e.builder, SINGLE, ir.VectorType(ir.IntType(32), e.lanes)
    shifted = e.fma(x, e.constant(c.turns), e.constant(c.big))
    n = b.fsub(shifted, e.constant(c.big))
    r = e.fma(n, e.constant(-c.low), e.fma(n, e.constant(-c.high), x))
    g = e.constant(c.polynomial[-1])
    for coefficient in c.polynomial[-2::-1]:
        g = e.fma(g, r, e.constant(coefficient))
    bits = b.shl(b.bitcast(shifted, kind), ir.Constant(kind, [c.shift] * e.lanes))
    power = b.bitcast(b.add(bits, ir.Constant(kind, [c.bias] * e.lanes)), e.vector)
    value = b.fmul(b.fadd(e.fma(b.fmul(g, r), r, r), e.constant(1.0)), power)
    return b.select(b.fcmp_ordered("<", x, e.constant(c.least)), e.constant(0.0), value)


@operation(widest, _emit_vector)
def decayed_vector(x: Any) -> Any:
    """Return what `decayed` does for each number of a vector, in single precision."""
    return np.where(x < np.float32(SINGLE.least), np.float32(0.0), np.exp(x))
