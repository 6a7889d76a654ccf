"""Phases of features, in vectors: their curves, and where the features go.

A vector holds the numbers of some rows, one row after the other. Which curve phases have follows
from the type of the argument `curve`:

=================  ==========================================================================
a float            the cosine of turns, the phases being of that type; -1
None               the phase itself
a signed integer   the half-line power ``max(u, 0)^n`` (0 or 1 for n = 0); its value is n
an unsigned one    a polynomial of each feature's own coefficients; its value is their number
=================  ==========================================================================
"""

from __future__ import annotations

from typing import Any

from numba import types

from streamk.backends import CHUNK, LANES
from streamk.backends.jit.compiling import inlined
from streamk.backends.jit.lanes import (
    cast,
    cosine,
    fma,
    load,
    load_rows,
    repeated,
    store_rows,
    throughout,
    weighed,
    where,
)


def curve_of(kind: Any, each: int, lanes: int) -> tuple[Any, Any]:
    """Return what begins phases, and what makes features of them, by the type of the curve.

    There are `each` of each row, and so many lanes. Both take b, the chunk, the first number of it
    and the curve, the second one the phases before.
    """

    @inlined
    def random(b: Any, c: Any, first: Any, curve: Any) -> Any:
        return cast(throughout(load(b, c * CHUNK + first, each), lanes), curve)

    @inlined
    def zero(b: Any, c: Any, first: Any, curve: Any) -> Any:
        return repeated(b.dtype.type(0.0), lanes)

    @inlined
    def polynomial(u: Any, b: Any, c: Any, first: Any, curve: Any) -> Any:
        """Return the polynomials of the phases, by Horner's rule."""
        terms = int(curve)
        at = c * terms * CHUNK + first
        total = throughout(load(b, at + (terms - 1) * CHUNK, each), lanes)
        for k in range(terms - 2, -1, -1):
            total = fma(total, u, throughout(load(b, at + k * CHUNK, each), lanes))
        return total

    if isinstance(kind, types.Float):
        return random, _cosine
    if kind in types.integer_domain:
        return zero, _half_line_power if kind.signed else polynomial
    return zero, _phase


@inlined
def _cosine(u: Any, b: Any, c: Any, first: Any, curve: Any) -> Any:
    return cast(cosine(u), b.dtype.type(0.0))


@inlined
def _phase(u: Any, b: Any, c: Any, first: Any, curve: Any) -> Any:
    return u


@inlined
def _half_line_power(u: Any, b: Any, c: Any, first: Any, curve: Any) -> Any:
    if curve == 0:
        return where(u > 0.0, b.dtype.type(1.0), b.dtype.type(0.0))
    ramp = where(u > 0.0, u, 0.0)
    return ramp if curve == 1 else ramp * ramp


def sink(rows: int, each: int) -> Any:
    """Return what takes the features of some rows, `each` of a chunk's, from number `first` on.

    Its arguments are the features; the coefficients (chunks, outputs, CHUNK) and the sums (n,
    outputs, LANES), and features that are kept, None where they are not wanted; how many outputs
    there are, the first row, the chunk and the number; where the chunk begins in what is kept, and
    how far on its next row is.
    """
    lanes = rows * LANES

    @inlined
    def take(
        x: Any, A: Any, acc: Any, phi: Any, outputs: Any, r: Any, c: Any, first: Any, at: Any,
        row: Any,
    ) -> None:  # fmt: skip
        if phi is not None:
            store_rows(x, phi, at + first, row, rows)
        if acc is not None:
            apart = outputs * LANES
            for k in range(outputs):
                place = r * apart + k * LANES
                a = load(A, (c * outputs + k) * CHUNK + first, each)
                total = load_rows(acc, place, apart, rows, lanes)
                store_rows(weighed(x, a, total), acc, place, apart, rows)

    return take
