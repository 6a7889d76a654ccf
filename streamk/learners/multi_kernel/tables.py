"""Sizes of a pool, and what each table of random binning looks at."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CLASSES, NUMBERS, banks, loops, pool_arrays
from streamk.backends.pool_arrays import DEFAULT, HUBER, QUANTILE, SQUARED, line
from streamk.errors import InvalidInput
from streamk.losses import Loss
from streamk.losses import loss as loss_by_name
from streamk.scaling.quantiles import KNOTS

FEATURES = 256
"""Random features of the Gaussian kernels."""
SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Median distance over bandwidth, over the root of 2."""
CELLS = 1 << 22
"""Numbers in the cells of a rule, at most."""
RECENT, WINDOW_BYTES = 1000, 4 << 20
"""Events in the smoothers' window, and the memory that they may take."""
NEWTON_COLUMNS = 64
"""Columns up to which there is a second-order expert: its time grows with their square."""
ALPHAS = (1e-3, 1e-3)
"""Rates of change of the fixed shares: of predictions as they are, and of calibrated ones."""
GRADIENT_RATE = 2e-3
NEWTON_STARTS = (0.01, 0.1)
NEWTON_FORGETS = (0.9998, 0.999)
"""Of the products of experts: one that moves along gradients, the others by Newton steps."""
FURTHEST = 20.0
"""Bound of a regression's labels, in units of their spread; and of what experts say."""
_KINDS = {"squared": SQUARED, "huber": HUBER, "quantile": QUANTILE}
_DELTAS = (0.1, 20.0)
"""Less would leave experts standing, and labels end there."""
_LEVELS = (0.005, 0.995)


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
LARGEST = 4096
"""Cells of a table at most."""
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
    factors: NDArray[np.uint32]
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
        addressing_arrays = slice(old.starts[table], old.starts[table + 1])
        own, theirs = old.columns[addressing_arrays], kept[addressing_arrays]
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
    factors = (drawn & np.uint64(0xFFFFFFFF)).astype(np.uint32) | np.uint32(1)
    return Membership(starts, columns, shifts, factors)


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
    most = LARGEST
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
    return min(LARGEST, max(_FIRST, _ROOMY << max(0, events.bit_length() - 1)))


def until_more(events: int) -> int:
    """Return after how many more events tables have more cells.

    Examples
    --------
    >>> until_more(0), until_more(8), until_more(50), until_more(128) > 10**9
    (8, 8, 14, True)
    """
    least = _FIRST // _ROOMY
    if _ROOMY * events >= LARGEST:
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


def number_loss(loss: str | Loss | None) -> Loss | None:
    """Return a loss for numbers, by its name or as it is; None is the default.

    Raises
    ------
    InvalidInput
        If experts do not learn by it, or its parameter is out of range.

    Examples
    --------
    >>> number_loss("quantile")
    Loss(code=<LossCode.QUANTILE: 7>, parameter=0.5)
    """
    found = loss_by_name(loss) if isinstance(loss, str) and loss in _KINDS else loss
    if found is None:
        return None
    if not isinstance(found, Loss) or found.name not in _KINDS:
        raise InvalidInput(
            f"loss={loss!r} is not one that many kernels learn numbers by: "
            f"choose {', '.join(_KINDS)}, or leave it out"
        )
    for name, least, most in (("huber", *_DELTAS), ("quantile", *_LEVELS)):
        if found.name == name and not least <= found.parameter <= most:
            what = "delta, in units of the labels' spread," if name == "huber" else "q"
            raise InvalidInput(
                f"{what} is {found.parameter:g} and must lie between {least:g} and {most:g}"
            )
    return found


def loss_from_json(saved: Mapping[str, Any] | None) -> Loss | None:
    """Return the loss that `streamk.losses.Loss.to_json` gave; None is the default."""
    return None if saved is None else number_loss(loss_by_name(**saved))


def cells_of(columns: int, outputs: int) -> NDArray[np.int64]:
    """Return the cells of each table of random binning, not folded, of so many columns."""
    return slots(widths(columns), outputs, CELLS)


def sizes_of(
    task: int,
    classes: int,
    columns: int,
    capacity: int,
    output_room: int,
    external_experts: Sequence[str],
    loss: Loss | None,
    most_cells: int,
) -> dict[str, int]:
    """Return the sizes of a pool, see `streamk.backends.pool_arrays`, without making it."""
    outputs = classes if task == CLASSES else 1
    newton = capacity + 1 if capacity <= NEWTON_COLUMNS else 0
    products = 1 + len(NEWTON_STARTS)
    sizes = {
        "TASK": task,
        "COLUMNS": capacity,
        "FEATURES": FEATURES,
        "BANDWIDTHS": len(SHARPNESS),
        "OUTPUTS": outputs,
        "CLASSES": 1 if task == NUMBERS else classes,
        "TABLES": TABLES,
        "GROUPS": len(GROUPS),
        "MEMBERS": int(widths(columns).sum()),
        "SLOTS": int(starts_of(cells_of(columns, outputs), most_cells)[-1]),
        "WINDOW": max(16, min(RECENT, WINDOW_BYTES // (4 * capacity))),
        "LINEAR_RULES": len(banks.LINEAR.rules),
        "LADDER_RULES": len(banks.GAUSSIAN.rules),
        "GRID_RULES": len(banks.BINNING.rules),
        "NEWTON": newton,
        "LEVELS": KNOTS,
        "MIXERS_SHARE": len(ALPHAS),
        "MIXERS_PRODUCT": products,
        "MIXERS": len(ALPHAS) + products + 1,
        "LOSS": DEFAULT if loss is None else _KINDS[loss.name],
        "EXTERNAL": len(external_experts),
        "OUTPUT_ROOM": output_room,
    }
    sizes["EXPERTS"] = len(banks.banks_of(sizes)) + len(external_experts)
    return pool_arrays.derived(sizes)


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
    down = (held["DOWN"] - often).astype(np.int32)
    if not often.any():
        return {"FIRST": starts, "DOWN": down, "CELLS_A": before}
    A = aligned(int(starts[-1]), before.shape[1])
    old, new = held["FIRST"].tolist(), starts.tolist()
    for table, times in enumerate((1 << often).tolist()):
        here, there = slice(*new[table : table + 2]), slice(*old[table : table + 2])
        # Of the last one there may be less than all.
        A[here] = np.repeat(before[there], times, axis=0)[: here.stop - here.start]
    return {"FIRST": starts, "DOWN": down, "CELLS_A": A}


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
    loops.binning.restart(held["CELLS_A"], room, rule, np.float32(kept))
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
    loops.binning.join(A, B, began, room, np.float32(share))


def aligned(rows: int, columns: int) -> NDArray[np.float32]:
    """Return zeros that begin on a cache line, so that no row takes a line more than it must."""
    room = np.zeros(rows * columns + 16, np.float32)
    first = -room.ctypes.data % 64 // 4
    return room[first : first + rows * columns].reshape(rows, columns)
