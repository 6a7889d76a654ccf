"""Arrays by their addresses in a table, at a place and of a shape that are told.

numba's `carray` does the same for an address, but is compiled anew for each kind of shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from streamk.backends.numba_backend.simd.vectors import data

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
