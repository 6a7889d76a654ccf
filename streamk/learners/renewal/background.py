"""Work in a thread of its own, of which the result is asked for at a later event."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Generic, TypeVar

from streamk.backends.threads import submitted

T = TypeVar("T")


@cache
def _thread(name: str) -> ThreadPoolExecutor:
    """Return the one thread of that name."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"streamk-{name}")


# A forked process has no such thread, and would wait for it for ever.
os.register_at_fork(after_in_child=_thread.cache_clear)


def begun(thread: str, work: Callable[[], T]) -> Future[T]:
    """Return the future of work in the thread of a name."""
    return submitted(_thread(thread), work)


class Background(Generic[T]):
    """Work that has begun, in a thread of its own: that of replacements is busy for seconds.

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
        self._future = begun("blocks", work)

    def result(self) -> T:
        """Return the result as soon as it is there, or raise what the work has raised.

        A forked process, which has no such thread, does the work now.
        """
        if os.getpid() != self._process:
            return self._work()
        return self._future.result()
