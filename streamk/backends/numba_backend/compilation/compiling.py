"""Compilation of the loops of this backend, and what makes it due again.

``contract`` lets LLVM fuse a multiply and an add, which changes no order; reassociation stays off,
because a row's result must not depend on its batch.

A function's machine code holds that of the functions it calls and what the emitters of other
modules wrote into it. numba's cache knows of the function's own file alone, and would go on with
old code where another file has changed. So here what is in all these files counts, and not their
times, which differ in every copy and checkout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event
from numba.core.registry import CPUDispatcher

from streamk.backends.first_use import FIRST_USE
from streamk.backends.numba_backend.compilation import arrays
from streamk.backends.numba_backend.compilation.loaded import lighten
from streamk.backends.numba_backend.compilation.parts import Part, PartCompiler

arrays.load()

_SOURCES = sorted(Path(__file__).parents[2].rglob("*.py"))
"""All backends: constants of any of them are in compiled code."""
_STAMP = tuple((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in _SOURCES)


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
    lighten(getattr(compiled, "_cache", None))
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
