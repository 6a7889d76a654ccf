"""A Cholesky factor in single precision, by panels.

Products are those of one group's rows at a time, so that they are of the same matrices however rows
come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import GROUP
from streamk.backends.cholesky import PANEL

Array = NDArray[Any]


def eliminate(own: Array, first: int, stop: int, panel: Array, at: int) -> None:
    """Turn the columns of another panel into those of the factor."""
    rows = own[first:stop]
    rows[:, at : at + PANEL] -= _rows(panel, at) @ rows[:, :at]
    for j, group in enumerate(panel):
        tile = slice(at + j * GROUP, at + (j + 1) * GROUP)
        rest = rows[:, tile] - group[at : tile.start].T @ rows[:, at : tile.start]
        rows[:, tile] = group[tile].T @ rest


def factor(own: Array, first: int, stop: int, at: int) -> bool:
    """Turn the columns of the panel itself into those of the factor."""
    for j in range(stop):
        tile = slice(at + j * GROUP, at + (j + 1) * GROUP)
        rows = own[max(first, j) : stop]
        rows[:, tile] -= own[j, : tile.start].T @ rows[:, : tile.start]
        if j >= first:
            try:
                rows[0, tile] = np.linalg.inv(np.linalg.cholesky(rows[0, tile].T)).T
            except np.linalg.LinAlgError:
                return False
            rows = rows[1:]
        rows[:, tile] = own[j, tile].T @ rows[:, tile]
    return True


def forward(panel: Array, at: int, A: Array, first: int) -> None:
    """Solve ``L x = y`` for the rows of a panel, from a group on."""
    for g, group in enumerate(panel[first : (A.shape[1] - at) // GROUP], first):
        tile = slice(at + g * GROUP, at + (g + 1) * GROUP)
        rest = A[:, tile] - group[: tile.start].T @ A[:, : tile.start]
        A[:, tile] = group[tile].T @ rest


def backward(panel: Array, at: int, A: Array) -> None:
    """Solve ``L' x = y`` for the rows of a panel."""
    groups = panel[: (A.shape[1] - at) // GROUP]
    for g, group in reversed(list(enumerate(groups))):
        tile = slice(at + g * GROUP, at + (g + 1) * GROUP)
        A[:, tile] = group[tile] @ A[:, tile]
        A[:, : tile.start] -= group[: tile.start] @ A[:, tile]


def _rows(panel: Array, count: int) -> Array:
    """Return the first columns of a panel, row by row (rows, count)."""
    return panel[:, :count].transpose(0, 2, 1).reshape(len(panel) * GROUP, count)
