"""Work on rows or chunks, shared among threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

T = TypeVar("T")

PARALLEL_FLOPS = 16_000_000
"""Work below which handing it to another thread costs more than it saves: 100 microseconds go for
that, and more where there are many threads, since each of them waits for the interpreter twice."""

_BRIEF = 1 << 15
"""Numbers of a part of a batch that takes microseconds: another thread can have the interpreter
between two of them."""
_WHOLE = (slice(None),)
_NICENESS = 5
"""Niceness that a thread which yields adds to its own: beside one as busy it has a fourth of a
core. It cannot be taken back, so that much more would stop it for long beside other programs."""
_own = threading.local()


def yield_to_others() -> None:
    """Have the system run other threads before this one, and before those that work for it.

    Where they would wait for a core they get it at once. It is done on Linux, where each thread has
    a priority of its own, which those that it begins take over.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # of a system that does not allow it
            own = threading.get_native_id()
            before = os.getpriority(os.PRIO_PROCESS, own)
            os.setpriority(os.PRIO_PROCESS, own, before + _NICENESS)
            _mark_yielding()


@cache
def _pool(threads: int, yields: bool) -> ThreadPoolExecutor:
    """Return a pool for the threads that yield, or for the others: its own do as those do."""
    if not yields:
        return ThreadPoolExecutor(threads, thread_name_prefix="streamk")
    return ThreadPoolExecutor(threads, "streamk-yielding", initializer=_mark_yielding)


def _mark_yielding() -> None:
    """Have this thread, which begins with another's priority, know of it."""
    _own.yields = True


# A forked process has none of the threads, and would wait for them for ever.
os.register_at_fork(after_in_child=_pool.cache_clear)


def submitted(executor: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> Future[T]:
    """Return the future of work that is handed to other threads.

    It is done at once where the interpreter takes no more of it: when the main thread has ended and
    another one goes on to learn, or saves a model.
    """
    try:
        return executor.submit(work, *arguments)
    except RuntimeError:
        future: Future[T] = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class _Blas:
    """The libraries of BLAS in this process, which a thread of streamk limits while it computes."""

    def __init__(self) -> None:
        self._lock, self._users, self._limit = threading.Lock(), 0, cast("Any", None)

    @cached_property
    def _found(self) -> Any:
        import scipy.linalg  # noqa: F401  # whose library would not be found else
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController()

    def enter(self) -> None:
        """Have one thread, for one user more."""
        with self._lock:
            if not self._users:
                self._free()
            # Each user sets it: by OpenMP it is a limit of the thread alone.
            limit = self._found.limit(limits=1, user_api="blas")
            if not self._users:
                self._limit = limit
            self._users += 1

    def leave(self) -> None:
        """Have as many threads as before, if there is no other user."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self.restore()

    def restore(self) -> None:
        """Have as many threads as before the first user."""
        self._free()
        self._limit.restore_original_limits()
        self._free()

    def _free(self) -> None:
        """Allow the thread that comes next to set limits.

        From version 3.8 on threadpoolctl ignores all threads but the first one that did. While
        there are users that is one of them, so that no other thread lifts the limit.
        """
        for one in self._found.lib_controllers:
            if hasattr(one, "clear_controlling_thread"):
                one.clear_controlling_thread(force=True)


_blas = _Blas()


def _after_fork() -> None:
    """Have no users: the threads that limited BLAS are not in this process."""
    global _blas
    if _blas._users:
        _blas.restore()
    _blas = _Blas()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS compute in the thread that calls it, while there is a user of this.

    Between calls its other threads wait busily: by small matrices they take a core all the time.
    """
    blas = _blas
    blas.enter()
    try:
        yield
    finally:
        blas.leave()


_SHORT = 8_192
"""Numbers whose sum BLAS adds up in the thread that asks for it."""


def sum_of_squares(X: Any) -> float:
    """Return the sum of squares of an array: the fast way to see that all numbers are small enough.

    It does not warn of an overflow, and wakes no other thread.

    Examples
    --------
    >>> import numpy as np
    >>> sum_of_squares(np.full((300, 50), 2.0))
    60000.0
    """
    if X.size <= _SHORT:
        return float(np.vdot(X, X))
    flat = X.reshape(-1)
    parts = (flat[at : at + _SHORT] for at in range(0, flat.size, _SHORT))
    return float(sum(np.vdot(part, part) for part in parts))


@cache
def cores() -> int:
    """Return how many threads to take by default: `OMP_NUM_THREADS`, or a thread for each core.

    It is asked once in a process.
    """
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    chosen = int(first) if first.isdecimal() else 0
    return chosen or os.cpu_count() or 1  # asking the system takes as long as learning an event


def worth(flops: int, threads: int) -> int:
    """Return how many of so many threads work is worth, of so many multiplications.

    Examples
    --------
    >>> [worth(flops, 8) for flops in (1_000_000, 40_000_000, 1_000_000_000)]
    [1, 3, 8]
    """
    return min(threads, 1 + flops // PARALLEL_FLOPS)


def divide(n: int, flops: int, work: Callable[[slice], None], threads: int | None = None) -> None:
    """Do `work` on all of range(n), in parts by as many threads as it is worth.

    Parameters
    ----------
    n : int
    flops : int
        Multiplications that all the work takes, about.
    work : callable
        Takes a slice of range(n).
    threads : int, optional
        At most so many; by default those of `cores`.
    """
    threads = threads or cores()
    parts = min(n, worth(flops, threads))
    if parts < 2:
        work(slice(0, n))
        return
    edges = [n * part // parts for part in range(parts + 1)]
    own, *others = (slice(a, b) for a, b in pairwise(edges))
    pool = _pool(threads, getattr(_own, "yields", False))
    jobs = [submitted(pool, work, part) for part in others]
    # The caller, which is running already, does a part itself: threads that wake up together may
    # be put on one core for as long as short work takes.
    try:
        work(own)
    finally:
        wait(jobs)
    for job in jobs:
        job.result()


def pieces(X: Any) -> Iterable[slice]:
    """Return parts of the rows of X (n, d), for loops of microseconds that keep the interpreter.

    Examples
    --------
    >>> import numpy as np
    >>> pieces(np.zeros((40_000, 2)))
    [slice(0, 16384, None), slice(16384, 32768, None), slice(32768, 49152, None)]
    """
    if 0 < X.size <= _BRIEF:
        return _WHOLE
    step = max(1, _BRIEF // max(1, X.shape[1]))
    return [slice(first, first + step) for first in range(0, len(X), step)]
