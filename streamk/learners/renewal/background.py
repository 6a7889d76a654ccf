"""Work in a thread of its own, of which the result is asked for at a later event."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Generic, TypeVar

from streamk.backends.threads import submitted, yield_to_others

T = TypeVar("T")


REPLACEMENTS, _BLOCKS = "replacement", "blocks"
"""The thread of all learners' replacements, which is busy for seconds, and that of what is soon
asked for. Of replacements there is one: what limits the threads of BLAS within one is never undone
by another."""


@cache
def _thread(name: str) -> ThreadPoolExecutor:
    """Return the one thread of that name."""
    begin = _begin_replacements if name == REPLACEMENTS else None
    return ThreadPoolExecutor(1, thread_name_prefix=f"streamk-{name}", initializer=begin)


def _begin_replacements() -> None:
    """Have this thread yield to that of events and that of blocks, where they share few cores."""
    begun(_BLOCKS, int)  # or that thread would be begun by this one, and yield as it does
    yield_to_others()


# A forked process has no such thread, and would wait for it for ever.
os.register_at_fork(after_in_child=_thread.cache_clear)


def begun(thread: str, work: Callable[[], T]) -> Future[T]:
    """Return the future of work in the thread of a name."""
    return submitted(_thread(thread), work)


class Background(Generic[T]):
    """Work that has begun, in the thread of what is soon asked for.

    Parameters
    ----------
    work : callable
        Returns the result. It depends on nothing that changes meanwhile, and may be called again in
        a forked process.

    Examples
    --------
    >>> Background(lambda: 6 * 7).result()
    42
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._process = work, os.getpid()
        self._future = begun(_BLOCKS, work)

    def result(self) -> T:
        """Return the result as soon as it is there, or raise what the work has raised.

        A forked process, which has no such thread, does the work now.
        """
        if os.getpid() != self._process:
            return self._work()
        return self._future.result()
