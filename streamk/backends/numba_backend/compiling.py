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
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from llvmlite.binding import parse_bitcode
from numba import extending, njit
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

from streamk.backends.first_use import FIRST_USE

_OWNER, _ASKS = "numba.np.linalg", "numba.np.arraymath"


def _load_arrays() -> None:
    """Load numba's own functions on arrays without SciPy's linear algebra.

    numba loads them with the first function that is compiled or comes from its cache, and with them
    `scipy.linalg`, only to see whether it is there: 15 MB of memory and a tenth of a second. None
    of our loops calls a product of numba's, and where another program's do, numba loads it with
    these. It does nothing where they are there, or where this version of numba has others.
    """
    if _ASKS in sys.modules:
        return
    owner: Any = import_module(_OWNER)
    known = getattr(owner, "ensure_blas", None)
    if known is None:
        return
    owner.ensure_blas = lambda: None  # SciPy is there: this package cannot be without it
    try:
        asks: Any = import_module(_ASKS)
    finally:
        owner.ensure_blas = known
    asks.ensure_blas = known


_load_arrays()

_SOURCES = sorted(Path(__file__).parents[1].rglob("*.py"))
"""All backends: constants of any of them are in compiled code."""
_STAMP = tuple((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in _SOURCES)


class Loaded(JITCodeLibrary):
    """Code of a function out of numba's cache, without the instructions that it was made of.

    numba reads these, too, a megabyte for a loop, since other functions may be compiled that call
    it by its name. Here they are kept as they are in the cache, a tenth of that, until one is.
    """

    _instructions: bytes

    def shed(self) -> None:
        """Free the instructions; they are read again when a function is to be linked to it."""
        module: Any = self._shared_module
        self._instructions = module.as_bitcode()
        self._shared_module = None
        module.close()

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module: Any = parse_bitcode(self._instructions)
        return self._shared_module


def _lighten(cache: Any) -> None:
    """Have a function's cache load it so."""
    forms: Any = getattr(cache, "_impl", None)
    known = getattr(forms, "rebuild", None)
    if known is None:  # another version of numba keeps them as it likes
        return

    def rebuild(context: Any, payload: Any) -> Any:
        result = known(context, payload)
        library: Any = getattr(result, "library", None)
        if type(library) is JITCodeLibrary and getattr(library, "_shared_module", None) is not None:
            library.__class__ = Loaded
            shed: Any = Loaded.shed
            shed(library)
        return result

    forms.rebuild = rebuild


class Part(CPUDispatcher):
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
        stamp(compiled)
        return compiled

    return compile_


def _decorator(*, fastmath: bool | set[str] = False, **options: Any) -> Any:
    # A function without `fastmath` of its own takes its caller's: its results would depend on who
    # has it compiled first. Nothing calls our loops by C's convention.
    decorate: Any = njit
    return decorate(error_model="numpy", fastmath=fastmath, no_cfunc_wrapper=True, **options)


def stamp(compiled: Any) -> None:
    """Make the cache of a compiled function depend on all files of this backend."""
    _lighten(getattr(compiled, "_cache", None))
    cache: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(cache, "_source_stamp"):  # else numba's own stamp has to do
        cache._source_stamp = _STAMP


def parts(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator for functions that none but compiled functions call.

    They are compiled into those, and never for themselves: they have no machine code of their own,
    and are in no cache but their callers'.
    """
    decorate = _decorator(no_cpython_wrapper=True, pipeline_class=PartCompiler, **options)

    def compile_(function: Any) -> Any:
        compiled = decorate(function)
        if isinstance(compiled, CPUDispatcher):  # else numba compiles nothing at all
            compiled.__class__ = Part
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
# What the fused step and the step in parts share outside the loops over features must round in the
# same way in both, so nothing may be fused there.
exact = compiling(nogil=True)
# Loops of microseconds keep the interpreter: else the caller would wait up to 5 ms to have it back
# while a thread in the background runs Python.
short = compiling()
exact_part = parts(nogil=True)
