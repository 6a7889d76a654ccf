"""Pools that grow by columns and classes, and the states of pools."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import BINARY, CLASSES, NUMBERS, pool_arrays
from streamk.backends.banks import BANKS, COEFFICIENT, RULES, UNSIGNED
from streamk.backends.memory import give_back
from streamk.declared import NON_NEGATIVE, Domain, count, taken, within
from streamk.errors import StateError
from streamk.learners.multi_kernel import binning_tables
from streamk.learners.multi_kernel.expert_pool import ExpertPool, sizes_of
from streamk.losses import Loss
from streamk.state import State

OWNER = "a pool of experts"
_ROOMY = 2
"""Columns that there may be room for, times those that there are."""
_LARGEST = 3e38
"""About the largest number of single precision."""
_STEEPEST = 160.0
"""Largest slope of a linear expert in a coefficient: an error of 20 times a value of 8."""
_LONGEST, _TINY = 1e25, 1e-25
"""Factor by which a stake's unit grows at most, and the least unit: see the loops' `coin`."""
_ROUNDED = 0.01
"""Tolerance of symmetry relative to the largest entry of a matrix: forgetting lets what rounding
has left grow."""
_LARGE = 16 << 20
"""Bytes of a pool before whose successor free memory is given back."""
_FEW = 16
"""Classes up to which there is room for no more than there are: it would cost time."""


def room_for(classes: int, room: int) -> int:
    """Return for how many classes a pool has room that had room for fewer.

    It doubles, so that all the pools of a stream together cost a constant times the last one.

    Examples
    --------
    >>> room_for(3, 2), room_for(17, 16), room_for(100, 32)
    (3, 32, 100)
    """
    return classes if classes <= _FEW else max(classes, 2 * room)


def with_columns(pool: ExpertPool, keys: NDArray[np.uint64]) -> ExpertPool:
    """Return a pool with more columns that knows what this one does: itself, if it has room."""
    if pool.add_columns(keys):
        return pool
    every, capacity = np.concatenate([pool.keys, keys]), pool.capacity
    if len(every) > capacity:
        capacity = max(len(every), capacity * 3 // 2)
    return successor(pool, every, pool.task, pool.classes, capacity, pool.class_room)


def with_classes(pool: ExpertPool, classes: int) -> ExpertPool:
    """Return a pool of so many classes, more than two, that knows what this one does.

    If this one has room, the two share their memory: this one may still forecast, but not learn.
    """
    found = binning_tables.cells_of(len(pool.keys), classes)
    fit = pool.task == CLASSES and (found == pool.cells_of).all()
    if not fit or classes > pool.class_room:
        room = pool.class_room
        if classes > room:
            room = room_for(classes, room)
        return successor(pool, pool.keys, CLASSES, classes, pool.capacity, room)
    new = copy.copy(pool)
    new.classes = new.outputs = classes
    _take_classes(new, pool)
    return new


def successor(
    pool: ExpertPool,
    keys: NDArray[np.uint64],
    task: int,
    classes: int,
    capacity: int | None = None,
    class_room: int | None = None,
    order: Sequence[int] | None = None,
) -> ExpertPool:
    """Return a pool of other columns and classes with the knowledge of this one.

    Parameters
    ----------
    pool : ExpertPool
    keys : uint64 array of shape (d,)
        Of its columns, which include those of `pool` in any order.
    task, classes, capacity, class_room : int
        See `ExpertPool`.
    order : sequence of int, optional
        The new number of each class of `pool`, by default the old one.
    """
    if pool.nbytes > _LARGE:  # which is there twice for a while
        give_back()
    new = ExpertPool(
        keys,
        task=task,
        classes=classes,
        seed=pool.seed,
        capacity=capacity,
        class_room=class_room,
        loss=pool.loss,
        external_names=pool.external_names,
        most_cells=pool.most_cells,
    )
    places = {key: place for place, key in enumerate(keys.tolist())}
    columns = np.array([places[key] for key in pool.keys.tolist()], dtype=np.intp)
    order = list(range(pool.classes)) if order is None else list(order)
    _inherit_coefficients(new, pool, columns, order)
    _inherit_cells(new, pool, order)
    _inherit_mixing(new, pool, order)
    _inherit_level(new, pool, order)
    _inherit_window(new, pool, columns, order)
    return new


def _take_classes(new: ExpertPool, old: ExpertPool) -> None:
    """Fill the room for classes of a copy of a pool, whose number of classes is set already.

    All is as `successor` leaves it. What changes its place is copied, so that the other pool may
    still forecast.
    """
    shares = [name for name in ("SHARES", "OWN_SHARES") if name in old.allocated]
    names = ("CONSTANT_LEVELS", "CONSTANT_CHAIN", "WINDOW_Z", "WINDOW_Y", *shares, "BANK_COSTS")
    new.widen(new.classes, **{name: np.zeros_like(old.allocated[name]) for name in names})
    columns, order = np.arange(len(old.keys)), list(range(old.classes))
    for name in shares:
        sums = old.arrays[name].sum(axis=1, keepdims=True)
        new.arrays[name][...] = old.arrays[name] / sums
    _inherit_level(new, old, order)
    _inherit_window(new, old, columns, order)


def _inherit_level(new: ExpertPool, old: ExpertPool, order: list[int]) -> None:
    """Take over the constant kernel's levels, and what label follows which."""
    if new.task == NUMBERS:
        new.arrays["CONSTANT_LEVELS"][...] = old.arrays["CONSTANT_LEVELS"]
        return
    known = order[: old.arrays["CONSTANT_LEVELS"].shape[1]]
    new.arrays["CONSTANT_LEVELS"][...] = 0.0
    new.arrays["CONSTANT_LEVELS"][:, known] = old.arrays["CONSTANT_LEVELS"][:, : len(known)]
    here, there = (pool.arrays["CONSTANT_CHAIN"] for pool in (new, old))
    here[...] = 0.0
    rows = [(to, of) for of, to in enumerate(known[: len(there)]) if to < len(here)]
    for to, of in rows:
        here[to, known] = there[of]


