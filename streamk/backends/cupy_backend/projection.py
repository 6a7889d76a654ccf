"""Features, and what is summed up from them.

They are evaluated in tiles and reduced where they are, in shared memory. What several blocks
have a part of is written down part by part and added up by one thread in a fixed order, never by
atomic additions: so results are the same in every run, and a row's are the same in every batch.

Frequencies that are not kept are drawn by a kernel of their own, piece by piece, into a buffer that
stays in the second cache. Drawn in the tile they would be drawn again for every 64 rows of a batch,
and one costs as much as dozens of multiplications.

A plain matrix product is left to CuPy (cuBLAS) only in `features`, where the phases of a large
batch have to be stored anyway. Counted for a GPU of 20 Tflop/s and 1.5 TB/s, with a product at 90%
of that and a fused tile at 60%: by the product, a feature costs 2d flops at 18 Tflop/s and 8 bytes
more of memory traffic, 0.111 d + 5.3 ps, against 0.167 d ps fused. They meet near d = 100, as
they do by what an H100 was measured to do (51 Tflop/s by the product, 31 fused, 2.9 TB/s); from
`_PRODUCT_COLUMNS` on the product is taken. Predictions and steps stay fused at any d: a library's
product adds up in an order that depends on the shape of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamk.backends import CHUNK, LANES, Basis, Dense, Hadamard
from streamk.backends.cupy_backend.device import (
    SCRATCH,
    THREADS,
    Launcher,
    Variant,
    blocks,
    not_on_devices,
    pieces,
    plain,
)

CELLS = 4096
"""Features of a tile, as in the kernels; half as many where a transform's phases are double."""
SEGMENT = 64
"""Rows whose gradients one block adds up."""
SLOTS = 32
"""Sums of a gradient that a thread keeps."""
FEW_SLOTS = 4
"""So many where there are few outputs."""

_ROWS = 1 << 10
"""Rows that are worked on together at least; with some chunks they are work enough for a GPU."""
_SLAB = 8
"""Chunks, or spans of them, that are to go together."""
_SPANS = 1 << 15
"""Blocks in the second dimension of a grid; CUDA allows twice as many."""
_PRODUCT_COLUMNS = 256
_PRODUCT_ROWS = 256


def _period(basis: Basis) -> int:
    """Chunks that are evaluated together."""
    return max(basis.widths) // CHUNK if isinstance(basis, Hadamard) else 1


