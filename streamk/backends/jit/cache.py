"""numba's cache of compiled code: what makes it due again, and how it is loaded.

A function's machine code holds that of the functions it calls and what the emitters of other
modules wrote into it. numba's cache knows of the function's own file alone, and would go on with
old code where another file has changed. So here what is in all these files counts, and not their
times, which differ in every copy and checkout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llvmlite.binding import parse_bitcode
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime.nrt import rtsys

_SOURCES = sorted(Path(__file__).parents[1].rglob("*.py"))
"""All backends: constants of any of them are in compiled code."""
_STAMP = tuple((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in _SOURCES)


def stamp(compiled: Any) -> None:
    """Make the cache of a compiled function depend on all files of all backends."""
    _lighten(compiled._cache)
    compiled._cache._cache_file._source_stamp = _STAMP


def is_in_cache(cache: Any, kinds: Any, context: Any) -> bool:
    """Return whether the code for arguments of such types is in a function's cache."""
    return cache._index_key(kinds, context.codegen()) in cache._cache_file._load_index()


class Loaded(JITCodeLibrary):
    """Code of a function out of numba's cache, without the instructions that it was made of.

    numba reads these, too, a megabyte for a loop, since other functions may be compiled that call
    it by its name. Here they are kept as they are in the cache, a tenth of that, until one is.
    """

    _instructions: bytes

    @classmethod
    def load(cls, codegen: Any, name: str, data: Sequence[bytes], symbols: set[str]) -> Any:
        """Return the library of machine code and instructions, which defines such symbols."""
        made: Any = cls
        library = made(codegen, name)
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
