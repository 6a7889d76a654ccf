"""Phases of features, in registers: their curves, and where the features go.

A `Bend` turns phases into features in registers, and a `FeatureSink` takes these. Which curve an
intrinsic emits follows from the type of its argument `curve`:

=================  ==========================================================================
a float            the cosine of turns, the phases being of that type; -1
None               the phase itself
a signed integer   the half-line power ``max(u, 0)^n`` (0 or 1 for n = 0); its value is n
an unsigned one    a polynomial of each feature's own coefficients; its value is their number
=================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types

from streamk.backends import CHUNK, LANES
from streamk.backends.jit.vectors import Emitter


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


class FeatureSink:
    """Writes into an intrinsic what becomes of the features of some rows and one chunk.

    Parameters
    ----------
    e : Emitter
        Of the type of features.
    A, acc, phi : pointers
        Coefficients (chunks, outputs, CHUNK) and sums (n, outputs, LANES); features that are kept.
        None where they are not wanted.
    outputs, c : values
        How many outputs there are, and the chunk.
    rows : sequence of values
        Numbers of the rows.
    at, row : values
        Where to begin in phi, and how far on its next row is.
    """

    def __init__(
        self,
        e: Emitter,
        A: Any,
        acc: Any,
        phi: Any,
        *,
        outputs: Any,
        c: Any,
        rows: Sequence[Any],
        at: Any,
        row: Any,
    ) -> None:
        self._e, self._outputs, chunk = e, outputs, e.size(CHUNK)
        self._A = self._acc = self._phi = None
        if acc is not None:
            self._A = e.at(A, e.offset((e.offset((c, outputs)), chunk)))
            sums = [e.offset((e.offset((i, outputs)), e.size(LANES))) for i in rows]
            self._acc = [e.at(acc, place) for place in sums]
        if phi is not None:
            places = range(len(rows))
            self._phi = [e.at(phi, e.offset((at, e.size(1)), (e.size(i), row))) for i in places]

    def take(self, features: list[list[Any]], offsets: list[int]) -> None:
        """Take each row's vectors, those at the offsets into the chunk."""
        e = self._e
        if self._phi is not None:
            for place, row in zip(self._phi, features, strict=True):
                for x, offset in zip(row, offsets, strict=True):
                    e.store(x, place, offset)
        if self._acc is None:
            return
        sums = self._acc

        def add(k: Any, _: list[Any]) -> list[Any]:
            """Add an output's coefficients times features to the rows' sums."""
            A = e.at(self._A, e.offset((k, e.size(CHUNK))))
            a = [e.load(A, offset) for offset in offsets]
            for acc, row in zip(sums, features, strict=True):
                place = e.at(acc, e.offset((k, e.size(LANES))))
                total = e.load(place)
                for coefficient, x in zip(a, row, strict=True):
                    total = e.fma(coefficient, x, total)
                e.store(total, place)
            return []

        e.loop(self._outputs, [], add)
