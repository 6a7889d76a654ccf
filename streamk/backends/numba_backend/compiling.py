"""How the loops of this backend are compiled, and when what was compiled is compiled again.

``contract`` lets LLVM fuse a multiply and an add, which changes no order; reassociation stays off,
because a row's result must not depend on its batch.

A function's machine code holds that of the functions it calls and what the emitters of other
modules wrote into it. numba's cache knows of the function's own file alone, and would go on with
old code where another file has changed. So here the state of all these files counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_HERE = Path(__file__).parent
_SOURCES = sorted([*_HERE.rglob("*.py"), _HERE.parent / "__init__.py"])
_STAMP = tuple((path.name, s.st_mtime_ns, s.st_size) for path in _SOURCES for s in [path.stat()])


def compiling(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles with such options of numba's, and with this cache."""
    decorate = njit(cache=True, error_model="numpy", **options)

    def compile_(function: Any) -> Any:
        compiled = decorate(function)
        cache: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if hasattr(cache, "_source_stamp"):  # else numba's own stamp has to do
            cache._source_stamp = _STAMP
        return compiled

    return compile_


compiled = compiling(nogil=True, fastmath={"contract"})
# What the fused step and the step in parts share outside the loops over features must round in the
# same way in both, so nothing may be fused there.
exact = compiling(nogil=True)
