"""Python's interpreter, set up for threads that wait for each other and for few collections."""

from __future__ import annotations

import gc
import sys
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


@contextmanager
def short_turns() -> Iterator[None]:
    """Give threads short turns, and search for garbage seldom, in the block."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(min(interval, _SWITCH_SECONDS))
    young, *older = thresholds
    gc.set_threshold(young and max(young, _YOUNG), *older)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)


@contextmanager
def settled_objects() -> Iterator[None]:
    """Leave the objects that are there by now out of searches for garbage in the block.

    There are some 150,000 of a model and its libraries: to look at them all takes a tenth of a
    second, in which no thread goes on.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
