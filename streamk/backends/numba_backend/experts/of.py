"""The arrays of a pool by their names, as `streamk.backends.pool_arrays` declares them.

``of.window_y(table)`` is the array there: float32 of shape (table[WINDOW],). numba's `carray` does
the same for an address and a shape, but is compiled anew for each kind of shape, and has to be told
both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj

from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.vectors import data
from streamk.backends.pool_arrays import ARRAYS
from streamk.declared import Declared

_from_dtype: Any = from_dtype
_populate: Any = arrayobj.populate_array


def _accessor(declared: Declared) -> Any:
    """Return the intrinsic that makes the array of a table."""
    kind = _from_dtype(np.dtype(declared.dtype))
    place = getattr(at, declared.name.upper())

    @intrinsic
    def array_of(_: Any, table: Any) -> Any:
        array = types.Array(kind, len(declared.shape), "C")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            numbers = data(context, builder, signature.args[0], values[0])
            lengths = [_length(builder, numbers, length) for length in declared.shape]
            strides = [_WORD(context.get_abi_sizeof(context.get_data_type(kind)))]
            for length in lengths[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length, flags=["nsw"]))
            found = context.make_array(array)(context, builder)
            address = builder.inttoptr(_number(builder, numbers, place), found.data.type)
            _populate(found, address, lengths, strides, strides[-1], meminfo=None)
            return found._getvalue()

        return array(table), codegen

    return array_of


_WORD = ir.IntType(64)


def _length(builder: Any, numbers: Any, length: int | str | tuple[str, int]) -> Any:
    if isinstance(length, int):
        return _WORD(length)
    size, more = (length, 0) if isinstance(length, str) else length
    found = _number(builder, numbers, getattr(at, size))
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
