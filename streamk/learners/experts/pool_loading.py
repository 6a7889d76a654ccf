"""A pool of experts from a state, which is checked before arrays of its sizes are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import BINARY, CLASSES, NUMBERS, pool_arrays
from streamk.declared import NON_NEGATIVE, Domain, count, taken, within
from streamk.errors import StateError
from streamk.learners.experts import pool_composition, tables
from streamk.learners.experts.expert_pool import ExpertPool
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


def load(
    state: State,
    keys: NDArray[np.uint64],
    *,
    classes: int | None,
    seed: int,
    loss: Loss | None,
    external_experts: tuple[str, ...],
    n_events: int,
) -> ExpertPool:
    """Return the pool whose state this is.

    Parameters
    ----------
    state : State
        See `state_of`.
    keys : uint64 array of shape (d,)
        Of the columns.
    classes : int or None
        How many classes there are, 2 at least; None of a regression.
    seed, loss, external experts
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
    sizes = pool_composition.sizes_of(
        task, found, len(keys), capacity, outputs, external_experts, loss, tables.LARGEST
    )
    del sizes["SLOTS"]  # which are fewer, as long as there were few events
    arrays, sizes = taken(pool_arrays.stored(sizes), state.arrays, sizes, OWNER)
    cells_of = pool_composition.cells_of(len(keys), outputs)
    most = _most_cells(cells_of, sizes["SLOTS"], n_events)
    _check_together(arrays, sizes)
    window = _window(header.get("window"), sizes["WINDOW"])
    pool = ExpertPool(
        keys,
        task=task,
        classes=found,
        seed=seed,
        capacity=capacity,
        loss=loss,
        external_experts=external_experts,
        cells=most,
    )
    pool.restore(arrays, *window)
    return pool


def state_of(pool: ExpertPool, more: Mapping[str, NDArray[Any]]) -> State:
    """Return a pool's state, with further arrays that belong to it."""
    return State(
        {
            "type": "expert-pool",
            "capacity": pool.capacity,
            "classes": pool.classes,
            "window": [pool.count, pool.next],
        },
        pool.learned() | dict(more),
    )


def _most_cells(cells_of: NDArray[np.int64], slots: int, n_events: int) -> int:
    """Return how many cells a table has at most that has so many cells in all."""
    # Tables of few columns may have all their cells before they have the most; with columns that
    # come later they have more.
    usual = tables.most_after(n_events)
    if int(tables.starts_of(cells_of, usual)[-1]) == slots:
        return usual
    most, possible = tables.most_after(0), []
    while most <= tables.LARGEST:
        possible.append(int(tables.starts_of(cells_of, most)[-1]))
        if possible[-1] == slots:
            return most
        most *= 2
    raise StateError(
        f"array 'cells_a' of {OWNER} has {slots} rows, but tables of these columns and classes "
        f"have {', '.join(map(str, sorted(set(possible))))}"
    )


def _window(window: Any, rows: int) -> tuple[int, int]:
    """Return how many events a window of so many rows has, and the row that the next one takes."""
    values = dict(zip(("count", "next"), window, strict=False)) if _is_pair(window) else {}
    events = count(values, "count", f"the window of {OWNER}")
    following = count(values, "next", f"the window of {OWNER}")
    if events > rows or following >= rows or (events < rows and following != events):
        raise StateError(
            f"a window of {rows} rows cannot hold {events} events when the next takes row "
            f"{following}: 'window' of {OWNER}"
        )
    return events, following


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _check_together(arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> None:
    """Raise StateError unless values are such as belong together."""
    rules, outputs = pool_arrays.RULES, sizes["OUTPUTS"]
    squares = arrays["cells_a"][:, rules * outputs : rules * (outputs + 1)]
    within(squares, NON_NEGATIVE, "cells_a", OWNER)
    if "tracked" in arrays:
        within(arrays["tracked"][1], NON_NEGATIVE, "tracked", OWNER)
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


_ROUNDED = 0.01
"""Tolerance of symmetry relative to the largest entry of a matrix: forgetting lets what rounding
has left grow."""


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
