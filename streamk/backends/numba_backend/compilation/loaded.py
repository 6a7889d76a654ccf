"""Functions out of numba's cache, without the instructions that their machine code was made of.

numba reads these, too, a megabyte for a loop, since other functions may be compiled that call it
by its name. Here they are kept as they are in the cache, a tenth of that, until one is.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import parse_bitcode
from numba.core.codegen import JITCodeLibrary

__all__ = ["Loaded", "lighten"]


class Loaded(JITCodeLibrary):
    """The code of a function out of the cache."""

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


def lighten(cache: Any) -> None:
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
