"""Room for classes that are still to come, in the arrays of a pool of experts.

Labels that keep coming would otherwise have all arrays made anew for each of them. Where outputs
are the leading axis, or nothing is kept from event to event, an array is the beginning of a longer
piece of memory. The others, `SPACED`, have rows to spare, which the compiled loops skip. So sums
are over the classes there are, in the same order whatever there is room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import pool_arrays

SPACED = {
    each.name.upper(): each.shape.index("OUTPUT_ROOM")
    for each in pool_arrays.LEARNED
    if "OUTPUT_ROOM" in each.shape
}
"""Axis of the outputs of arrays with rows to spare; the cells, see `cells`, have room too."""
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


def fitted(held: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Return arrays of such sizes, views of the beginnings of those with room for more.

    Parameters
    ----------
    held : mapping of str to array
        All arrays of a pool by their places, with room.
    sizes : mapping of str to int
        See `streamk.backends.pool_arrays`.
    """
    found = dict(held)
    for each in pool_arrays.ARRAYS:
        array = held.get(each.name.upper())
        if array is not None and array.shape != each.lengths(sizes):
            found[each.name.upper()] = _beginning(array, each.lengths(sizes))
    return found


def _beginning(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the beginning of an array in another shape."""
    return array.reshape(-1)[: int(np.prod(shape))].reshape(shape)
