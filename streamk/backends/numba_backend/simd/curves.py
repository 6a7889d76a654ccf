"""Curves that turn phases into features, in registers.

Which curve an intrinsic emits follows from the type of its argument `curve`:

=================  ==========================================================================
a float            the cosine of turns, the phases being of that type; -1
None               the phase itself
a signed integer   the half-line power ``max(u, 0)^n`` (0 or 1 for n = 0); its value is n
an unsigned one    a polynomial of each feature's own coefficients; its value is their number
=================  ==========================================================================
"""

from __future__ import annotations

from typing import Any

from numba.core import types

from streamk.backends import CHUNK
from streamk.backends.numba_backend.simd.vectors import Emitter


class Bend:
    """Writes the curve of phases into an intrinsic.

    Parameters
    ----------
    context, builder
        Of the intrinsic.
    kind, value
        Type and value of its argument `curve`.
    e : Emitter
        Of the type of features.
    """

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any, e: Emitter) -> None:
        self.wave = isinstance(kind, types.Float)
        """True if features are cosines, so that phases begin with a random one."""
        whole = isinstance(kind, types.Integer)
        self.power, self.polynomial = whole and kind.signed, whole and not kind.signed
        self.value, self._builder, self._e = value, builder, e
        self.u = Emitter(builder, context.get_data_type(kind), value) if self.wave else e
        """The emitter of the type of phases."""

    def features(self, phases: list[Any]) -> list[Any]:
        """Return the features of vectors of phases, unless they are polynomials."""
        if self.wave:
            return [self._e.narrowed(self.u.cosine(u)) for u in phases]
        return [self._half_line_power(u) for u in phases] if self.power else phases

    def _half_line_power(self, u: Any) -> Any:
        b, e = self._builder, self._e
        zero, one = e.constant(0.0), e.constant(1.0)
        above = b.fcmp_ordered(">", u, zero)
        step, ramp = b.select(above, one, zero), b.select(above, u, zero)
        order = self.value
        bent = b.select(b.icmp_signed("==", order, order.type(1)), ramp, b.fmul(ramp, ramp))
        return b.select(b.icmp_signed("==", order, order.type(0)), step, bent)

    def polynomials(self, rows: list[list[Any]], table: Any, offsets: list[int]) -> list[list[Any]]:
        """Return the polynomials of each row's phases, by Horner's rule.

        `table` points to a chunk's coefficients (terms, CHUNK), `offsets` are those of the vectors
        of each row into the chunk.
        """
        e, many = self._e, len(offsets)
        last = self._builder.sub(self.value, e.size(1))

        def coefficients(k: Any) -> list[Any]:
            place = e.at(table, e.offset((k, e.size(CHUNK))))
            return [e.load(place, offset) for offset in offsets]

        def down(i: Any, sums: list[Any]) -> list[Any]:
            c = coefficients(self._builder.sub(self._builder.sub(last, i), e.size(1)))
            return [
                e.fma(total, rows[n // many][n % many], c[n % many]) for n, total in enumerate(sums)
            ]

        sums = e.loop(last, coefficients(last) * len(rows), down)
        return [sums[i * many : (i + 1) * many] for i in range(len(rows))]
