"""Pools of experts with more columns or classes than another one, and its knowledge."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import BINARY, CLASSES, NUMBERS
from streamk.learners.experts import cells
from streamk.learners.experts.class_room import room_for
from streamk.learners.experts.expert_pool import ExpertPool
from streamk.learners.experts.pool_composition import cells_of

_COEFFICIENTS, _PARTS, _SIZES = (-0.5, 0.5), (-1.0, 1.0), (1.0, 1.0)
"""Factors from a logit's number to those of two outputs: of a coefficient, of a number with a sign
but no unit, of one without a sign."""


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
    found = cells_of(len(pool.keys), classes)
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
    new = ExpertPool(
        keys,
        task=task,
        classes=classes,
        seed=pool.seed,
        capacity=capacity,
        class_room=class_room,
        loss=pool.loss,
        external_experts=pool.external_experts,
        cells=pool.most_cells,
    )
    places = {key: place for place, key in enumerate(keys.tolist())}
    columns = np.array([places[key] for key in pool.keys.tolist()], dtype=np.intp)
    order = list(range(pool.classes)) if order is None else list(order)
    _inherit_coefficients(new, pool, columns, order)
    _inherit_cells(new, pool, order)
    _inherit_mixing(new, pool)
    _inherit_level(new, pool, order)
    _inherit_window(new, pool, columns, order)
    return new


def _take_classes(new: ExpertPool, old: ExpertPool) -> None:
    """Fill the room for classes of a copy of a pool, whose number of classes is set already.

    All is as `successor` leaves it. What changes its place is copied, so that the other pool may
    still forecast.
    """
    shares = [name for name in ("SHARES", "OWN_SHARES") if name in old.held]
    names = ("LEVEL", "WINDOW_Z", "WINDOW_Y", *shares, "BANK_COSTS")
    new.widen(new.classes, **{name: np.zeros_like(old.held[name]) for name in names})
    columns, order = np.arange(len(old.keys)), list(range(old.classes))
    for name in shares:
        sums = old.arrays[name].sum(axis=1, keepdims=True)
        new.arrays[name][...] = old.arrays[name] / sums
    _inherit_level(new, old, order)
    _inherit_window(new, old, columns, order)


def _inherit_level(new: ExpertPool, old: ExpertPool, order: list[int]) -> None:
    """Take over the constant kernel's levels."""
    if new.task == NUMBERS:
        new.arrays["LEVEL"][...] = old.arrays["LEVEL"]
        return
    known = order[: old.arrays["LEVEL"].shape[1]]
    new.arrays["LEVEL"][...] = 0.0
    new.arrays["LEVEL"][:, known] = old.arrays["LEVEL"][:, : len(known)]


def _inherit_coefficients(
    new: ExpertPool, old: ExpertPool, columns: NDArray[np.intp], order: list[int]
) -> None:
    """Take over the models on dense features."""
    rows = np.append(columns, -1)  # the constant comes last
    theirs = np.append(np.arange(len(columns)), -1)
    for name, axis in (("LINEAR", 1), ("LADDER", 2), ("NEWTON", 0)):
        A = _outputs(old.used(f"{name}_A"), axis, old, new, order)
        if name == "LINEAR":
            new.used("LINEAR_A")[:, :, rows] = A[:, :, theirs]
        elif name == "LADDER":
            new.used("LADDER_A")[...] = A
        elif new.sizes["NEWTON"] and old.sizes["NEWTON"]:
            new.arrays["NEWTON_A"][:, rows] = A[:, theirs]
            P = new.arrays["NEWTON_P"]
            P[np.ix_(rows, rows)] = old.arrays["NEWTON_P"][np.ix_(theirs, theirs)]
    squares = _outputs(old.used("LINEAR_SQUARES"), 1, old, new, order, both=_SIZES)
    new.used("LINEAR_SQUARES")[:, :, rows] = squares[:, :, theirs]
    squares = _outputs(old.used("LADDER_SQUARES"), 2, old, new, order, both=_SIZES)
    new.used("LADDER_SQUARES")[...] = squares
    for name, both in (("BETS", _PARTS), ("GAINS", _SIZES), ("LARGEST", _SIZES)):
        found = _outputs(old.arrays[f"LINEAR_{name}"], 0, old, new, order, both=both)
        new.arrays[f"LINEAR_{name}"][:, rows] = found[:, theirs]


