"""Compilation of the loops over an event's experts."""

from __future__ import annotations

from typing import Any

from streamk.backends.numba_backend.compiling import compiling, part, parts
from streamk.backends.numba_backend.simd.exponential import decayed

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


@part
def exponential(x: Any) -> Any:
    """Return exp(x) of x < 88, as `decayed` does.

    It rounds by adding and subtracting, which sums in another order would undo, so it is compiled
    by itself; callers take its instructions in as they are.
    """
    return decayed(x)
