"""The arrays of a pool by their names, as `streamk.backends.pool_arrays` declares them.

``view.window_y(table)`` is the array there: float32 of shape (table[WINDOW],). numba's `carray`
does the same for an address, but is compiled anew for each kind of shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from streamk.backends.numba_backend.compiling import data, fast
from streamk.backends.numba_backend.experts import slot
from streamk.backends.pool_arrays import ARRAYS, QUANTILE
from streamk.declared import Declared

_dtype: Any = from_dtype
_WORD = ir.IntType(64)


_unpacked: Any = cgutils.unpack_tuple
_populate: Any = arrayobj.populate_array


def array_at(context: Any, builder: Any, kind: Any, address: Any, lengths: Sequence[Any]) -> Any:
    """Return the array of a type at an address, a number, with such lengths of its axes."""
    word = context.get_value_type(types.intp)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [word(size)]
    for length in lengths[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length, flags=["nsw"]))
    found = context.make_array(kind)(context, builder)
    pointer = builder.inttoptr(address, found.data.type)
    _populate(found, pointer, lengths, strides, size, meminfo=None)
    return found._getvalue()


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
                for length, is_ in zip(_unpacked(builder, extents), shape, strict=True)
            ]
            addresses = data(context, builder, signature.args[0], table)
            address = builder.load(builder.gep(addresses, [place], inbounds=True))
            return array_at(context, builder, array, address, lengths)

        return array(table, types.intp, shape), codegen

    return reached


double, flags = _reaching(types.float64), _reaching(types.bool_)


def _accessor(declared: Declared) -> Any:
    """Return the intrinsic that makes the array of a table."""
    array = types.Array(_dtype(np.dtype(declared.dtype)), len(declared.shape), "C")
    place = getattr(slot, declared.name.upper())

    @intrinsic
    def array_of(_: Any, table: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            numbers = data(context, builder, signature.args[0], values[0])
            lengths = [_length(builder, numbers, length) for length in declared.shape]
            address = _number(builder, numbers, place)
            return array_at(context, builder, array, address, lengths)

        return array(table), codegen

    return array_of


def _length(builder: Any, numbers: Any, length: int | str | tuple[str, int]) -> Any:
    if isinstance(length, int):
        return _WORD(length)
    size, more = (length, 0) if isinstance(length, str) else length
    found = _number(builder, numbers, getattr(slot, size))
    return builder.add(found, _WORD(more), flags=["nsw"]) if more else found


def _number(builder: Any, numbers: Any, place: int) -> Any:
    """Load a number of the table that stays what it is, which need not be loaded twice."""
    found = builder.load(builder.gep(numbers, [_WORD(place)], inbounds=True))
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


vars().update({each.name: _accessor(each) for each in ARRAYS})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return what makes an array of a table."""


_loss_parameter, _tracked = vars()["loss_parameter"], vars()["tracked"]


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
