"""Features in registers: of dense frequencies, and of tensor sketches.

Features of dense frequencies: projected, taken the cosine of and summed up in registers.

A tile is `ROWS` rows by a chunk: its phases are sums that stay in registers while the columns pass
by, each of a chunk's frequencies being loaded once for all rows of the tile. Rows that do not fill
a tile go one by one. Either way a row's phases are summed column by column from the phase b on, so
they do not depend on what else is in the batch.

Tensor sketches: products of transformed count sketches, of one row or of `LANES` side by side.

A count sketch adds each column, with a random sign, to one of `CHUNK` random buckets. Products of
the Walsh-Hadamard transforms of several are the transform of a sketch of the columns' tensor
product (see `streamk.kernels.Polynomial`). One row's buckets are four vectors, transformed in
registers. Of `LANES` rows each bucket is a vector, so that a column is added to a bucket of all of
them at once; they pass through memory twice, three stages of the transform at a time. Either way
a number goes through the same additions, so a row's features do not depend on its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from streamk.backends import CHUNK, LANES
from streamk.backends.jit.compiling import part
from streamk.backends.jit.vectors import Emitter, data, registers, stack
from streamk.backends.numba_backend.phases import Bend, FeatureSink

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
        self.sink = FeatureSink(e, A, acc, phi, outputs=outputs, c=c, rows=numbers, at=at, row=row)

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
    in phi, and how far on its next row is; and the curve, see `phases`. b are the phases at
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


_VECTORS, _RADIX = CHUNK // LANES, 8


class _SketchTile:
    """Emits the body of an intrinsic: the sketches of one row, or of `LANES` rows, and one chunk.

    Of several rows, X holds the columns of theirs, (d, LANES).
    """

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, rows: int) -> None:
        self.b, self.e = builder, Emitter(builder, context.get_data_type(kinds[0].dtype))
        X, buckets, A, acc, phi = (
            None if kind == types.none else data(context, builder, kind, value)
            for kind, value in zip(kinds[:5], values[:5], strict=True)
        )
        self.d, self.factors, outputs, r, c, at = values[5:]
        e = self.e
        self.X = e.at(X, e.offset((r, self.d))) if rows == 1 else X
        self.codes = e.at(buckets, e.offset((e.offset((c, self.factors)), self.d)))
        self.room = stack(builder, e.element, CHUNK * rows)
        numbers = [builder.add(r, e.size(i)) for i in range(rows)]
        self.sink = FeatureSink(
            e, A, acc, phi, outputs=outputs, c=c, rows=numbers, at=at, row=e.size(CHUNK)
        )

    def _count(self, factor: Any, add: Callable[[Any, Any, Any], None]) -> None:
        """Call add(column, bucket, whether its sign is minus) for each column."""
        e, b = self.e, self.b
        codes = e.at(self.codes, e.offset((factor, self.d)))

        def count(j: Any, _: list[Any]) -> list[Any]:
            code = b.zext(b.load(e.at(codes, j)), ir.IntType(64))
            minus = b.icmp_unsigned(">=", code, e.size(CHUNK))
            add(j, b.and_(code, e.size(CHUNK - 1)), minus)
            return []

        e.loop(self.d, [], count)

    def emit_row(self) -> None:
        """Emit it for one row."""
        e, b = self.e, self.b
        offsets = [v * LANES for v in range(_VECTORS)]

        def add(j: Any, bucket: Any, minus: Any) -> None:
            x, place = b.load(e.at(self.X, j)), e.at(self.room, bucket)
            b.store(b.fadd(b.load(place), b.select(minus, b.fneg(x), x)), place)

        def multiply(factor: Any, products: list[Any]) -> list[Any]:
            for offset in offsets:
                e.store(e.constant(0.0), self.room, offset)
            self._count(factor, add)
            values = [e.load(self.room, offset) for offset in offsets]
            stride = 1
            while stride < LANES:
                values = [e.butterflies(value, stride) for value in values]
                stride *= 2
            values = _stages(e, values)
            return [b.fmul(p, v) for p, v in zip(products, values, strict=True)]

        features = e.loop(self.factors, [e.constant(1.0)] * _VECTORS, multiply)
        self.sink.take([features], offsets)

    def emit_rows(self) -> None:
        """Emit it for `LANES` rows."""
        e, b = self.e, self.b
        products = stack(b, e.element, CHUNK * LANES)
        for k in range(CHUNK):
            e.store(e.constant(1.0), products, k * LANES)

        def add(j: Any, bucket: Any, minus: Any) -> None:
            x = e.load(e.at(self.X, e.offset((j, e.size(LANES)))))
            place = e.at(self.room, e.offset((bucket, e.size(LANES))))
            sign = b.select(minus, ir.Constant(e.element, -1.0), ir.Constant(e.element, 1.0))
            e.store(e.fma(e.splat(sign), x, e.load(place)), place)

        def multiply(factor: Any, _: list[Any]) -> list[Any]:
            for k in range(CHUNK):
                e.store(e.constant(0.0), self.room, k * LANES)
            self._count(factor, add)
            for first in range(0, CHUNK, _RADIX):
                self._transform([(first + i) * LANES for i in range(_RADIX)], None)
            for first in range(_RADIX):
                places = [(first + i * _RADIX) * LANES for i in range(_RADIX)]
                self._transform(places, products)
            return []

        e.loop(self.factors, [], multiply)
        for offset in range(0, CHUNK, LANES):
            rows = e.transposed([e.load(products, (offset + i) * LANES) for i in range(LANES)])
            self.sink.take([[row] for row in rows], [offset])

    def _transform(self, places: list[int], products: Any) -> None:
        """Emit three stages on the vectors at some places, which are multiplied into products."""
        e = self.e
        values = _stages(e, [e.load(self.room, place) for place in places])
        for place, value in zip(places, values, strict=True):
            if products is None:
                e.store(value, self.room, place)
            else:
                e.store(self.b.fmul(e.load(products, place), value), products, place)


def _stages(e: Emitter, values: list[Any]) -> list[Any]:
    """Return the Walsh-Hadamard transform of vectors, unnormalised, pairs of neighbours first."""
    values, stride = list(values), 1
    while stride < len(values):
        for i in range(len(values)):
            if not i & stride:
                values[i], values[i + stride] = e.butterfly(values[i], values[i + stride])
        stride *= 2
    return values


def _sketch_tile(rows: int) -> Any:
    """Return the intrinsic for one row or `LANES` of them.

    Its arguments are X, buckets; A and acc, and phi, where features are kept, each None where it is
    not wanted; how many columns, factors and outputs there are; the first row and the chunk; and
    where to begin in phi.
    """

    @intrinsic
    def tile(
        _: Any, X: Any, buckets: Any, A: Any, acc: Any, phi: Any, d: Any, factors: Any,
        outputs: Any, r: Any, c: Any, at: Any,
    ) -> Any:  # fmt: skip
        kinds = (X, buckets, A, acc, phi, *[types.int64] * 6)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            emitted = _SketchTile(context, builder, signature.args, values, rows)
            if rows == 1:
                emitted.emit_row()
            else:
                emitted.emit_rows()
            return context.get_dummy_value()

        return types.void(*kinds), codegen

    return tile


_row_sketch, _rows_sketch = _sketch_tile(1), _sketch_tile(LANES)


@part
def evaluate_sketches(
    X: Any, buckets: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any,
    curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`; see `projection.evaluate`."""
    n, d = X.shape
    whole, factors = n - n % LANES, buckets.shape[1]
    x = np.empty((d, LANES), X.dtype)
    for r in range(0, whole, LANES):
        for j in range(d):
            for lane in range(LANES):
                x[j, lane] = X[r + lane, j]
        for c in range(first, stop):
            at = ((c - first) * n + r) * CHUNK
            _rows_sketch(x, buckets, A, acc, phi, d, factors, outputs, r, c, at)
    for r in range(whole, n):
        for c in range(first, stop):
            at = ((c - first) * n + r) * CHUNK
            _row_sketch(X, buckets, A, acc, phi, d, factors, outputs, r, c, at)
