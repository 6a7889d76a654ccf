"""Compilation of the loops of this backend, and what makes it due again.

``contract`` lets LLVM fuse a multiply and an add, which changes no order; reassociation stays off,
because a row's result must not depend on its batch.

A function's machine code holds that of the functions it calls and what the emitters of other
modules wrote into it. numba's cache knows of the function's own file alone, and would go on with
old code where another file has changed. So here what is in all these files counts, and not their
times, which differ in every copy and checkout.

A part is a function that exists only inside the compiled functions that call it. numba optimizes
every function for itself and makes machine code of it, and then optimizes its instructions once
more inside each caller. Of a function that nobody else calls, the first is never run: here its
instructions go to the caller as they are, which takes half of the time.

All that this package changes in numba is in this module, by names that numba does not promise:
`pyproject.toml` has the versions that have them, and `tests/backends/test_compiling.py` fails where
another one has not. `memory` drops pages of the compiler's library besides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from llvmlite import ir
from llvmlite.binding import parse_bitcode
from numba import extending, njit
from numba.core import event, types
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

from streamk.backends.first_use import FIRST_USE

_SOURCES = sorted(Path(__file__).parents[1].rglob("*.py"))
"""All backends: constants of any of them are in compiled code."""
_STAMP = tuple((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in _SOURCES)


class Loaded(JITCodeLibrary):
    """Code of a function out of numba's cache, without the instructions that it was made of.

    numba reads these, too, a megabyte for a loop, since other functions may be compiled that call
    it by its name. Here they are kept as they are in the cache, a tenth of that, until one is.
    """

    _instructions: bytes

    @classmethod
    def load(cls, codegen: Any, name: str, data: Sequence[bytes], symbols: set[str]) -> Any:
        """Return the library of machine code and instructions, which defines such symbols."""
        library = codegen.create_library(name)
        library.__class__ = cls
        code, library._instructions = data
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        codegen._engine._defined_symbols |= symbols
        return library

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module: Any = parse_bitcode(self._instructions)
        return self._shared_module


class _Loading:
    """A context of numba's that loads such libraries."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> Any:
        """Return what loads libraries."""
        return self

    def unserialize_library(self, saved: Any) -> Any:
        """Return the library that was saved."""
        name, _, (*data, symbols) = saved
        return Loaded.load(self._context.codegen(), name, data, symbols)


def _lighten(cache: Any) -> None:
    """Have a function's cache load it so, and nothing that only compilation needs.

    numba makes all the types and functions that it knows ready before it loads anything, which
    takes longer than to load our loops. Compilation begins with the same.
    """
    forms: Any = cache._impl
    reduced, rebuilt = forms.reduce, forms.rebuild

    def reduce(result: Any) -> Any:
        (name, kind, data), *others = reduced(result)
        module = result.library._get_module_for_linking()
        named = (*module.functions, *module.global_variables)
        symbols = {one.name for one in named if not one.is_declaration}
        return (name, kind, (*data, symbols)), *others

    def rebuild(context: Any, payload: Any) -> Any:
        return rebuilt(_Loading(context), payload)._replace(target_context=context)

    def load_overload(signature: Any, context: Any) -> Any:
        rtsys.initialize(context)
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, context)

    forms.reduce, forms.rebuild, cache.load_overload = reduce, rebuild, load_overload


class CompiledPart(CPUDispatcher):
    """Refuses a call by Python, for which there is no code."""

    def __call__(self, *_: Any) -> Any:
        """Raise TypeError."""
        raise TypeError(f"{self.py_func.__name__} can be called by compiled functions only")


class _NoEnvironments:
    """Of a library without machine code: nothing in memory points to Python's objects."""

    @staticmethod
    def set_env(*_: Any) -> None:
        """Do nothing."""


class _PartLibrary(JITCodeLibrary):
    """The instructions of a part, to be linked."""

    codegen = _NoEnvironments

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        library: Any = super()
        library._finalize_dynamic_globals()
        library._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, _: str) -> int:
        """Return the address that means none."""
        return 0


class PartCompiler(Compiler):
    """Compiles as numba does, into such a library."""

    def define_pipelines(self) -> Any:
        """Return numba's own passes."""
        state: Any = self.state
        library: Any = _PartLibrary
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        numbas: Any = super()
        return numbas.define_pipelines()


def overload(function: Any) -> Callable[[Any], Any]:
    """Return numba's decorator of overloads, which are parts here."""
    decorator: Any = extending.overload
    decorate: Callable[[Any], Any] = decorator(
        function, jit_options={"pipeline_class": PartCompiler}
    )
    return decorate


def compiling(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles with such options of numba's, and with this cache."""
    decorate = _decorator(cache=True, **options)

    def compile_(function: Any) -> Any:
        compiled = decorate(function)
        if isinstance(compiled, CPUDispatcher):  # else numba compiles nothing at all
            _stamp(compiled)
        return compiled

    return compile_


def _decorator(*, fastmath: bool | set[str] = False, **options: Any) -> Any:
    # A function without `fastmath` of its own takes its caller's: its results would depend on who
    # has it compiled first. Nothing calls our loops by C's convention.
    decorate: Any = njit
    return decorate(error_model="numpy", fastmath=fastmath, no_cfunc_wrapper=True, **options)


def _stamp(compiled: Any) -> None:
    """Make the cache of a compiled function depend on all files of this backend."""
    _lighten(compiled._cache)
    compiled._cache._cache_file._source_stamp = _STAMP


def parts(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator for functions that none but compiled functions call.

    They are compiled into those, and never for themselves: they have no machine code of their own,
    and are in no cache but their callers'.
    """
    decorate = _decorator(no_cpython_wrapper=True, pipeline_class=PartCompiler, **options)

    def compile_(function: Any) -> Any:
        compiled = decorate(function)
        if isinstance(compiled, CPUDispatcher):
            compiled.__class__ = CompiledPart
        return compiled

    return compile_


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
        _stamp(self._compiled)

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


def data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the pointer to an array's first number."""
    return context.make_array(kind)(context, builder, value).data


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
