"""Comparisons for the tests of feature machines."""

from __future__ import annotations

import numpy as np

from streamk.state import State


def same(one: State, other: State) -> bool:
    """Return whether two states are the same bits."""
    arrays = one.arrays.keys() == other.arrays.keys() and all(
        np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items()
    )
    return one.header == other.header and arrays
