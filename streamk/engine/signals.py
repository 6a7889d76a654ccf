"""SIGTERM and SIGINT while a run goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stopped_by_signals"]


@contextmanager
def stopped_by_signals(stop: Callable[[], None], is_stopping: Callable[[], bool]) -> Iterator[None]:
    """Stop gently on the first SIGTERM or SIGINT in the block, at once where it stops already.

    Signals are the main thread's: in another one nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        if is_stopping():
            os._exit(128 + number)
        stop()

    before = {n: signal.signal(n, handle) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
