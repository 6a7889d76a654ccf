"""Work in a thread of its own, of which the result is asked for at a later event."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Generic, TypeVar

T = TypeVar("T")


@cache
def _thread() -> ThreadPoolExecutor:
    """Return the thread of all learners' blocks: that of replacements is busy for seconds."""
    return ThreadPoolExecutor(1, thread_name_prefix="streamk-background")


# A forked process has no such thread, and would wait for it for ever.
os.register_at_fork(after_in_child=_thread.cache_clear)


class Background(Generic[T]):
    """Work that has begun.

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
        self._future: Future[T] = _thread().submit(work)

    def result(self) -> T:
        """Return the result as soon as it is there, or raise what the work has raised.

        A forked process, in which nobody does the work, does it now.
        """
        if os.getpid() != self._process:
            return self._work()
        return self._future.result()
