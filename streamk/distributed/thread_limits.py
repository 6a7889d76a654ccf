"""Threads of the processes that work side by side: one each, unless the user chose a number."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_ALL = "OMP_NUM_THREADS"
"""The libraries of linear algebra, and streamk itself, go by it where nothing of their own is set;
numba does not."""
_NUMBA = "NUMBA_NUM_THREADS"
_LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a process takes one thread, besides those of an environment.

    Those that are set there are the user's choice and are left out; so are those of libraries where
    `OMP_NUM_THREADS` is set, by which they go then.

    Examples
    --------
    >>> one_thread_each({"OPENBLAS_NUM_THREADS": "4", "NUMBA_NUM_THREADS": "2"})
    {'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1'}
    >>> one_thread_each({"OMP_NUM_THREADS": "4"})
    {'NUMBA_NUM_THREADS': '1'}
    """
    of_libraries = () if _ALL in environment else (_ALL, *_LIBRARIES)
    names = (*of_libraries, _NUMBA)
    return {name: "1" for name in names if name not in environment}


@contextmanager
def limited_threads() -> Iterator[None]:
    """Have processes that are started inside take one thread each; see `one_thread_each`.

    Libraries read these variables when they are first imported, so those of this process stay as
    they are.
    """
    chosen = one_thread_each(os.environ)
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            del os.environ[name]
