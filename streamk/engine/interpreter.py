"""Python's interpreter, set up for threads that wait for each other and for few collections."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["settled_objects", "short_turns"]

_SWITCH_SECONDS = 2e-4
"""Longest wait of a thread for the interpreter: the thread that learns needs it between calls of
compiled code, one that answers requests whenever a newer model is read. 5 ms by default, in which
hundreds of events are learned."""
_YOUNG = 50_000
"""Objects made between two searches for cyclic garbage; there is none in what becomes of an event
or a request, and with Python's 700 they took an eighth of a run."""


class _Settings:
    """Settings of the interpreter while any thread is in a block of `short_turns`.

    They are the process's: were each block to give back what it found, blocks of two threads that
    overlap would leave those of the first behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._interval, self._thresholds = 0.0, (0, 0, 0)

    def enter(self) -> None:
        with self._lock:
            self._blocks += 1
            if self._blocks > 1:
                return
            self._interval, self._thresholds = sys.getswitchinterval(), gc.get_threshold()
            sys.setswitchinterval(min(self._interval, _SWITCH_SECONDS))
            young, *older = self._thresholds
            gc.set_threshold(young and max(young, _YOUNG), *older)

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                sys.setswitchinterval(self._interval)
                gc.set_threshold(*self._thresholds)


_settings = _Settings()


@contextmanager
def short_turns() -> Iterator[None]:
    """Give threads short turns, and search for garbage seldom, in the block.

    Settings are as before when the last of several blocks, in threads perhaps, has ended.
    """
    _settings.enter()
    try:
        yield
    finally:
        _settings.leave()


@contextmanager
def settled_objects() -> Iterator[None]:
    """Leave the objects that are there by now out of searches for garbage in the block.

    There are some 150,000 of a model and its libraries: to look at them all takes a tenth of a
    second, in which no thread goes on. Where some are left out already they stay so: Python has
    others back only all at once.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
