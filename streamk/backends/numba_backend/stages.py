"""Functions that are compiled each by itself: those that others call by their address, and loops.

What a function calls by its name is compiled into it: a long one that three functions call is
compiled three times, and a function of all that there is takes longer than its parts do. By their
addresses the parts are compiled once, each by itself, and so at once in several processes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from llvmlite import ir
from numba.core import types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from streamk.backends.first_use import FIRST_USE
from streamk.backends.numba_backend.compiling import stamp
from streamk.backends.numba_backend.simd.vectors import data


class Compilable(Protocol):
    """A function that can be compiled before it is needed."""

    name: str

    @property
    def is_cached(self) -> bool:
        """Return whether it need not be compiled."""

    def compile(self) -> None:
        """Compile it into the cache, or load it from there."""


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
        compiled = self._compiled
        return _in_cache(compiled._cache, compiled._sig, compiled._targetdescr.target_context)

    def compile(self) -> None:
        """Compile it into the cache, or load it from there."""
        _ = self.address

    @cached_property
    def address(self) -> int:
        """Return the address of its code, which the first access compiles or loads."""
        if self.is_cached:
            self._compiled.compile()
        else:
            with FIRST_USE.loop(self.name):
                self._compiled.compile()
        return int(self._compiled.address)


class Loop:
    """The compiled form of a function that Python calls with arguments of such types."""

    def __init__(self, function: Any, kinds: tuple[Any, ...]) -> None:
        self.name = function.__name__
        self._function, self._kinds = function, kinds

    @property
    def is_cached(self) -> bool:
        """Return whether it need not be compiled."""
        function, kinds = self._function, self._kinds
        return kinds in function.overloads or _in_cache(function._cache, kinds, function.targetctx)

    def compile(self) -> None:
        """Compile it into the cache, or load it from there."""
        self._function.compile(self._kinds)


def _in_cache(cache: Any, kinds: Any, context: Any) -> bool:
    return cache._index_key(kinds, context.codegen()) in cache._cache_file._load_index()


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
