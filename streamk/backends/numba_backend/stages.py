"""Compiled functions that other compiled functions call by their address.

What a function calls by its name is compiled into it: a long one that three functions call is
compiled three times, and a function of all that there is takes longer than its parts do. By their
addresses the parts are compiled once, each by itself, and so at once in several processes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from streamk.backends.first_use import FIRST_USE
from streamk.backends.numba_backend.compiling import stamp
from streamk.backends.numba_backend.vectors import data


class Stage:
    """A function that returns nothing; its `address` is known once it is compiled or loaded.

    Parameters
    ----------
    function : callable
        Of pointers and numbers.
    kinds : tuple of numba types
        Of its arguments.
    options : dict
        Of numba's compiler.
    """

    def __init__(self, function: Any, kinds: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.name = function.__name__
        self._compiled: Any = CFunc(function, (kinds, types.void), {}, options)
        self._compiled.enable_caching()
        stamp(self._compiled)

    @property
    def is_cached(self) -> bool:
        """Return whether it need not be compiled."""
        if "address" in vars(self):
            return True
        cache, context = self._compiled._cache, self._compiled._targetdescr.target_context
        key = cache._index_key(self._compiled._sig, context.codegen())
        return key in cache._cache_file._load_index()

    @cached_property
    def address(self) -> int:
        """Where it is, compiled or loaded when this is first asked for."""
        if self.is_cached:
            self._compiled.compile()
        else:
            with FIRST_USE.loop(self.name):
                self._compiled.compile()
        return int(self._compiled.address)


def stage(*kinds: Any, **options: Any) -> Callable[[Any], Stage]:
    """Return a decorator that makes a stage with arguments of such types."""
    return lambda function: Stage(function, kinds, {"error_model": "numpy", **options})


def _call(_: Any, address: Any, table: Any, arguments: Any) -> Any:
    """Call the stage at an address with a table and further arrays and numbers, a tuple."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        handed = [data(context, builder, table, values[1])]
        for n, kind in enumerate(arguments):
            value = builder.extract_value(values[2], n)
            is_array = isinstance(kind, types.Array)
            handed.append(data(context, builder, kind, value) if is_array else value)
        function = ir.FunctionType(ir.VoidType(), [value.type for value in handed])
        builder.call(builder.inttoptr(values[0], function.as_pointer()), handed)
        return context.get_dummy_value()

    return types.void(types.int64, table, arguments), codegen


call: Any = intrinsic(_call)
