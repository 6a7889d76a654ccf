"""Memory of the process: large arrays and free memory that go back to the system.

Free memory stays with the process in most cases: the C library keeps it for the next request, for
each thread apart. And pages of a library's file that were read once stay in the process, although
the system has them in its own memory and reads them again where they are missing.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["give_back", "room", "share_free"]

_PAGE = 1 << 21
"""Bytes of a large page."""
_COMPILER = "libllvmlite"
"""The library of which little is used but while loops are compiled or loaded: 70 MB are read."""
_DONT_NEED = 4
"""Linux' number of the advice to drop pages."""
_ARENAS = -8
"""The C library's number of the bound of its stores of free memory."""


def room(count: int) -> NDArray[np.float32]:
    """Return an array of so many numbers, not set, which goes back to the system when it is freed.

    One of MBs takes memory as it is written to, in pages of 2 MB where the system has such: these
    come many times as fast as small ones.
    """
    nbytes = -(-4 * count // _PAGE) * _PAGE
    if nbytes <= _PAGE or not hasattr(mmap, "MAP_PRIVATE"):  # which is not there on Windows
        return np.empty(count, np.float32)
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # where there is no more, NumPy says so
        return np.empty(count, np.float32)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # of a system that is built without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.float32, count)


def give_back() -> None:
    """Give free memory and the pages of the compiler's code back to the system.

    It takes some milliseconds, in which other threads go on until they ask for memory; of hundreds
    of MBs that are free in many places, a tenth of a second. Where it cannot be done, nothing is.
    """
    trim = _of_library("malloc_trim", ctypes.c_size_t)
    if trim is not None:
        trim(0)
    advise = _of_library("madvise", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if advise is not None and "llvmlite.binding" in sys.modules:
        for start, stop in _code_of(_COMPILER):
            advise(start, stop - start, _DONT_NEED)


def share_free() -> None:
    """Bound the stores of free memory to one, which all threads use.

    The C library has one for each thread otherwise. It is for a process that is ours alone: of
    `streamk run` on covtype it saves 20 to 50 MB.
    """
    bound = _of_library("mallopt", ctypes.c_int, ctypes.c_int)
    if bound is not None:
        bound(_ARENAS, 1)


@cache
def _of_library(name: str, *kinds: Any) -> Callable[..., int] | None:
    """Return a function of the C library, None where it has none of that name, or not on Linux."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.argtypes = kinds
    return function


@cache
def _code_of(name: str) -> list[tuple[int, int]]:
    """Return from where to where the instructions of a library lie.

    Nothing is written there, and pages that are missing are read from the file again.
    """
    found = []
    with (
        suppress(OSError),
        Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as all_,
    ):
        for line in all_:
            addresses, allowed, *_, path = line.split()
            if name in path and allowed == "r-xp":
                start, stop = (int(address, 16) for address in addresses.split("-"))
                found.append((start, stop))
    return found
