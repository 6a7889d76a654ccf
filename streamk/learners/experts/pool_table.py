"""The table by which compiled loops find the arrays of a pool of experts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops, pool_arrays
from streamk.learners.experts import class_room
from streamk.learners.experts.arena import side_by_side

_ROOM = tuple(each.name.upper() for each in (*pool_arrays.ROOM, *pool_arrays.OWN_ROOM))


class PoolTable:
    """Arrays and sizes by the names of their places, and the table that says where they are."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.held: dict[str, NDArray[Any]] = {}
        """The arrays with room for outputs that are still to come."""
        self.sizes: dict[str, int] = {}
        self._rooms: list[Workspace] = []

    def _lay_out(self) -> None:
        """Put the arrays side by side, and write sizes and addresses into the table."""
        self.held = side_by_side(self.arrays)
        at = loops.slot
        self._table = np.zeros(at.SIZE, dtype=np.int64)
        self._fit()

    def _fit(self) -> None:
        """Take the arrays for the outputs that there are."""
        self.arrays = class_room.fitted(self.held, self.sizes)
        self.__dict__.pop("table", None)  # which is of another one
        self._point()

    def widen(self, classes: int, **fresh: NDArray[Any]) -> None:
        """Become a table of so many outputs and classes, after a copy was made; there is room.

        The `fresh` arrays take the place of those of the same names.
        """
        self.held = self.held | side_by_side(fresh)
        self.sizes = pool_arrays.derived(self.sizes | {"OUTPUTS": classes, "CLASSES": classes})
        self._table, self._rooms = self._table.copy(), []
        self._table[loops.slot.FRESH] = 0
        self._fit()

    def replace(self, **fresh: NDArray[Any]) -> None:
        """Take arrays in the place of those of the same names, for the same outputs."""
        self.held = self.held | side_by_side(fresh)
        self._fit()

    def _point(self) -> None:
        at = loops.slot
        for name, size in self.sizes.items():
            self._table[getattr(at, name)] = size
        for name, array in self.arrays.items():
            self._table[getattr(at, name)] = array.ctypes.data

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """The argument of the compiled loops, which are compiled or loaded on its first use."""
        for place, address in loops.ahead.addresses().items():
            self._table[place] = address
        return self._table

    @property
    def count(self) -> int:
        """Events in the window."""
        return int(self._table[loops.slot.COUNT])

    @property
    def next(self) -> int:
        """Row of the window that the next event takes."""
        return int(self._table[loops.slot.NEXT])

    def set_window(self, count: int, following: int) -> None:
        """Say how many events the window has, and which row the next one takes."""
        at = loops.slot
        self._table[at.COUNT], self._table[at.NEXT] = count, following

    @contextmanager
    def room(self) -> Iterator[NDArray[np.int64]]:
        """Lend room for a thread that forecasts by this pool: a table of its own."""
        try:
            room = self._rooms.pop()
        except IndexError:
            room = Workspace(self)
        yield room.table_of(self)
        self._rooms.append(room)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, in bytes."""
        return sum(array.nbytes for array in self.held.values())


class Workspace:
    """The workspace of a thread that forecasts by a pool."""

    def __init__(self, pool: PoolTable) -> None:
        there = [name for name in _ROOM if name in pool.arrays]
        self._arrays = side_by_side({name: np.zeros_like(pool.arrays[name]) for name in there})
        self._arrays["ONES"][:] = 1.0
        at = loops.slot
        self._at = np.array([getattr(at, name) for name in self._arrays])
        self._addresses = np.array([array.ctypes.data for array in self._arrays.values()])

    def table_of(self, pool: PoolTable) -> NDArray[np.int64]:
        """Return the pool's table as it is, but for what is written."""
        table = pool.table.copy()
        table[self._at] = self._addresses
        return table