def _inherit_mixing(new: ExpertPool, old: ExpertPool) -> None:
    """Take over the weights of experts and tables."""
    for name in ("FACTORS", "SPREAD", "ACTIVE"):
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
    _inherit_weights(new, old, "", here, there)
    if "EVIDENCE" in new.arrays:
        new.arrays["EVIDENCE"][...] = old.arrays["EVIDENCE"]
        of_own = [
            [n for n in places if n < pool.sizes["OWN_EXPERTS"]]
            for places, pool in ((here, new), (there, old))
        ]
        _inherit_weights(new, old, "OWN_", *of_own)


def _inherit_weights(
    new: ExpertPool, old: ExpertPool, mixture: str, here: list[int], there: list[int]
) -> None:
    """Take over the weights of a mixture, whose experts `there` are `here` now."""
    for name in ("LAST_PRODUCT", "LAST_INVERSE", "MIXER_WEIGHTS"):
        new.arrays[mixture + name][...] = old.arrays[mixture + name]
    for name in ("SHARES", "PRODUCTS"):
        new.arrays[mixture + name][:, here] = old.arrays[mixture + name][:, there]
    shares = new.arrays[f"{mixture}SHARES"]
    shares /= shares.sum(axis=1, keepdims=True)
    inverses = old.arrays[f"{mixture}INVERSES"][:, there][:, :, there]
    new.arrays[f"{mixture}INVERSES"][np.ix_(range(len(inverses)), here, here)] = inverses


def _inherit_cells(new: ExpertPool, old: ExpertPool, order: list[int]) -> None:
    """Take over the tables whose columns and slots stayed; the others begin anew."""
    there, here = old.arrays["FIRST"], new.arrays["FIRST"]
    if _alike(new, old) and order == list(range(old.classes)):
        new.arrays["CELLS_A"][...] = old.arrays["CELLS_A"]
        return
    stayed = (np.diff(there) == np.diff(here)) & (old.arrays["DOWN"] == new.arrays["DOWN"])
    for table in np.flatnonzero(stayed).tolist():
        stayed[table] = np.array_equal(_keys_of(new, table), _keys_of(old, table))
    squares = cells.squares(old.arrays, old.output_room)
    rows = np.flatnonzero(squares.any(axis=1))  # few, where classes are still being met
    table_of = np.searchsorted(there, rows, side="right") - 1
    rows, table_of = rows[stayed[table_of]], table_of[stayed[table_of]]
    A = cells.coefficients(old.arrays, old.outputs)[rows]
    to = rows - there[table_of] + here[table_of]
    cells.coefficients(new.arrays, new.outputs)[to] = _outputs(A, 1, old, new, order)
    cells.squares(new.arrays, new.output_room)[to] = squares[rows]


def _alike(new: ExpertPool, old: ExpertPool) -> bool:
    """Tell whether all cells mean the same and are laid out alike, as where nothing has grown."""
    if new.outputs != old.outputs or new.output_room != old.output_room:
        return False
    names = ("FIRST", "DOWN")
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
    count = min(old.count, new.sizes["WINDOW"])
    rows = (old.next - count + np.arange(count)) % old.sizes["WINDOW"]
    new.arrays["WINDOW_Z"][columns, :count] = old.arrays["WINDOW_Z"][: len(columns), rows]
    y = old.arrays["WINDOW_Y"][rows]
    new.arrays["WINDOW_Y"][:count] = (
        y if new.task == NUMBERS else np.array(order)[y.astype(np.intp)]
    )
    new.set_window(count, count % new.sizes["WINDOW"])


def _outputs(
    there: NDArray[Any],
    axis: int,
    old: ExpertPool,
    new: ExpertPool,
    order: list[int],
    *,
    both: tuple[float, float] = _COEFFICIENTS,
) -> NDArray[Any]:
    """Return coefficients of the outputs of another pool; a new class gets zeros.

    One logit stands for the second class against the first. It becomes two outputs, which get it
    times each of `both`.
    """
    if new.task == NUMBERS or (new.task == BINARY and order[:2] == [0, 1]):
        return there
    if new.task == BINARY:  # the other way round
        return there if both == _SIZES else -there
    if old.task == BINARY:
        there = np.concatenate([there * there.dtype.type(part) for part in both], axis=axis)
    shape = list(there.shape)
    shape[axis] = new.outputs
    out = np.zeros(shape, there.dtype)
    where: list[Any] = [slice(None)] * there.ndim
    where[axis] = order[: there.shape[axis]]
    out[tuple(where)] = there
    return out