def _inherit_coefficients(
    new: ExpertPool, old: ExpertPool, columns: NDArray[np.intp], order: list[int]
) -> None:
    """Take over what experts know of columns and outputs, see `streamk.backends.banks.Learned`."""
    known = np.arange(len(columns))
    with_one = np.append(columns, -1), np.append(known, -1)  # the constant comes last
    of_columns: dict[Any, Any] = {
        "COLUMNS": (columns, known),
        ("COLUMNS", 1): with_one,
        "NEWTON_FEATURES": with_one,
    }
    for each in (each for bank in BANKS for each in bank.learned):
        if each.split is None:
            continue
        here, found = (pool.used(each.name.upper()) for pool in (new, old))
        if not here.size or not found.size:  # one may be without Newton's
            continue
        to: list[Any] = []
        for axis, length in enumerate(each.shape):
            if length in ("OUTPUTS", "OUTPUT_ROOM"):
                found = _outputs(found, axis, old, new, order, both=each.split)
            rows, theirs = of_columns.get(length, 2 * (np.arange(found.shape[axis]),))
            found = found.take(theirs, axis)
            to.append(rows)
        here[np.ix_(*to)] = found


def _inherit_mixing(new: ExpertPool, old: ExpertPool, order: list[int]) -> None:
    """Take over the weights of experts and tables, and what corrects their mixture."""
    for name in ("BINNING_WEIGHTS", "BINNING_WEIGHT_SQUARES", "LATE_ERRORS", "ACTIVE"):
        new.arrays[name][...] = old.arrays[name]
    # The second-order expert may have gone.
    both = set(new.banks) & set(old.banks)
    here, there = (
        [n for n, bank in enumerate(banks) if bank in both] for banks in (new.banks, old.banks)
    )
    for name in ("INVERSE_TEMPERATURES", "CURVATURES"):
        new.arrays[name][here] = old.arrays[name][there]
    if "TRACKED" in new.arrays:
        new.arrays["TRACKED"][:, [*here, -1]] = old.arrays["TRACKED"][:, [*there, -1]]
    _inherit_weights(new, old, "", order, here, there)
    if "EVIDENCE" in new.arrays:
        new.arrays["EVIDENCE"][...] = old.arrays["EVIDENCE"]
        of_own = [
            [n for n in places if n < pool.sizes["OWN_EXPERTS"]]
            for places, pool in ((here, new), (there, old))
        ]
        _inherit_weights(new, old, "OWN_", order, *of_own)


