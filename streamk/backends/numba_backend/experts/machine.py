"""The loops that a feature machine among the experts calls, so that they are compiled with them."""

from __future__ import annotations

from numba.core import types

from streamk.backends.numba_backend.centers import (
    _add,
    _add_one,
    _expand,
    _expand_each,
    _expand_each_one,
    _expand_one,
    _follow,
    _follow_one,
    _lay,
)
from streamk.backends.numba_backend.cholesky import (
    _backward,
    _eliminate,
    _factor,
    _forward,
    _forward_narrow,
)
from streamk.backends.numba_backend.compilation.stages import Compilable, Loop
from streamk.backends.numba_backend.event_points import (
    _bound_some,
    _scale_some,
    _standardize_some,
    leaf,
    leaves,
)
from streamk.backends.numba_backend.margins import _add_slopes, _missed_by, _probabilities_of
from streamk.backends.numba_backend.pairwise import _pairwise

__all__ = ["loops"]

_INT, _FLOAT, _SINGLE = types.int64, types.float64, types.float32
_ROW, _ROWS, _NUMBERS = types.float64[::1], types.float64[:, ::1], types.int64[::1]
_SINGLES, _TILES = types.float32[:, ::1], types.float32[:, :, ::1]
_KERNEL = _INT, _FLOAT, _SINGLE
_FUNCTIONS = _ROW, _ROWS, _ROW

_OF_ALL: list[Compilable] = [
    Loop(_factor, (_TILES, _INT, _INT, _INT)),
    Loop(_forward_narrow, (_TILES, _INT, _TILES, _INT)),
    Loop(_eliminate, (_TILES, _INT, _INT, _TILES, _INT)),
    Loop(_expand_each, (*_KERNEL, _SINGLES, _TILES, _SINGLES, _ROWS)),
    Loop(_expand, (*_KERNEL, _SINGLES, _TILES, _TILES, _ROWS)),
    Loop(_expand_each_one, (*_KERNEL, _SINGLES, _TILES, _SINGLES, _ROWS)),
    Loop(_expand_one, (*_KERNEL, _SINGLES, _TILES, _TILES, _ROWS)),
    Loop(_pairwise, (_INT, _FLOAT, _FLOAT, _ROWS, _ROWS, _ROWS)),
    Loop(_pairwise, (*_KERNEL, _SINGLES, _SINGLES, _SINGLES)),
    Loop(_follow, (_ROWS, _ROWS, *_FUNCTIONS, _INT, _ROWS)),
    Loop(_follow_one, (*_KERNEL, _SINGLES, _ROWS, *_FUNCTIONS, _ROWS)),
    Loop(_add_one, (*_KERNEL, _SINGLES, _SINGLES, _ROWS, _ROWS)),
    Loop(_add, (_ROWS, _NUMBERS, _ROWS, _ROWS)),
    Loop(_lay, (_SINGLES, _NUMBERS, _TILES)),
    Loop(_scale_some, (_ROWS, *(5 * [_ROW]), _NUMBERS, _FLOAT)),
    Loop(_bound_some, (_ROWS, _ROW, _FLOAT, _SINGLES)),
    Loop(leaf, (_SINGLES, _SINGLES, _ROW, types.int64[:, ::1], _NUMBERS)),
    Loop(leaves, (_ROWS, _ROW, types.int64[:, ::1], _NUMBERS)),
    Loop(_standardize_some, (_ROWS, _ROW, _ROW, _FLOAT)),
    Loop(_missed_by, (_ROWS, _ROW, types.boolean, _FLOAT, _FLOAT, _FLOAT)),
]
"""Those of its first functions, of any task."""
_OF_CLASSES: list[Compilable] = [
    Loop(_probabilities_of, (_ROWS, _FLOAT, _FLOAT, _ROWS)),
    Loop(_add_slopes, (_ROWS, _ROW, _FLOAT, _FLOAT, _ROW)),
    Loop(_forward, (_TILES, _INT, _TILES, _INT)),
    Loop(_backward, (_TILES, _INT, _TILES)),
]
"""Those of classes, and of functions of five or more of them, which may come with any event."""


def loops(task: str) -> list[Compilable]:
    """Return the loops of its first functions."""
    return _OF_ALL if task == "regression" else [*_OF_ALL, *_OF_CLASSES]
