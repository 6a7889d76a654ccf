"""Features of dense frequencies: projected, taken the cosine of and summed up in registers.

A tile is `ROWS` rows by a chunk: its phases are sums that stay in registers while the columns pass
by, each of a chunk's frequencies being loaded once for all rows of the tile. Rows that do not fill
a tile go one by one. Either way a row's phases are summed column by column from the phase b on, so
they do not depend on what else is in the batch.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from streamk.backends import CHUNK, LANES
from streamk.backends.numba_backend.compiling import part
from streamk.backends.numba_backend.simd.curves import Bend
from streamk.backends.numba_backend.simd.sinks import Sink
from streamk.backends.numba_backend.simd.vectors import Emitter, data, registers

ROWS = 6
"""Rows of a tile: with a whole chunk beside them, 24 of AVX-512's 32 registers hold sums."""


class _Tile:
    """Emits the body of an intrinsic: the features of some rows and one chunk."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, rows: int) -> None:
        self.b, self.rows = builder, range(rows)
        self.e = Emitter(builder, context.get_data_type(kinds[1].dtype))
        self.bend = Bend(context, builder, kinds[-1], values[-1], self.e)
        self.u = self.bend.u
        pointers = [
            None if kind == types.none else data(context, builder, kind, value)
            for kind, value in zip(kinds[:6], values[:6], strict=True)
        ]
        self.d, outputs, r, c, at, row = values[6:12]
        X, W, phases, A, acc, phi = pointers
        e, chunk = self.e, self.e.size(CHUNK)
        numbers = [builder.add(r, e.size(i)) for i in self.rows]
        self.X = [e.at(X, e.offset((i, self.d))) for i in numbers]
        self.W = e.at(W, e.offset((e.offset((c, self.d)), chunk)))
        terms = self.bend.value if self.bend.polynomial else e.size(1)
        self.phases = e.at(phases, e.offset((e.offset((c, terms)), chunk)))
        self.sink = Sink(e, A, acc, phi, outputs=outputs, c=c, rows=numbers, at=at, row=row)

    def emit(self) -> None:
        """Emit it all, for as many vectors at a time as leave a quarter of the registers."""
        together = 3 * registers() // (len(self.rows) * LANES * self.u.bytes)
        together = next(n for n in (4, 2, 1) if n <= max(1, together))
        for first in range(0, CHUNK // LANES, together):
            offsets = [(first + v) * LANES for v in range(together)]
            rows = self._phases(offsets)
            if self.bend.polynomial:
                rows = self.bend.polynomials(rows, self.phases, offsets)
            else:
                rows = [self.bend.features(row) for row in rows]
            self.sink.take(rows, offsets)

    def _phases(self, offsets: list[int]) -> list[list[Any]]:
        """Return the phases of each row, of the vectors at the offsets into the chunk."""
        u, many = self.u, len(offsets)

        def add(j: Any, sums: list[Any]) -> list[Any]:
            place, new = u.at(self.W, u.offset((j, u.size(CHUNK)))), []
            W = [u.load(place, offset) for offset in offsets]
            for i, row in enumerate(self.X):
                x = u.splat(self.b.load(u.at(row, j)))
                some = sums[i * many : (i + 1) * many]
                new += [u.fma(x, w, s) for w, s in zip(W, some, strict=True)]
            return new

        start = [
            u.load(self.phases, offset) if self.bend.wave else u.constant(0.0) for offset in offsets
        ]
        sums = u.loop(self.d, start * len(self.rows), add)
        return [sums[i * many : (i + 1) * many] for i in self.rows]


def _tile(rows: int) -> Any:
    """Return the intrinsic for so many rows.

    Its arguments are X, W, b; A and acc, and phi, where features are kept, each None where it is
    not wanted; how many columns and outputs there are; the first row and the chunk; where to begin
    in phi, and how far on its next row is; and the curve, see `simd.curves`. b are the phases at
    x = 0, or the coefficients of polynomials.
    """

    @intrinsic
    def tile(
        _: Any, X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, d: Any, outputs: Any, r: Any,
        c: Any, at: Any, row: Any, curve: Any,
    ) -> Any:  # fmt: skip
        kinds = (X, W, b, A, acc, phi, *[types.int64] * 6, curve)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _Tile(context, builder, signature.args, values, rows).emit()
            return context.get_dummy_value()

        return types.void(*kinds), codegen

    return tile


_rows_tile, _pair_tile, _row_tile = _tile(ROWS), _tile(2), _tile(1)


@part
def evaluate_dense(
    X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any,
    curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`; see `projection.evaluate`."""
    n, d = X.shape
    whole = n - n % ROWS
    for c in range(first, stop):
        at = (c - first) * n * CHUNK
        for r in range(0, whole, ROWS):
            _rows_tile(X, W, b, A, acc, phi, d, outputs, r, c, at + r * CHUNK, CHUNK, curve)
        for r in range(whole, n):
            _row_tile(X, W, b, A, acc, phi, d, outputs, r, c, at + r * CHUNK, CHUNK, curve)


@part
def evaluate_pair(
    X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, chunks: Any, outputs: Any, curve: Any
) -> None:
    """Add up all features of two rows and keep them, one row's after the other's.

    Each waits less for the other than for itself.
    """
    for c in range(chunks):
        at, row = c * CHUNK, chunks * CHUNK
        _pair_tile(X, W, b, A, acc, phi, X.shape[1], outputs, 0, c, at, row, curve)