def _reliability(
    curve: NDArray[np.float64], before: int, task: int, order: list[int]
) -> NDArray[np.float64]:
    """Return what corrects a mixture, of the probabilities that the new classes have.

    That of two classes is of the second one, that of more of each. `before` was the task.
    """
    if before == CLASSES:
        return curve
    of_first: NDArray[np.float64] = np.array([curve[0], curve[0] - curve[1]])[:, ::-1]
    if task == CLASSES:
        return curve + of_first
    return curve if order[-1] else of_first


def _inherit_weights(
    new: ExpertPool,
    old: ExpertPool,
    mixture: str,
    order: list[int],
    here: list[int],
    there: list[int],
) -> None:
    """Take over the weights of a mixture, whose experts `there` are `here` now."""
    for name in new.top_names:
        known = old.arrays[mixture + name]
        if name == "RELIABILITY":
            known = _reliability(known, old.task, new.task, order)
        new.arrays[mixture + name][...] = known
    for name in ("SHARES", "PRODUCTS"):
        new.arrays[mixture + name][:, here] = old.arrays[mixture + name][:, there]
    shares = new.arrays[f"{mixture}SHARES"]
    shares /= shares.sum(axis=1, keepdims=True)
    inverses = old.arrays[f"{mixture}INVERSES"][:, there][:, :, there]
    new.arrays[f"{mixture}INVERSES"][np.ix_(range(len(inverses)), here, here)] = inverses


def _inherit_cells(new: ExpertPool, old: ExpertPool, order: list[int]) -> None:
    """Take over the tables whose columns and slots stayed; the others begin anew."""
    there, here = old.arrays["BINNING_STARTS"], new.arrays["BINNING_STARTS"]
    if _alike(new, old) and order == list(range(old.classes)):
        new.arrays["BINNING_CELLS"][...] = old.arrays["BINNING_CELLS"]
        return
    stayed = (np.diff(there) == np.diff(here)) & (
        old.arrays["BINNING_DOWN"] == new.arrays["BINNING_DOWN"]
    )
    for table in np.flatnonzero(stayed).tolist():
        stayed[table] = np.array_equal(_keys_of(new, table), _keys_of(old, table))
    squares = binning_tables.squares(old.arrays, old.output_room)
    rows = np.flatnonzero(squares.any(axis=1))  # few, where classes are still being met
    table_of = np.searchsorted(there, rows, side="right") - 1
    rows, table_of = rows[stayed[table_of]], table_of[stayed[table_of]]
    A = binning_tables.coefficients(old.arrays, old.outputs)[rows]
    to = rows - there[table_of] + here[table_of]
    binning_tables.coefficients(new.arrays, new.outputs)[to] = _outputs(A, 1, old, new, order)
    binning_tables.squares(new.arrays, new.output_room)[to] = squares[rows]


def _alike(new: ExpertPool, old: ExpertPool) -> bool:
    """Tell whether all cells mean the same and are laid out alike, as where nothing has grown."""
    if new.outputs != old.outputs or new.output_room != old.output_room:
        return False
    names = ("BINNING_STARTS", "BINNING_DOWN")
    tables = all(np.array_equal(new.arrays[name], old.arrays[name]) for name in names)
    return tables and np.array_equal(new.keys, old.keys)


def _keys_of(pool: ExpertPool, table: int) -> NDArray[np.uint64]:
    a, b = pool.members.starts[table : table + 2]
    found: NDArray[np.uint64] = pool.keys[pool.members.columns[a:b]]
    return found


