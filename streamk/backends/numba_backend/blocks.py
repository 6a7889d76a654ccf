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

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from streamk.backends import LANES
from streamk.backends.jit.compiling import compiled, compiling, copy
from streamk.backends.jit.vectors import Emitter, emitted

_reordered = compiling(nogil=True, fastmath={"contract", "reassoc"})
_STREAMS = 4
"""Parts of a chunk that are read at once; a power of two."""
_AHEAD = 16
"""Numbers of a cluster, two lines of memory, that are asked for before it is their turn."""

_Load = Callable[[Any], Any]
_Step = Callable[[Emitter, list[Any], Any, list[Any], Any], None]


def _by_columns(
    e: Emitter, k: Any, carried: list[Any], add: Callable[[Any, _Load, list[Any]], list[Any]]
) -> list[Any]:
    """Emit a pass over k columns, a vector of them at a time, that hands values on.

    `add` takes the first column, what loads that vector of a row (0 after the last column), and
    the values.
    """
    b = e.builder
    rest = b.urem(k, e.size(e.lanes))
    done = b.sub(k, rest)

    def whole(i: Any, values: list[Any]) -> list[Any]:
        at = b.mul(i, e.size(e.lanes))
        return add(at, lambda row: e.load(e.at(row, at)), values)

    def last(_: Any, values: list[Any]) -> list[Any]:
        return add(done, lambda row: e.load_some(e.at(row, done), 0, rest), values)

    carried = e.loop(b.udiv(k, e.size(e.lanes)), carried, whole)
    return e.loop(b.zext(b.icmp_signed(">", rest, e.size(0)), rest.type), carried, last)


def _emit_add(e: Emitter, rows: list[Any], k: Any, points: list[Any], columns: Any) -> None:
    """Add rows, each times the number of its point, to those of the columns."""
    factors = [e.splat(e.builder.load(point)) for point in points]

    def add(at: Any, load: _Load, _: list[Any]) -> list[Any]:
        place = e.at(columns, at)
        total = e.load(place)
        for row, factor in zip(rows, factors, strict=True):
            total = e.fma(load(row), factor, total)
        e.store(total, place)
        return []

    _by_columns(e, k, [], add)


def _emit_dot(e: Emitter, rows: list[Any], k: Any, points: list[Any], columns: Any) -> None:
    """Write products of rows with the numbers of the columns into those of the points."""

    def add(_: Any, load: _Load, totals: list[Any]) -> list[Any]:
        numbers = load(columns)
        return [e.fma(load(row), numbers, t) for row, t in zip(rows, totals, strict=True)]

    totals = e.totals(_by_columns(e, k, [e.constant(0.0)] * len(rows), add))
    for i, point in enumerate(points):
        e.builder.store(e.builder.extract_element(totals, e.size(i)), point)


def _streamed(step: _Step) -> Any:
    """Return the intrinsic that does a step with all rows of a chunk, some at a time.

    Its arguments are the chunk's numbers, rows and columns, and the numbers of its points and of
    its columns; a vector may be stored where the last column is.
    """

    @emitted()
    def streamed(builder: Any, W: Any, rows: Any, k: Any, points: Any, columns: Any) -> None:
        """Do the step with all rows of a chunk."""
        e = Emitter(builder, ir.DoubleType())
        apart = builder.udiv(rows, e.size(_STREAMS))

        def do(first: Any, count: int) -> list[Any]:
            numbers = [e.offset((first, e.size(1)), (e.size(i), apart)) for i in range(count)]
            at = [e.at(W, builder.mul(number, k)) for number in numbers]
            step(e, at, k, [e.at(points, number) for number in numbers], columns)
            return []

        e.loop(apart, [], lambda r, _: do(r, _STREAMS))
        done = builder.mul(apart, e.size(_STREAMS))
        e.loop(builder.sub(rows, done), [], lambda r, _: do(builder.add(done, r), 1))

    return streamed


_add_rows, _dot_rows = _streamed(_emit_add), _streamed(_emit_dot)


@emitted()
def _ask(builder: Any, numbers: Any, place: Any) -> None:
    """Ask for what is `_AHEAD` of a place, where a later number of the same cluster is."""
    e = Emitter(builder, ir.DoubleType())
    e.prefetch(e.at(numbers, builder.add(place, e.size(_AHEAD))))


@compiled
def scatter(v: Any, places: Any, out: Any) -> None:
    """Write each number to its place (uint32) in `out`: that of its point's row in W."""
    for i in range(len(v)):
        _ask(out, np.int64(places[i]))
        out[places[i]] = v[i]


@compiled
def gather(v: Any, places: Any, out: Any) -> None:
    """Write the numbers at the places (uint32) into `out`."""
    for i in range(len(out)):
        _ask(v, np.int64(places[i]))
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
        _add_rows(values[at:], rows, k, v[row:], sums)
        copy(sums, parts[c, :k])


@compiled
def up(values: Any, chunks: Any, u: Any, starts: Any, out: Any) -> None:
    """Write each chunk's ``W u`` into its numbers of `out` (n,), in the order of the rows.

    A chunk's numbers of `u` (rank,) begin at its place of `starts`.
    """
    for c in range(len(chunks)):
        at, row, rows, k = chunks[c]
        _dot_rows(values[at:], rows, k, out[row:], u[starts[c] :])


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
