"""The cells of random binning as the compiled loops find them, and what lies in a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.backends.pool_arrays import line
from streamk.learners.multi_kernel.tables import (
    BINS,
    GROUP_STARTS,
    TABLES,
    Membership,
    folds,
    starts_of,
)


def addressing_arrays(
    found: Membership, sizes: NDArray[Any], most: int, columns: int
) -> dict[str, NDArray[Any]]:
    """Return by their places the arrays that say how the tables' cells are found.

    A table with a cell for each combination of bins counts them; another one takes the leading bits
    of a hash. The members of a group lie as (columns of a table, tables), in the columns' order.

    Parameters
    ----------
    found : Membership
    sizes : int array of shape (TABLES,)
        Cells of each table that is not folded.
    most : int
        Cells of a table at most, see `tables.folds`.
    columns : int
        How many there are.
    """
    order, starts = [], [0]
    for first, last in pairwise(GROUP_STARTS):
        a, b = found.starts[[first, last]]
        width = (b - a) // (last - first)
        ordered = found.columns[a:b].reshape(-1, width or 1).argsort(axis=1)
        order.append((ordered + np.arange(a, b, width or 1)[:, None]).T.ravel())
        starts.append(int(b))
    turn, columns_of = np.concatenate(order), np.diff(found.starts)
    table = np.repeat(np.arange(TABLES), columns_of)
    place = np.arange(len(table)) - found.starts[table]
    exact = (BINS + 2.0) ** np.minimum(columns_of, 16) <= sizes
    strides = (BINS[table] + 2) ** np.minimum(place, 12)
    factors = np.where(exact[table], strides, found.factors).astype(np.uint32).view(np.int32)
    down = np.where(exact, 0, 32 - np.floor(np.log2(sizes))) + folds(sizes, most)
    return {
        "STARTS": np.array(starts),
        "OF_ALL": columns_of[GROUP_STARTS[:-1]] == columns,
        "MEMBERS_OF": found.columns[turn].astype(np.int32),
        "SHIFTS": found.shifts[turn],
        "MULTIPLIERS": factors[turn],
        "DOWN": down.astype(np.int32),
    }


def begin(
    held: Mapping[str, NDArray[Any]],
    sizes: NDArray[np.int64],
    most: int,
    rules: Sequence[tuple[float, float]],
) -> None:
    """Write the arrays of tables that have learned nothing, without the addressing arrays.

    Parameters
    ----------
    held : mapping of str to array
        They are zero, and written to.
    sizes : int64 array of shape (TABLES,)
        Cells of each table that is not folded.
    most : int
        Cells of a table at most, see `tables.folds`.
    rules : sequence of (float, float)
        Rate of the cells, before it is divided among a group's tables, and pace of the factors.
    """
    held["GROUP"][:], held["BINS"][:] = GROUP_STARTS, BINS
    held["FIRST"][:] = starts_of(sizes, most)
    held["FACTORS"][:], held["SPREAD"][:] = 1.0, 1e-3
    counts = np.diff(GROUP_STARTS)
    for rule, (rate, pace) in enumerate(rules):
        held["GRID_RATES"][:, rule] = rate * np.repeat(8.0 / np.sqrt(counts), counts)
        held["GRID_PACES"][:, rule] = pace


def unfolded(
    held: Mapping[str, NDArray[Any]], sizes: NDArray[np.int64], most: int, more: int
) -> dict[str, NDArray[Any]]:
    """Return by their places the arrays of tables of `most` cells that get `more`.

    What was learned of two cells that were one is known of both.
    """
    often = folds(sizes, most) - folds(sizes, more)
    starts, before = starts_of(sizes, more), held["CELLS_A"]
    A = aligned(int(starts[-1]), before.shape[1])
    old, new = held["FIRST"].tolist(), starts.tolist()
    for table, times in enumerate((1 << often).tolist()):
        here, there = slice(*new[table : table + 2]), slice(*old[table : table + 2])
        # Of the last one there may be less than all.
        A[here] = np.repeat(before[there], times, axis=0)[: here.stop - here.start]
    return {"FIRST": starts, "DOWN": (held["DOWN"] - often).astype(np.int32), "CELLS_A": A}


def coefficients(held: Mapping[str, NDArray[Any]], outputs: int) -> NDArray[np.float32]:
    """Return the cells' coefficients (slots, outputs, rules), a view."""
    rules, A = held["FACTORS"].shape[1], held["CELLS_A"]
    return A[:, : rules * outputs].reshape(len(A), outputs, rules)


def squares(held: Mapping[str, NDArray[Any]], room: int) -> NDArray[np.float32]:
    """Return the cells' sums of squared slopes (slots, rules), a view."""
    rules = held["FACTORS"].shape[1]
    found: NDArray[np.float32] = held["CELLS_A"][:, rules * room : rules * (room + 1)]
    return found


def without_room(held: Mapping[str, NDArray[Any]], outputs: int, room: int) -> NDArray[np.float32]:
    """Return the cells as they are where there is room for no more outputs."""
    rules, A = held["FACTORS"].shape[1], held["CELLS_A"]
    found = np.zeros((len(A), line(outputs)), np.float32)
    found[:, : rules * outputs] = A[:, : rules * outputs]
    found[:, rules * outputs : rules * (outputs + 1)] = squares(held, room)
    return found


def restart(held: Mapping[str, NDArray[Any]], room: int, rule: int, kept: float) -> None:
    """Erase a rule's numbers in all cells; the part `kept` of other squared slopes stays.

    `room` is for how many outputs there is room.
    """
    loops.grids.restart(held["CELLS_A"], room, rule, np.float32(kept))
    held["FACTORS"][:, rule] = 1.0


def join(
    A: NDArray[np.float32],
    B: NDArray[np.float32],
    began: NDArray[np.float32],
    room: int,
    share: float,
) -> None:
    """Have cells A become the means of A and B, by what each learned since both were `began`.

    Parameters
    ----------
    A, B, began : float32 arrays of one shape
        Cells; A is written to.
    room : int
        Outputs that there is room for.
    share : float
        Of B in cells of which neither learned anything, or sums of squared slopes became less.
    """
    loops.grids.join(A, B, began, room, np.float32(share))


def aligned(rows: int, columns: int) -> NDArray[np.float32]:
    """Return zeros that begin on a cache line, so that no row takes a line more than it must."""
    room = np.zeros(rows * columns + 16, np.float32)
    first = -room.ctypes.data % 64 // 4
    return room[first : first + rows * columns].reshape(rows, columns)
