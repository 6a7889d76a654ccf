"""Tables of random binning: the columns that each looks at, its cells, and where they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.backends.banks import RULES
from streamk.backends.pool_arrays import line

_MOST_NUMBERS = 1 << 22
"""In the cells of a rule."""


class TableGroup(NamedTuple):
    """Tables alike: of so many columns each, so many of them, and the bins of a column in turn."""

    columns: int
    tables: int
    bins: tuple[int, ...]


GROUPS = (
    TableGroup(1, 64, (4, 16)),
    TableGroup(2, 96, (4, 8, 16)),
    TableGroup(3, 96, (2, 4, 8)),
    TableGroup(6, 96, (2, 4)),
    TableGroup(64, 48, (1, 2, 4)),
)
"""One column at a time up to all of them: additive structure, interactions, local structure."""
TABLES = sum(group.tables for group in GROUPS)
GROUP_STARTS: NDArray[np.int64] = np.cumsum([0, *(group.tables for group in GROUPS)])
"""(groups + 1,): where a group's tables start"""
GROUP_OF: NDArray[np.int64] = np.repeat(
    np.arange(len(GROUPS), dtype=np.int64), [group.tables for group in GROUPS]
)
BINS: NDArray[np.int64] = np.array(
    [group.bins[i % len(group.bins)] for group in GROUPS for i in range(group.tables)],
    dtype=np.int64,
)
MOST_CELLS = 4096
"""Of a table."""
_FEWEST = 16
_FIRST, _ROOMY = 128, 32
"""Cells of a table at first, at most, and times the events that it has room for later."""
_ODD = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def _mixed(h: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of whole numbers (the finalizer of splitmix64, Steele et al. 2014)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(_ODD[0])
    h = (h ^ (h >> np.uint64(27))) * np.uint64(_ODD[1])
    return np.asarray(h ^ (h >> np.uint64(31)))


def hashes(seed: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a random number for each table and column, uint64 (TABLES, d)."""
    tables = _mixed(np.arange(1, TABLES + 1, dtype=np.uint64) ^ np.uint64(seed))
    return _mixed(tables[:, None] ^ keys[None, :])


class Membership(NamedTuple):
    """The columns of all tables, one table after the other."""

    starts: NDArray[np.int64]
    """(TABLES + 1,): where a table's columns start"""
    columns: NDArray[np.int64]
    shifts: NDArray[np.float32]
    """in [0, 1): how far each table shifts its bins of a column"""
    multipliers: NDArray[np.uint32]
    """Odd random numbers, for a hash of the bins (Dietzfelbinger 1996)"""


def widths(columns: int) -> NDArray[np.int64]:
    """Return how many of so many columns each table looks at, int64 (TABLES,)."""
    each = np.array([min(group.columns, columns) for group in GROUPS], dtype=np.int64)
    return each[GROUP_OF]


def members(seed: int, keys: NDArray[np.uint64]) -> Membership:
    """Return the columns of each table: those whose random numbers are least.

    So which ones they are does not depend on the columns' order, and a new column changes only the
    tables that it enters.

    Parameters
    ----------
    seed : int
    keys : uint64 array of shape (d,)

    Examples
    --------
    >>> import numpy as np
    >>> found = members(1, np.arange(10, dtype=np.uint64))
    >>> len(found.starts) - 1 == TABLES, int(found.starts[-1]) == len(found.columns)
    (True, True)
    """
    h = hashes(seed, keys)
    picked: list[NDArray[Any]] = []
    for row, number in zip(h, GROUP_OF.tolist(), strict=True):
        size = min(GROUPS[number].columns, len(keys))
        least = np.argpartition(row, size - 1)[:size] if size < len(row) else np.arange(len(row))
        picked.append(least[np.argsort(row[least])])
    return _membership(picked, seed, keys)


def extended(
    old: Membership, seed: int, keys: NDArray[np.uint64], known: int
) -> tuple[Membership, list[int]]:
    """Return what `members` would, and the tables that changed, looking at the new columns only.

    Parameters
    ----------
    old : Membership
        Of the first `known` keys.
    seed : int
    keys : uint64 array of shape (d,)
    known : int

    Examples
    --------
    >>> import numpy as np
    >>> keys = np.arange(100, dtype=np.uint64)
    >>> found, _ = extended(members(1, keys[:90]), 1, keys, 90)
    >>> bool((found.columns == members(1, keys).columns).all())
    True
    """
    new, kept = hashes(seed, keys[known:]), _of_members(old.starts, old.columns, seed, keys)
    least = new.min(axis=1)
    picked, changed = [], []
    for table, number in enumerate(GROUP_OF.tolist()):
        some = slice(old.starts[table], old.starts[table + 1])
        own, theirs = old.columns[some], kept[some]
        size = GROUPS[number].columns
        if len(own) < size or least[table] < theirs[-1]:
            both = np.concatenate([own, np.arange(known, len(keys))])
            order = np.argsort(np.concatenate([theirs, new[table]]), kind="stable")[:size]
            if len(order) > len(own) or (order >= len(own)).any():
                changed.append(table)
                own = both[order]
        picked.append(own)
    return _membership(picked, seed, keys), changed


def _of_members(
    starts: NDArray[np.int64], columns: NDArray[np.int64], seed: int, keys: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the random numbers of all tables and their columns."""
    tables = np.repeat(np.arange(1, TABLES + 1, dtype=np.uint64), np.diff(starts))
    return _mixed(_mixed(tables ^ np.uint64(seed)) ^ keys[columns])


def _membership(picked: list[NDArray[Any]], seed: int, keys: NDArray[np.uint64]) -> Membership:
    starts = np.concatenate([[0], np.cumsum([len(p) for p in picked])]).astype(np.int64)
    columns = np.concatenate(picked).astype(np.int64)
    # The upper bits chose the column; the shift is from a further hash.
    drawn = _mixed(_of_members(starts, columns, seed, keys))
    shifts = ((drawn >> np.uint64(40)) * 2.0**-24).astype(np.float32)
    multipliers = (drawn & np.uint64(0xFFFFFFFF)).astype(np.uint32) | np.uint32(1)
    return Membership(starts, columns, shifts, multipliers)


def slots(sizes: NDArray[np.int64], outputs: int, budget: int) -> NDArray[np.int64]:
    """Return how many cells each table gets.

    A table whose cells are few has one for each, with a bin more than its shifted bins for what is
    missing; the others share what is left of `budget` numbers evenly, as powers of two.

    Parameters
    ----------
    sizes : int64 array of shape (TABLES,)
        Columns of each table.
    outputs : int
        Numbers a cell.
    budget : int
        Numbers altogether.
    """
    exact = (BINS + 2.0) ** np.minimum(sizes, 16)
    most = MOST_CELLS
    while most > _FEWEST:
        found = np.where(exact <= most, exact, most)
        if found.sum() * outputs <= budget:
            break
        most //= 2
    return np.where(exact <= most, exact, most).astype(np.int64)


def most_after(events: int) -> int:
    """Return how many cells a table has at most after so many events: 32 times as many.

    So few events share a cell that would not if it had all of them, and a model is no larger than
    the events that it has met call for.

    Examples
    --------
    >>> [most_after(events) for events in (0, 7, 8, 50, 128, 10**6)]
    [128, 128, 256, 1024, 4096, 4096]
    """
    return min(MOST_CELLS, max(_FIRST, _ROOMY << max(0, events.bit_length() - 1)))


def until_more(events: int) -> int:
    """Return after how many more events tables have more cells.

    Examples
    --------
    >>> until_more(0), until_more(8), until_more(50), until_more(128) > 10**9
    (8, 8, 14, True)
    """
    least = _FIRST // _ROOMY
    if _ROOMY * events >= MOST_CELLS:
        return sys.maxsize
    return max(2 * least, 1 << events.bit_length()) - events


def folds(cells: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return how often cells of tables are taken together in pairs, until there are `most`.

    Which cell an event is in is a number whose last bits are left out then, one a fold.

    Parameters
    ----------
    cells : int64 array of shape (TABLES,)
    most : int

    Examples
    --------
    >>> import numpy as np
    >>> folds(np.array([100, 128, 324, 4096]), 128)
    array([0, 0, 2, 5])
    """
    found: NDArray[np.int64] = np.ceil(np.log2(np.maximum(cells / most, 1.0))).astype(np.int64)
    return found


def starts_of(cells: NDArray[np.int64], most: int) -> NDArray[np.int32]:
    """Return where the tables' cells start, int32 (TABLES + 1,), folded until there are `most`."""
    each = -(-cells >> folds(cells, most))
    return np.concatenate([[0], np.cumsum(each)]).astype(np.int32)


def cells_of(columns: int, outputs: int) -> NDArray[np.int64]:
    """Return the cells of each table of random binning, not folded, of so many columns."""
    return slots(widths(columns), outputs, _MOST_NUMBERS)


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
        Cells of a table at most, see `folds`.
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
    multipliers = np.where(exact[table], strides, found.multipliers).astype(np.uint32)
    down = np.where(exact, 0, 32 - np.floor(np.log2(sizes))) + folds(sizes, most)
    return {
        "BINNING_MEMBER_STARTS": np.array(starts),
        "BINNING_OF_ALL": columns_of[GROUP_STARTS[:-1]] == columns,
        "BINNING_COLUMNS": found.columns[turn].astype(np.int32),
        "BINNING_SHIFTS": found.shifts[turn],
        "BINNING_MULTIPLIERS": multipliers.view(np.int32)[turn],
        "BINNING_DOWN": down.astype(np.int32),
    }


def begin(
    arrays: Mapping[str, NDArray[Any]],
    sizes: NDArray[np.int64],
    most: int,
    rules: Sequence[tuple[float, float]],
) -> None:
    """Write the arrays of tables that have learned nothing, without the addressing arrays.

    Parameters
    ----------
    arrays : mapping of str to array
        They are zero, and written to.
    sizes : int64 array of shape (TABLES,)
        Cells of each table that is not folded.
    most : int
        Cells of a table at most, see `folds`.
    rules : sequence of (float, float)
        Rate of the cells, before it is divided among a group's tables, and that of the weights.
    """
    arrays["BINNING_GROUP_STARTS"][:], arrays["BINNING_BINS"][:] = GROUP_STARTS, BINS
    arrays["BINNING_STARTS"][:] = starts_of(sizes, most)
    arrays["BINNING_WEIGHTS"][:], arrays["BINNING_WEIGHT_SQUARES"][:] = 1.0, 1e-3
    counts = np.diff(GROUP_STARTS)
    for rule, (rate, weight_rate) in enumerate(rules):
        arrays["BINNING_RATES"][:, rule] = rate * np.repeat(8.0 / np.sqrt(counts), counts)
        arrays["BINNING_WEIGHT_RATES"][:, rule] = weight_rate


def unfolded(
    arrays: Mapping[str, NDArray[Any]], sizes: NDArray[np.int64], most: int, more: int
) -> dict[str, NDArray[Any]]:
    """Return by their places the arrays of tables of `most` cells that get `more`.

    What was learned of two cells that were one is known of both.
    """
    often = folds(sizes, most) - folds(sizes, more)
    starts, before = starts_of(sizes, more), arrays["BINNING_CELLS"]
    down = (arrays["BINNING_DOWN"] - often).astype(np.int32)
    if not often.any():
        return {"BINNING_STARTS": starts, "BINNING_DOWN": down, "BINNING_CELLS": before}
    A = aligned(int(starts[-1]), before.shape[1])
    old, new = arrays["BINNING_STARTS"].tolist(), starts.tolist()
    for table, times in enumerate((1 << often).tolist()):
        here, there = slice(*new[table : table + 2]), slice(*old[table : table + 2])
        # Of the last one there may be less than all.
        A[here] = np.repeat(before[there], times, axis=0)[: here.stop - here.start]
    return {"BINNING_STARTS": starts, "BINNING_DOWN": down, "BINNING_CELLS": A}


def coefficients(arrays: Mapping[str, NDArray[Any]], outputs: int) -> NDArray[np.float32]:
    """Return the cells' coefficients (slots, outputs, rules), a view."""
    A = arrays["BINNING_CELLS"]
    return A[:, : RULES * outputs].reshape(len(A), outputs, RULES)


def squares(arrays: Mapping[str, NDArray[Any]], room: int) -> NDArray[np.float32]:
    """Return the cells' sums of squared slopes (slots, rules), a view."""
    found: NDArray[np.float32] = arrays["BINNING_CELLS"][:, RULES * room : RULES * (room + 1)]
    return found


def without_room(
    arrays: Mapping[str, NDArray[Any]], outputs: int, room: int
) -> NDArray[np.float32]:
    """Return the cells as they are where there is room for no more outputs."""
    A, used = arrays["BINNING_CELLS"], RULES * outputs
    found = np.zeros((len(A), line(outputs)), np.float32)
    found[:, :used], found[:, used : used + RULES] = A[:, :used], squares(arrays, room)
    return found


def restart(arrays: Mapping[str, NDArray[Any]], room: int, rule: int, kept: float) -> None:
    """Erase a rule's numbers in all cells; the part `kept` of other squared slopes stays.

    `room` is for how many outputs there is room.
    """
    loops.binning.restart(arrays["BINNING_CELLS"], room, rule, np.float32(kept))
    arrays["BINNING_WEIGHTS"][:, rule] = 1.0


def aligned(rows: int, columns: int) -> NDArray[np.float32]:
    """Return zeros that begin on a cache line, so that no row takes a line more than it must."""
    room = np.zeros(rows * columns + 16, np.float32)
    first = -room.ctypes.data % 64 // 4
    return room[first : first + rows * columns].reshape(rows, columns)
