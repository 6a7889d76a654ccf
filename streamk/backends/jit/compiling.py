"""The decorators that compile the loops of this backend, and their kinds.

``contract`` lets LLVM fuse a multiply and an add, which changes no order; reassociation stays off,
because a row's result must not depend on its batch.

A stage is a function of pointers that others call by its address; a loop is one that Python calls;
a part is one that only compiled functions call (`streamk.backends.jit.parts`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numba
from llvmlite import ir
from numba import njit, types
from numba.core import event
from numba.core.ccallback import CFunc
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

from streamk.backends.first_use import FIRST_USE
from streamk.backends.jit.cache import is_in_cache, stamp
from streamk.backends.jit.parts import CompiledPart, PartCompiler
from streamk.backends.jit.vectors import data


def compiling(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles with such options of numba's, and with this cache."""
    decorate: Any = njit
    decorate = decorate(cache=True, **_options(**options))

    def compile_(function: Any) -> Any:
        compiled = decorate(function)
        if isinstance(compiled, CPUDispatcher):  # else numba compiles nothing at all
            stamp(compiled)
        return compiled

    return compile_


def _options(*, fastmath: bool | set[str] = False, **options: Any) -> dict[str, Any]:
    # A function without `fastmath` of its own takes its caller's: its results would depend on who
    # has it compiled first. Nothing calls our loops by C's convention.
    return {"error_model": "numpy", "fastmath": fastmath, "no_cfunc_wrapper": True, **options}


def parts(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator for functions that none but compiled functions call.

    They are compiled into those, and never for themselves: they have no machine code of their own,
    and are in no cache but their callers'.
    """
    config: Any = numba.config
    if config.DISABLE_JIT:
        return lambda function: function
    kept = _options(nopython=True, boundscheck=None, no_cpython_wrapper=True, **options)
    return lambda function: CompiledPart(function, {}, kept, PartCompiler)


class _Counter(event.Listener):
    """Counts what numba compiles of ours, and for that."""

    _depth = 0

    def on_start(self, event: Any) -> None:
        if self._depth or event.data["dispatcher"].py_func.__module__.startswith("streamk."):
            self._depth += 1
            FIRST_USE.begin()

    def on_end(self, event: Any) -> None:
        if self._depth:
            self._depth -= 1
            FIRST_USE.end(event.data["dispatcher"].py_func.__qualname__)


register: Any = event.register
register("numba:compile", _Counter())

part = parts(nogil=True, fastmath={"contract"})
inlined = parts(nogil=True, fastmath={"contract"}, forceinline=True)
"""A part of vectors, which a call would put through memory."""
compiled = compiling(nogil=True, fastmath={"contract"})


@part
def copy(source: Any, target: Any) -> None:
    """Write numbers in place of others, one by one.

    For ``target[:] = source`` numba compiles the message of shapes that differ: some 2 s.
    """
    for i in range(len(target)):
        target[i] = source[i]


# What the fused step and the step in parts share outside the loops over features must round in the
# same way in both, so nothing may be fused there.
exact = compiling(nogil=True)
# Loops of microseconds keep the interpreter: else the caller would wait up to 5 ms to have it back
# while a thread in the background runs Python.
short = compiling()
exact_part = parts(nogil=True)


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
        return is_in_cache(compiled._cache, compiled._sig, compiled._targetdescr.target_context)

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
        return kinds in function.overloads or is_in_cache(
            function._cache, kinds, function.targetctx
        )

    def compile(self) -> None:
        """Compile it into the cache, or load it from there."""
        self._function.compile(self._kinds)


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


SUMS = {"reassoc", "contract", "nsz", "arcp"}
fast = parts(nogil=True, fastmath=SUMS, forceinline=True)
"""Sums may be taken in another order, so that they fill vectors; NaN and infinity stay what they
are. Which order is fixed when a function is compiled. Divisions and roots of vectors may be
estimated and refined, to some 2e-7.

What calls a function takes its instructions in. Called by its name, it would be the copy of whoever
was loaded first that ran, compiled for itself or for one caller or another, each with an order of
its own: a process that has just compiled would learn otherwise than one that finds the code in
numba's cache."""
called = compiling(nogil=True, fastmath=SUMS, forceinline=True)
"""The same of what Python calls, too."""
called_briefly = compiling(fastmath=SUMS, forceinline=True)
"""The same of an event alone, which keeps the interpreter; see `compiling.short`."""
ordered = parts(nogil=True, fastmath=SUMS | {"nnan"}, forceinline=True)
"""For the least and the greatest of many, which fill vectors only if there is no NaN among them:
with one, any of the numbers may come out."""
