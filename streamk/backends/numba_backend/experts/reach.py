"""Arrays by their places in a table, and what a pool's loss is; see `of` for a pool's arrays."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from streamk.backends.numba_backend.experts import of
from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.vectors import data
from streamk.backends.pool_arrays import QUANTILE

_unpacked: Any = cgutils.unpack_tuple
_populate: Any = arrayobj.populate_array


def _reaching(kind: Any) -> Any:
    """Return the intrinsic that makes an array (table, place, shape) of such numbers.

    numba's `carray` does the same, but is compiled anew for each kind of shape.
    """

    @intrinsic
    def reached(_: Any, table: Any, place: Any, shape: Any) -> Any:
        array = types.Array(kind, len(shape), "C")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            table, place, extents = values
            lengths = [
                context.cast(builder, length, is_, types.intp)
                for length, is_ in zip(_unpacked(builder, extents), shape, strict=True)
            ]
            word = context.get_value_type(types.intp)
            size = context.get_abi_sizeof(context.get_data_type(kind))
            strides = [word(size)]
            for length in lengths[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length, flags=["nsw"]))
            addresses = data(context, builder, signature.args[0], table)
            address = builder.load(builder.gep(addresses, [place], inbounds=True))
            found = context.make_array(array)(context, builder)
            pointer = builder.inttoptr(address, found.data.type)
            _populate(found, pointer, lengths, strides, size, meminfo=None)
            return found._getvalue()

        return array(table, types.intp, shape), codegen

    return reached


double, flags = _reaching(types.float64), _reaching(types.bool_)


@fast
def loss_of(table: Any) -> Any:
    """Return how errors of numbers count, see `costs`."""
    return table[at.LOSS], of.loss_parameter(table)[0]


@fast
def size(table: Any) -> Any:
    """Return the mean error of the mixture, by which steps on a quantile are measured."""
    if table[at.LOSS] == QUANTILE:
        return of.tracked(table)[1, table[at.EXPERTS]]
    return 1.0