class Projection(Launcher):
    """Evaluates features, and learns from what is summed up from them."""

    def accumulate(self, X: Any, basis: Basis, A: Any, curve: int, wide: bool, acc: Any) -> None:
        """Add each chunk's coefficients times features to the partial sums `acc`."""
        chunks, outputs, _ = A.shape
        room = SCRATCH // (_SLAB * _period(basis) * outputs * LANES)
        for rows in pieces(len(X), max(_ROWS, room)):
            x, some = X[rows], acc[rows]
            for lo, hi in self._slabs(basis, 0, chunks, len(x) * outputs * LANES):
                parts = self.xp.empty((hi - lo, len(x), outputs, LANES), A.dtype)
                grid = self._tiles(basis, wide, len(x), lo, hi)
                self._evaluate("sums", grid, x, basis, curve, wide, lo, hi, A, outputs, parts)
                self._launch(
                    "learning",
                    "add_sums",
                    plain(A),
                    (blocks(some.size),),
                    parts,
                    hi - lo,
                    some.size,
                    some,
                )

    def predict(
        self, X: Any, basis: Basis, A: Any, curve: int, wide: bool, factor: float, F: Any
    ) -> None:
        """Write factor times coefficients times features into `F`."""
        acc = self.xp.zeros((len(X), A.shape[1], LANES), A.dtype)
        self.accumulate(X, basis, A, curve, wide, acc)
        self.finish(acc, factor, F)

    def features(self, X: Any, basis: Basis, curve: int, wide: bool, out: Any) -> None:
        """Write the features of each row into `out`, chunk after chunk."""
        chunks, d = out.shape[1] // CHUNK, X.shape[1]
        for rows in pieces(len(X), SCRATCH // CHUNK):
            x, some = X[rows], out[rows]
            large = d >= _PRODUCT_COLUMNS and len(x) >= _PRODUCT_ROWS
            if isinstance(basis, Dense) and not wide and large:
                self._product_features(x, basis, curve, some)
                continue
            for lo, hi in self._slabs(basis, 0, chunks, 0):
                grid = self._tiles(basis, wide, len(x), lo, hi)
                self._evaluate(
                    "features", grid, x, basis, curve, wide, lo, hi, some, chunks * CHUNK
                )

    def _product_features(self, X: Any, basis: Dense, curve: int, out: Any) -> None:
        """Write features whose projections are a matrix product."""
        n, width = out.shape
        for lo, hi in self._slabs(basis, 0, width // CHUNK, n * CHUNK):
            U = self.xp.matmul(X, basis.W[lo:hi])
            self._launch(
                "features",
                "bend",
                plain(U),
                (hi - lo, blocks(n * CHUNK)),
                U,
                n,
                basis.b[lo:hi],
                int(curve),
                out[:, lo * CHUNK :],
                width,
            )

    def gradient(self, X: Any, basis: Basis, G: Any, curve: int, wide: bool, out: Any) -> None:
        """Write the sum over the rows of G times features into `out`."""
        if not len(X):
            out[...] = 0.0
            return
        for lo, hi, parts in self._gradients(X, basis, G, curve, wide, 0, len(out)):
            some = out[lo:hi]
            self._launch(
                "learning",
                "add_segments",
                plain(out),
                (blocks(some.size),),
                parts,
                len(parts),
                some.size,
                some,
            )

    def _gradients(
        self, X: Any, basis: Basis, G: Any, curve: int, wide: bool, first: int, last: int
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield (lo, hi, sums of each segment of rows) of the chunks from `first` to `last`."""
        outputs, segments = G.shape[1], blocks(len(X), SEGMENT)
        period = _period(basis)
        few = outputs * period * CHUNK <= FEW_SLOTS * THREADS
        tiles = blocks(outputs, (FEW_SLOTS if few else SLOTS) * THREADS // (period * CHUNK))
        kernel = "gradient_of_few" if few else "gradient"
        for lo, hi in self._slabs(basis, first, last, segments * outputs * CHUNK):
            parts = self.xp.empty((segments, hi - lo, outputs, CHUNK), G.dtype)
            grid = (segments, blocks(hi, period) - lo // period, tiles)
            self._evaluate(kernel, grid, X, basis, curve, wide, lo, hi, G, outputs, parts)
            yield lo, hi, parts

    def step(
        self,
        X: Any,
        y: Any,
        basis: Basis,
        A: Any,
        squares: Any,
        block: tuple[int, int, int],
        curve: int,
        wide: bool,
        loss: tuple[int, float, bool],
        factor: float,
        weight: float,
        rate: float,
        F: Any,
        threads: int = 1,
    ) -> bool:
        """Predict the events and descend on the chunks of `block`, unless a prediction overflowed.

        `block` is its first chunk and its features start and stop, counted from that chunk. All is
        launched at once: the descent looks for an overflow itself. What is waited for is only the
        word whether there was one, so the device may be at work with the descent still.
        """
        first, start, stop = block
        n, outputs = F.shape
        code, parameter, classes = loss
        acc = self.xp.zeros((n, outputs, LANES), A.dtype)
        self.accumulate(X, basis, A, curve, wide, acc)
        G = self.xp.empty((n, outputs), A.dtype)
        overflowed = self.xp.zeros(1, np.int32)
        self._launch(
            "learning",
            "settle",
            plain(A),
            (blocks(n),),
            acc,
            float(factor),
            int(code),
            float(parameter),
            int(classes),
            y,
            float(weight),
            n,
            outputs,
            F,
            overflowed,
            G,
        )
        overflow = self._device.fetch(overflowed)
        last = first + blocks(stop, CHUNK)
        for lo, hi, parts in self._gradients(X, basis, G, curve, wide, first, last):
            edge = (lo - first) * CHUNK
            self._descend(
                A[lo:hi],
                squares[lo:hi],
                parts,
                len(parts),
                rate,
                start - edge,
                stop - edge,
                overflowed,
            )
        return not overflow()[0]

    def _evaluate(
        self,
        kernel: str,
        grid: tuple[int, ...],
        X: Any,
        basis: Basis,
        curve: int,
        wide: bool,
        *arguments: Any,
    ) -> None:
        """Launch a kernel that begins with a tile's features."""
        double = X.dtype == np.float64
        n, d = X.shape
        signs, widths, groups = None, None, 0
        if isinstance(basis, Hadamard):
            table, signs = basis.radii, basis.signs
            widths, groups = self._on_device(basis.widths), len(basis.widths)
        elif isinstance(basis, Dense):
            table = basis.W
        else:
            raise not_on_devices(type(basis).__name__.lower())
        self._launch(
            "features",
            kernel,
            Variant(double, double or wide, groups > 0),
            grid,
            X,
            n,
            d,
            table,
            basis.b,
            signs,
            widths,
            groups,
            _period(basis) * CHUNK,
            int(curve),
            *arguments,
        )

    def _tiles(self, basis: Basis, wide: bool, n: int, lo: int, hi: int) -> tuple[int, int]:
        """Return the grid of tiles of all rows and the chunks from `lo` to `hi`."""
        period = _period(basis)
        halved = isinstance(basis, Hadamard) and (wide or basis.b.dtype == np.float64)
        rows = (CELLS // 2 if halved else CELLS) // (period * CHUNK)
        return blocks(n, rows), blocks(hi, period) - lo // period

    def _slabs(
        self, basis: Basis, first: int, last: int, numbers: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (lo, hi) of chunks whose parts, so many numbers a chunk, have room together."""
        period = _period(basis)
        spans = min(_SPANS, max(1, SCRATCH // max(1, numbers * period)))
        while first < last:
            stop = min(last, (first // period + spans) * period)
            yield first, stop
            first = stop

    def finish(self, acc: Any, factor: float, F: Any) -> None:
        """Write the partial sums' sum, times the factor, into `F`."""
        self._launch(
            "learning", "finish", plain(acc), (blocks(F.size),), acc, float(factor), F.size, F
        )

    def loss_gradient(
        self,
        code: int,
        parameter: float,
        classes: bool,
        F: Any,
        y: Any,
        weight: float,
        G: Any,
    ) -> None:
        """Write the weighted (sub)gradient of each row's loss in its outputs into `G`."""
        n, outputs = F.shape
        self._launch(
            "learning",
            "loss_gradient",
            plain(G),
            (blocks(n),),
            int(code),
            float(parameter),
            int(classes),
            F,
            y,
            float(weight),
            n,
            outputs,
            G,
        )

    def descend(self, A: Any, squares: Any, g: Any, rate: float, start: int, stop: int) -> None:
        """Subtract ``rate * g`` from the features start...stop of these chunks.

        Where there are `squares`, they take in the squared gradient, and the gradient is divided by
        their root.
        """
        self._descend(A, squares, g, 1, rate, start, stop, None)

    def _descend(
        self,
        A: Any,
        squares: Any,
        parts: Any,
        segments: int,
        rate: float,
        start: int,
        stop: int,
        overflowed: Any,
    ) -> None:
        self._launch(
            "learning",
            "descend",
            plain(A),
            (blocks(A.size),),
            A,
            squares if len(squares) else None,
            parts,
            segments,
            A.size,
            A.shape[1],
            float(rate),
            start,
            stop,
            overflowed,
        )

    def decay(self, A: Any, factor: float) -> None:
        """Multiply all coefficients by the factor."""
        A *= A.dtype.type(factor)
