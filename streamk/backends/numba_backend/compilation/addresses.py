"""Arrays handed to compiled code as a table of their addresses.

Handing an array over takes about 60 ns, which for one event is a good part of its time. What stays
the same from event to event goes over as one table of whole numbers instead. Whoever fills the
table keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic


def _point(_: Any, address: Any, like: Any) -> Any:
    """Return an address as a pointer to numbers like an array's, or like a number."""
    pointer: Any = types.CPointer
    kind = pointer(like.dtype if isinstance(like, types.Array) else like)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

    return kind(address, like), codegen


pointer: Any = intrinsic(_point)
"""``carray(pointer(address, like), shape)`` is the array there."""
