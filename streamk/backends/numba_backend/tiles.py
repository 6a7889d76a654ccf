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

from typing import Any

import numpy as np
from numba import types

from streamk.backends import CHUNK, LANES
from streamk.backends.jit.compiling import inlined, part
from streamk.backends.jit.lanes import (
    fma,
    load,
    load_rows,
    repeated,
    room,
    spread,
    store,
    store_rows,
    throughout,
    transposed,
    walsh,
)
from streamk.backends.jit.parts import overload
from streamk.backends.jit.vectors import registers
from streamk.backends.numba_backend.phases import curve_of, sink

ROWS = 4
"""Rows of a tile, a power of two: with a whole chunk, 16 of AVX-512's 32 registers hold sums."""


def _tile(rows: int) -> Any:
    """Return what takes the features of so many rows, a power of two, and one chunk.

    Its arguments are X, W, b; A and acc, and phi, where features are kept, each None where it is
    not wanted; how many outputs there are; the first row and the chunk; where to begin in phi, and
    how far on its next row is; and the curve, see `phases`. b are the phases at x = 0, or the
    coefficients of polynomials.
    """

    def tile(
        X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, outputs: Any, r: Any, c: Any, at: Any,
        row: Any, curve: Any,
    ) -> None:  # fmt: skip
        raise NotImplementedError("only compiled")

    @overload(tile, forceinline=True)
    def compiled_tile(
        X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, outputs: Any, r: Any, c: Any, at: Any,
        row: Any, curve: Any,
    ) -> Any:  # fmt: skip
        kind = curve if isinstance(curve, types.Float) else W.dtype
        space = 3 * registers() * 32 // (4 * rows * kind.bitwidth)  # a quarter is for factors
        each = next(n for n in (CHUNK, CHUNK // 2, LANES) if n <= max(space, LANES))
        lanes, take = rows * each, sink(rows, each)
        begin, features = curve_of(curve, each, lanes)

        def loop(
            X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, outputs: Any, r: Any, c: Any,
            at: Any, row: Any, curve: Any,
        ) -> None:  # fmt: skip
            d = X.shape[1]
            for first in range(0, CHUNK, each):
                u = begin(b, c, first, curve)
                for j in range(d):
                    w = throughout(load(W, (c * d + j) * CHUNK + first, each), lanes)
                    u = fma(spread(X, r * d + j, d, rows, lanes), w, u)
                x = features(u, b, c, first, curve)
                take(x, A, acc, phi, outputs, r, c, first, at, row)

        return loop

    return tile


_rows_tile, _pair_tile, _row_tile = _tile(ROWS), _tile(2), _tile(1)


@part
def evaluate_dense(
    X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any,
    curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`; see `projection.evaluate`."""
    n = X.shape[0]
    whole = n - n % ROWS
    for c in range(first, stop):
        at = (c - first) * n * CHUNK
        for r in range(0, whole, ROWS):
            _rows_tile(X, W, b, A, acc, phi, outputs, r, c, at + r * CHUNK, CHUNK, curve)
        for r in range(whole, n):
            _row_tile(X, W, b, A, acc, phi, outputs, r, c, at + r * CHUNK, CHUNK, curve)


@part
def evaluate_pair(
    X: Any, W: Any, b: Any, A: Any, acc: Any, phi: Any, chunks: Any, outputs: Any, curve: Any
) -> None:
    """Add up all features of two rows and keep them, one row's after the other's.

    Each waits less for the other than for itself.
    """
    for c in range(chunks):
        at, row = c * CHUNK, chunks * CHUNK
        _pair_tile(X, W, b, A, acc, phi, outputs, 0, c, at, row, curve)


_RADIX, _EIGHT, _ALL, _SIZE = 8, 8 * LANES, LANES * LANES, CHUNK * LANES
_take_row, _take_rows = sink(1, CHUNK), sink(LANES, LANES)


@inlined
def _row_sketch(X: Any, r: Any, buckets: Any, c: Any, sums: Any) -> Any:
    """Return the sketches of one row and one chunk."""
    product, zero = repeated(sums.dtype.type(1.0), CHUNK), repeated(sums.dtype.type(0.0), CHUNK)
    for f in range(buckets.shape[1]):
        store(zero, sums, 0)
        for j in range(X.shape[1]):
            code = np.int64(buckets[c, f, j])
            sums[code & (CHUNK - 1)] += -X[r, j] if code >= CHUNK else X[r, j]
        product = product * walsh(load(sums, 0, CHUNK), 1, CHUNK)
    return product


@part
def _rows_sketch(x: Any, buckets: Any, c: Any, sums: Any, products: Any) -> None:
    """Write the sketches of `LANES` rows, which lie side by side, and one chunk."""
    one, zero = repeated(sums.dtype.type(1.0)), repeated(sums.dtype.type(0.0))
    for at in range(0, CHUNK * LANES, LANES):
        store(one, products, at)
    for f in range(buckets.shape[1]):
        for at in range(0, CHUNK * LANES, LANES):
            store(zero, sums, at)
        for j in range(x.shape[0]):
            code = np.int64(buckets[c, f, j])
            place, sign = (code & (CHUNK - 1)) * LANES, -1.0 if code >= CHUNK else 1.0
            store(fma(load(x, j * LANES), sign, load(sums, place)), sums, place)
        for at in range(0, CHUNK * LANES, _EIGHT):
            store(walsh(load(sums, at, _EIGHT), LANES, _EIGHT), sums, at)
        for at in range(0, _EIGHT, LANES):
            some = walsh(load_rows(sums, at, _EIGHT, _RADIX, _EIGHT), LANES, _EIGHT)
            others = load_rows(products, at, _EIGHT, _RADIX, _EIGHT)
            store_rows(others * some, products, at, _EIGHT, _RADIX)


@part
def evaluate_sketches(
    X: Any, buckets: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any,
    curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`; see `projection.evaluate`."""
    n, d = X.shape
    whole, x, zero = n - n % LANES, np.empty((d, LANES), X.dtype), X.dtype.type(0.0)
    sums, products = room(_SIZE, zero), room(_SIZE, zero)
    for r in range(0, whole, LANES):
        for j in range(d):
            for lane in range(LANES):
                x[j, lane] = X[r + lane, j]
        for c in range(first, stop):
            at = ((c - first) * n + r) * CHUNK
            _rows_sketch(x, buckets, c, sums, products)
            for i in range(0, CHUNK, LANES):
                some = transposed(load(products, i * LANES, _ALL))
                _take_rows(some, A, acc, phi, outputs, r, c, i, at, CHUNK)
    for r in range(whole, n):
        for c in range(first, stop):
            at = ((c - first) * n + r) * CHUNK
            some = _row_sketch(X, r, buckets, c, sums)
            _take_row(some, A, acc, phi, outputs, r, c, 0, at, CHUNK)