def _inherit_window(
    new: ExpertPool, old: ExpertPool, columns: NDArray[np.intp], order: list[int]
) -> None:
    """Take over the youngest events, in their order."""
    count = min(old.count, new.sizes["WINDOW_EVENTS"])
    rows = (old.next - count + np.arange(count)) % old.sizes["WINDOW_EVENTS"]
    new.arrays["WINDOW_Z"][columns, :count] = old.arrays["WINDOW_Z"][: len(columns), rows]
    y = old.arrays["WINDOW_Y"][rows]
    new.arrays["WINDOW_Y"][:count] = (
        y if new.task == NUMBERS else np.array(order)[y.astype(np.intp)]
    )
    new.set_window(count, count % new.sizes["WINDOW_EVENTS"])


def _outputs(
    there: NDArray[Any],
    axis: int,
    old: ExpertPool,
    new: ExpertPool,
    order: list[int],
    *,
    both: tuple[float, float] = COEFFICIENT,
) -> NDArray[Any]:
    """Return coefficients of the outputs of another pool; a new class gets zeros.

    One logit stands for the second class against the first. It becomes two outputs, which get it
    times each of `both`.
    """
    if new.task == NUMBERS or (new.task == BINARY and order[:2] == [0, 1]):
        return there
    if new.task == BINARY:  # the other way round
        return there if both == UNSIGNED else -there
    if old.task == BINARY:
        there = np.concatenate([there * there.dtype.type(part) for part in both], axis=axis)
    shape = list(there.shape)
    shape[axis] = new.outputs
    out = np.zeros(shape, there.dtype)
    where: list[Any] = [slice(None)] * there.ndim
    where[axis] = order[: there.shape[axis]]
    out[tuple(where)] = there
    return out


def load(
    state: State,
    keys: NDArray[np.uint64],
    *,
    classes: int | None,
    seed: int,
    loss: Loss | None,
    external_names: tuple[str, ...],
    n_events: int,
) -> ExpertPool:
    """Return the pool of a state.

    Parameters
    ----------
    state : State
        See `state_of`.
    keys : uint64 array of shape (d,)
        Of the columns.
    classes : int or None
        How many classes there are, 2 at least; None of a regression.
    seed, loss, external_names
        As of `ExpertPool`.
    n_events : int
        Events that it has learned.

    Raises
    ------
    StateError
        If an array is missing, or a number of the header or an array does not fit. Nothing was
        made then.
    """
    header: Any = state.expect("expert-pool").header
    capacity, found = count(header, "capacity", OWNER, least=1), count(header, "classes", OWNER)
    if not len(keys) <= capacity <= max(1, _ROOMY * len(keys)):
        raise StateError(f"'capacity' of {OWNER} is {capacity}, but there are {len(keys)} columns")
    if found != (2 if classes is None else classes):
        raise StateError(f"'classes' of {OWNER} is {found}, but there are {classes}")
    task = NUMBERS if classes is None else CLASSES if classes > 2 else BINARY
    outputs = found if task == CLASSES else 1
    sizes = sizes_of(
        task, found, len(keys), capacity, outputs, external_names, loss, binning_tables.MOST_CELLS
    )
    del sizes["BINNING_SLOTS"]  # which are fewer, as long as there were few events
    arrays, sizes = taken(pool_arrays.stored(sizes), state.arrays, sizes, OWNER)
    cells_of = binning_tables.cells_of(len(keys), outputs)
    most = _most_cells(cells_of, sizes["BINNING_SLOTS"], n_events)
    _check_together(arrays, sizes)
    window = _window(header.get("window"), sizes["WINDOW_EVENTS"])
    pool = ExpertPool(
        keys,
        task=task,
        classes=found,
        seed=seed,
        capacity=capacity,
        loss=loss,
        external_names=external_names,
        most_cells=most,
    )
    pool.restore(arrays, *window)
    return pool


