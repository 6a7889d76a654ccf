"""Products with a block diagonal matrix and with links between its blocks.

Both products with W read it once, at the speed of memory: a number of the storage is one multiply
and one add in double precision. Sums over a row's columns may be taken in lanes, which depends on
their number alone.
"""

from __future__ import annotations

from typing import Any

from streamk.backends.numba_backend.compiling import compiled, compiling

_reordered = compiling(nogil=True, fastmath={"contract", "reassoc"})


@compiled
def down(values: Any, chunks: Any, v: Any, parts: Any) -> None:
    """Write each chunk's ``W^T v`` into its row of `parts`."""
    for c in range(len(chunks)):
        at, row, rows, k = chunks[c]
        part = parts[c, :k]
        part[:] = 0.0
        whole = rows - rows % 8
        for r in range(0, whole, 8):
            W = values[at + r * k : at + (r + 8) * k].reshape(8, k)
            x = v[row + r : row + r + 8]
            for j in range(k):
                early = W[0, j] * x[0] + W[1, j] * x[1] + W[2, j] * x[2] + W[3, j] * x[3]
                late = W[4, j] * x[4] + W[5, j] * x[5] + W[6, j] * x[6] + W[7, j] * x[7]
                part[j] += early + late
        for r in range(whole, rows):
            one, factor = values[at + r * k : at + (r + 1) * k], v[row + r]
            for j in range(k):
                part[j] += one[j] * factor


@_reordered
def _dot(one: Any, other: Any) -> Any:
    total = 0.0
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@compiled
def up(values: Any, chunks: Any, u: Any, starts: Any, out: Any) -> None:
    """Write each chunk's ``W u`` into its rows of `out`."""
    for c in range(len(chunks)):
        at, row, rows, k = chunks[c]
        other = u[starts[c] : starts[c] + k]
        for r in range(rows):
            out[row + r] = _dot(values[at + r * k : at + (r + 1) * k], other)


@compiled
def couple(values: Any, links: Any, u: Any, out: Any) -> None:
    """Write ``L u`` into `out`."""
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
