"""Functions that exist only inside the compiled functions that call them.

numba optimizes every function for itself and makes machine code of it, and then optimizes its
instructions once more inside each caller. Of a function that nobody else calls, the first is never
run: here its instructions go to the caller as they are, which takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import extending, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

_unliteral: Any = types.unliteral


class CompiledPart(CPUDispatcher):
    """Refuses a call by Python, for which there is no code."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what is compiled for such types, once for all constants, which LLVM fills in."""
        dispatcher: Any = super()
        named = {name: _unliteral(kind) for name, kind in dict(kws).items()}
        return dispatcher.get_call_template([_unliteral(kind) for kind in args], named)

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


def overload(function: Any, **options: Any) -> Callable[[Any], Any]:
    """Return numba's decorator of overloads, which are parts here, compiled with such options."""
    decorator: Any = extending.overload
    decorate: Callable[[Any], Any] = decorator(
        function, jit_options={"pipeline_class": PartCompiler, **options}
    )
    return decorate
