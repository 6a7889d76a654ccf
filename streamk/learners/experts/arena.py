"""Arrays side by side in one piece of memory, at distances that never change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LINE

_GAP = 1024
"""Bytes between two arrays, and before the first and after the last one. LLVM gives a loop with
stores two versions, and takes the one without vectors where an array begins less than some hundred
bytes after another. Sums then round in another way, so what is learned would depend on where
the arrays happen to lie."""
_LARGEST = 1 << 20
"""Bytes of an array that stays where it is: nothing lies that close before it by chance that a
loop uses with it."""


def side_by_side(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return copies of arrays that lie in one piece of memory; large and empty ones as they are.

    Examples
    --------
    >>> import numpy as np
    >>> found = side_by_side({"a": np.ones(3), "b": np.zeros((2, 2), np.float32)})
    >>> found["a"], found["b"].shape
    (array([1., 1., 1.]), (2, 2))
    >>> (found["b"].ctypes.data - found["a"].ctypes.data) >= 1024
    True
    """
    small = {name: a for name, a in arrays.items() if 0 < a.nbytes < _LARGEST}
    room = sum(-(-a.nbytes // LINE) * LINE + _GAP for a in small.values())
    memory = np.zeros(room + _GAP + LINE, np.uint8)
    at = _GAP + -memory.ctypes.data % LINE
    found = dict(arrays)
    for name, array in small.items():
        place = memory[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        place[...] = array
        found[name] = place
        at += -(-array.nbytes // LINE) * LINE + _GAP
    return found
