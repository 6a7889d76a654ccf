"""The arrays of a pool by their names, as `streamk.backends.pool_arrays` declares them.

``view.window_y(table)`` is the array there: float32 (WINDOW_EVENTS,). numba's
`carray` does the same for an address, but is compiled anew for each kind of shape.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic

from streamk.backends.jit.compiling import fast
from streamk.backends.jit.vectors import array_at, data, unpacked
from streamk.backends.numba_backend.experts import slot
from streamk.backends.pool_arrays import ARRAYS, QUANTILE

_dtype: Any = from_dtype
_WORD = ir.IntType(64)
_DECLARED = {each.name: each for each in ARRAYS}


def _reaching(kind: Any) -> Any:
    """Return the intrinsic that makes an array (table, place, shape) of such numbers."""

    @intrinsic
    def reached(_: Any, table: Any, place: Any, shape: Any) -> Any:
        """Make the array whose address is in that place of the table."""
        array = types.Array(kind, len(shape), "C")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            table, place, extents = values
            lengths = [
                context.cast(builder, length, is_, types.intp)
                for length, is_ in zip(unpacked(builder, extents), shape, strict=True)
            ]
            addresses = data(context, builder, signature.args[0], table)
            address = builder.load(builder.gep(addresses, [place], inbounds=True))
            return array_at(context, builder, array, address, lengths)

        return array(table, types.intp, shape), codegen

    return reached


double, flags = _reaching(types.float64), _reaching(types.bool_)


@cache
def array_of(name: str) -> Any:
    """Return the intrinsic that makes the array of such a name, of a table."""
    declared = _DECLARED[name]
    array = types.Array(_dtype(np.dtype(declared.dtype)), len(declared.shape), "C")
    place = slot.PLACES[name.upper()]

    @intrinsic
    def made(_: Any, table: Any) -> Any:
        """Make the array of a table."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            numbers = data(context, builder, signature.args[0], values[0])
            lengths = [_length(builder, numbers, length) for length in declared.shape]
            address = _number(builder, numbers, place)
            return array_at(context, builder, array, address, lengths)

        return array(table), codegen

    return made


def _length(builder: Any, numbers: Any, length: int | str | tuple[str, int]) -> Any:
    if isinstance(length, int):
        return _WORD(length)
    size, more = (length, 0) if isinstance(length, str) else length
    found = _number(builder, numbers, slot.PLACES[size])
    return builder.add(found, _WORD(more), flags=["nsw"]) if more else found


def _number(builder: Any, numbers: Any, place: int) -> Any:
    """Load a number of the table that stays what it is, which need not be loaded twice."""
    found = builder.load(builder.gep(numbers, [_WORD(place)], inbounds=True))
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


_loss_parameter, _tracked = array_of("loss_parameter"), array_of("tracked")
globals().update({name: array_of(name) for name in _DECLARED})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


@fast
def loss(table: Any) -> Any:
    """Return how errors of numbers count, see `two_stage`."""
    return table[slot.LOSS], _loss_parameter(table)[0]


@fast
def mean_error(table: Any) -> Any:
    """Return that of the mixture, by which steps on a quantile are measured; 1 of other losses."""
    if table[slot.LOSS] == QUANTILE:
        return _tracked(table)[1, table[slot.EXPERTS]]
    return 1.0
