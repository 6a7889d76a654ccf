"""Products with a block diagonal matrix and with links between its blocks, in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def scatter(v: Any, places: Any, out: Any) -> None:
    """Write each number to its place in `out`."""
    out[places] = v


def gather(v: Any, places: Any, out: Any) -> None:
    """Write the numbers at the places into `out`."""
    out[:] = v[places]


def down(values: Any, chunks: Any, v: Any, parts: Any) -> None:
    """Write each chunk's ``W^T v`` into its row of `parts`."""
    for (at, row, rows, k), part in zip(chunks.tolist(), parts, strict=True):
        W = values[at : at + rows * k].reshape(rows, k)
        part[:k] = W.T.astype(np.float64) @ v[row : row + rows]


def up(values: Any, chunks: Any, u: Any, starts: Any, out: Any) -> None:
    """Write each chunk's ``W u`` into its numbers of `out`."""
    for (at, row, rows, k), start in zip(chunks.tolist(), starts.tolist(), strict=True):
        W = values[at : at + rows * k].reshape(rows, k)
        out[row : row + rows] = W.astype(np.float64) @ u[start : start + k]


def couple(values: Any, links: Any, u: Any, out: Any) -> None:
    """Write ``L u`` into `out`."""
    out[:] = 0.0
    for at, row, rows, column, columns in links.tolist():
        L = values[at : at + rows * columns].reshape(rows, columns).astype(np.float64)
        out[row : row + rows] += L @ u[column : column + columns]
        if row != column:
            out[column : column + columns] += L.T @ u[row : row + rows]