def state_of(pool: ExpertPool, more: Mapping[str, NDArray[Any]], *, lent: bool) -> State:
    """Return a pool's state, with further arrays that belong to it; see `ExpertPool.learned`."""
    return State(
        {
            "type": "expert-pool",
            "capacity": pool.capacity,
            "classes": pool.classes,
            "window": [pool.count, pool.next],
        },
        pool.learned(lent=lent) | dict(more),
    )


def _most_cells(cells_of: NDArray[np.int64], slots: int, n_events: int) -> int:
    """Return how many cells a table has at most that has so many cells in all."""
    # Tables of few columns may have all their cells before they have the most; with columns that
    # come later they have more.
    usual = binning_tables.most_after(n_events)
    if int(binning_tables.starts_of(cells_of, usual)[-1]) == slots:
        return usual
    most, possible = binning_tables.most_after(0), []
    while most <= binning_tables.MOST_CELLS:
        possible.append(int(binning_tables.starts_of(cells_of, most)[-1]))
        if possible[-1] == slots:
            return most
        most *= 2
    raise StateError(
        f"array 'binning_cells' of {OWNER} has {slots} rows, but tables of these columns and "
        f"classes have {', '.join(map(str, sorted(set(possible))))}"
    )


def _window(window: Any, rows: int) -> tuple[int, int]:
    """Return how many events a window of so many rows has, and the row that the next one takes."""
    pair = window if isinstance(window, list) and len(window) == 2 else ()
    values = dict(zip(("count", "next"), pair, strict=False))
    events = count(values, "count", f"the window of {OWNER}")
    following = count(values, "next", f"the window of {OWNER}")
    if events > rows or following >= rows or (events < rows and following != events):
        raise StateError(
            f"a window of {rows} rows cannot hold {events} events when the next takes row "
            f"{following}: 'window' of {OWNER}"
        )
    return events, following


def _check_together(arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> None:
    """Raise StateError unless values are such as belong together."""
    rules, outputs = RULES, sizes["OUTPUTS"]
    squares = arrays["binning_cells"][:, rules * outputs : rules * (outputs + 1)]
    within(squares, NON_NEGATIVE, "binning_cells", OWNER)
    if "tracked" in arrays:
        within(arrays["tracked"][1], NON_NEGATIVE, "tracked", OWNER)
    for name in ("reliability", "own_reliability"):
        if name in arrays:
            seen, true = arrays[name]
            within(seen * (1.0 + _ROUNDED) - true, NON_NEGATIVE, name, OWNER)
    for name in ("newton_p", "inverses", "last_inverse", "own_inverses", "own_last_inverse"):
        if name in arrays:
            _check_symmetric(arrays[name], name)
    _check_stakes(arrays)


def _check_symmetric(matrices: NDArray[Any], name: str) -> None:
    """Raise StateError unless matrices (..., n, n) are symmetric, but for rounding."""
    if matrices.size:
        apart = np.abs(matrices - np.swapaxes(matrices, -1, -2)).max(axis=(-1, -2))
        if (apart > _ROUNDED * np.abs(matrices).max(axis=(-1, -2))).any():
            raise StateError(f"array {name!r} of {OWNER} is not symmetric")


def _check_stakes(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise StateError if coefficients that are bets would leave single precision at the next.

    They move by products of their own size, of the growth of the largest slope and of one over it,
    see the loops' `coin`.
    """
    a, largest, bets, gains = (
        arrays[name].astype(np.float64)
        for name in ("linear_a", "linear_largest", "linear_bets", "linear_gains")
    )
    before = largest[:, -1:]
    growth = np.minimum(_STEEPEST / np.maximum(before, _TINY), _LONGEST)
    growth = np.where(before > 0.0, growth, 1.0)
    unit = largest + _TINY
    for name, most in (
        ("linear_a", np.abs(a[-1]) * growth * np.maximum(unit, 1.0)),
        ("linear_bets", 2.0 * _STEEPEST * np.abs(bets) * (1.0 + gains) / unit),
    ):
        within(most, Domain(0.0, _LARGEST), name, OWNER)
