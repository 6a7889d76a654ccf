"""Products with a block diagonal matrix and with links between its blocks.

The blocks of W lie one after the other in one array, each row by row; a chunk is some rows of one
of them. Blocks of the symmetric L lie likewise in another, each pair of clusters once. They are
stored in single or double precision, and all sums are in double.

Both products with W read it once, at the speed of memory: a number of the storage is one multiply
and one add in double precision. What keeps up with memory is reading W in a few streams. A chunk is
parted in as many, and a row of each goes by at a time: numbers of the columns are loaded, and
stored, once for all of them, and sums wait for one another less. Each stream is read from its
beginning to its end, which lets the machine read ahead; with neighbouring rows at a time, it would
jump to and fro within a page, and take up to four times as long.

Numbers of the points are moved to the order of W's rows before, and back after. A row that fetched
its own would wait for a line of memory for each, where moving reads and writes each line once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import LANES
from streamk.backends.jit.compiling import compiled, compiling, copy, inlined, part
from streamk.backends.jit.lanes import (
    fma,
    load,
    load_first,
    prefetch,
    repeated,
    store,
    summed,
)

_reordered = compiling(nogil=True, fastmath={"contract", "reassoc"})
_STREAMS = 4
"""Parts of a chunk that are read at once."""
_AHEAD = 16
"""Numbers of a cluster, two lines of memory, that are asked for before it is their turn."""


@part
def _add_rows(W: Any, at: Any, rows: Any, k: Any, v: Any, sums: Any) -> None:
    """Add the rows of a chunk, each times the number of its point, to those of the columns."""
    apart = rows // _STREAMS
    for r in range(apart):
        a = at + r * k
        b, c, d = a + apart * k, a + 2 * apart * k, a + 3 * apart * k
        for j in range(0, k, LANES):
            total, left = load(sums, j), k - j
            total = fma(_some(W, a + j, left), v[r], total)
            total = fma(_some(W, b + j, left), v[r + apart], total)
            total = fma(_some(W, c + j, left), v[r + 2 * apart], total)
            total = fma(_some(W, d + j, left), v[r + 3 * apart], total)
            store(total, sums, j)
    for r in range(apart * _STREAMS, rows):
        for j in range(0, k, LANES):
            store(fma(_some(W, at + r * k + j, k - j), v[r], load(sums, j)), sums, j)


@part
def _dot_rows(W: Any, at: Any, rows: Any, k: Any, out: Any, u: Any) -> None:
    """Write the products of the rows of a chunk with the numbers of the columns."""
    apart = rows // _STREAMS
    for i in range(apart):
        a = at + i * k
        b, c, d = a + apart * k, a + 2 * apart * k, a + 3 * apart * k
        p = repeated(0.0)
        q, r, s = p, p, p
        for j in range(0, k, LANES):
            left = k - j
            numbers = _some(u, j, left)
            p = fma(_some(W, a + j, left), numbers, p)
            q = fma(_some(W, b + j, left), numbers, q)
            r = fma(_some(W, c + j, left), numbers, r)
            s = fma(_some(W, d + j, left), numbers, s)
        out[i], out[i + apart] = summed(p), summed(q)
        out[i + 2 * apart], out[i + 3 * apart] = summed(r), summed(s)
    for i in range(apart * _STREAMS, rows):
        p = repeated(0.0)
        for j in range(0, k, LANES):
            p = fma(_some(W, at + i * k + j, k - j), _some(u, j, k - j), p)
        out[i] = summed(p)


@inlined
def _some(A: Any, at: Any, left: Any) -> Any:
    """Return the vector at a place of a row of which so many numbers are left."""
    return load(A, at) if left >= LANES else load_first(A, at, left)


@compiled
def scatter(v: Any, places: Any, out: Any) -> None:
    """Write each number to its place (uint32) in `out`: that of its point's row in W."""
    for i in range(len(v)):
        prefetch(out, np.int64(places[i]) + _AHEAD)
        out[places[i]] = v[i]


@compiled
def gather(v: Any, places: Any, out: Any) -> None:
    """Write the numbers at the places (uint32) into `out`."""
    for i in range(len(out)):
        prefetch(v, np.int64(places[i]) + _AHEAD)
        out[i] = v[places[i]]


@compiled
def down(values: Any, chunks: Any, v: Any, parts: Any) -> None:
    """Write each chunk's ``W^T v`` into its row of `parts` (chunks, largest rank).

    A chunk is (place in `values`, first row, rows, columns), int64. Numbers of `v` (n,) are in
    the order of the rows.
    """
    room = np.empty(parts.shape[1] + 2 * LANES)  # for whole vectors, from a line of memory on
    sums = room[-(room.ctypes.data // 8) % 8 :]
    for c in range(len(chunks)):
        at, row, rows, k = chunks[c]
        sums[:] = 0.0
        _add_rows(values, at, rows, k, v[row:], sums)
        copy(sums, parts[c, :k])


@compiled
def up(values: Any, chunks: Any, u: Any, starts: Any, out: Any) -> None:
    """Write each chunk's ``W u`` into its numbers of `out` (n,), in the order of the rows.

    A chunk's numbers of `u` (rank,) begin at its place of `starts`.
    """
    for c in range(len(chunks)):
        at, row, rows, k = chunks[c]
        _dot_rows(values, at, rows, k, out[row:], u[starts[c] :])


@_reordered
def _dot(one: Any, other: Any) -> Any:
    total = 0.0
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@compiled
def couple(values: Any, links: Any, u: Any, out: Any) -> None:
    """Write ``L u`` into `out` (rank,).

    A link is (place in `values`, first row, rows, first column, columns), int64, above the
    diagonal or on it.
    """
    out[:] = 0.0
    for c in range(len(links)):
        at, row, rows, column, columns = links[c]
        x, y = u[column : column + columns], out[column : column + columns]
        for i in range(rows):
            one, factor = values[at + i * columns : at + (i + 1) * columns], u[row + i]
            out[row + i] += _dot(one, x)
            if row != column:
                for j in range(columns):
                    y[j] += one[j] * factor
