"""Products with a block diagonal matrix and with links between its blocks.

Both products with W read it once, at the speed of memory: a number of the storage is one multiply
and one add in double precision. Sums over a row's columns may be taken in lanes, which depends on
their number alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends.numba_backend.compiling import compiled, compiling

_reordered = compiling(nogil=True, fastmath={"contract", "reassoc"})


@compiled
def down(values: Any, chunks: Any, order: Any, v: Any, parts: Any) -> None:
    """Write each chunk's ``W^T v`` into its row of `parts`."""
    sums = np.empty(parts.shape[1])
    for c in range(len(chunks)):
        at, row, rows, k = chunks[c]
        part = sums[:k]
        part[:] = 0.0
        for r in range(rows):
            one, factor = values[at + r * k : at + (r + 1) * k], v[order[row + r]]
            for j in range(k):
                part[j] += one[j] * factor
        parts[c, :k] = part


@_reordered
def _dot(one: Any, other: Any) -> Any:
    total = 0.0
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@compiled
def up(values: Any, chunks: Any, order: Any, u: Any, starts: Any, out: Any) -> None:
    """Write each chunk's ``W u`` into its numbers of `out`."""
    for c in range(len(chunks)):
        at, row, rows, k = chunks[c]
        other = u[starts[c] : starts[c] + k]
        for r in range(rows):
            out[order[row + r]] = _dot(values[at + r * k : at + (r + 1) * k], other)


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
