"""Compilation on the first use on a machine: counted, logged, shown.

numba compiles a loop when it is first called and keeps it on the disk, so this is once for a
machine and a version. It takes seconds, in which a program that says nothing looks stuck.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TextIO

__all__ = ["FIRST_USE", "FirstUse"]

_log = logging.getLogger("streamk.compiling")


class FirstUse:
    """The loops that this process has had to compile.

    Attributes
    ----------
    done : int
        Loops compiled, those of `ended` included.
    seconds : float
        That compiling them took this process.
    """

    def __init__(self) -> None:
        self.done, self.seconds = 0, 0.0
        self._expected = 0
        self._begun: list[float] = []
        self._watchers: list[Callable[[str], None]] = []
        self._lock = threading.RLock()

    @contextmanager
    def loop(self, name: str) -> Iterator[None]:
        """Compile a loop inside; one that is compiled for another counts with that."""
        self.begin()
        try:
            yield
        finally:
            self.end(name)

    def begin(self) -> None:
        """Begin a loop."""
        with self._lock:
            self._begun.append(time.monotonic())
            if len(self._begun) == 1:
                if not self._expected and not self.done:
                    _log.info("compiling for this processor, once")
                self._show(self.line())

    def end(self, name: str) -> None:
        """End the loop begun last."""
        with self._lock:
            seconds = time.monotonic() - self._begun.pop()
            if not self._begun:
                self.seconds += seconds
                self.ended()
                if not self._expected:
                    _log.info("compiled %s in %.1f s", name, seconds)
                    self._show("")

    def ended(self) -> None:
        """Count a loop, which another process may have compiled."""
        with self._lock:
            self.done += 1
            if self._expected:
                self._show(self.line())

    @contextmanager
    def expecting(self, loops: int) -> Iterator[None]:
        """Compile about so many loops inside, which is shown and logged as one piece of work."""
        began, self._expected = time.monotonic(), self.done + loops
        before = self.done
        _log.info("compiling %d loops for this processor, once", loops)
        self._show(self.line())
        try:
            yield
        finally:
            self._expected = 0
            self._show("")
            _log.info("compiled %d loops in %.1f s", self.done - before, time.monotonic() - began)

    def line(self) -> str:
        """Say how far it is.

        Examples
        --------
        >>> FirstUse().line()
        'compiling for this processor, once: 0 loops done'
        """
        counted = f"{self.done} loops done"
        if self._expected:
            counted = f"{self.done} of {max(self.done, self._expected)} loops"
        return f"compiling for this processor, once: {counted}"

    @contextmanager
    def shown(self, show: Callable[[str], None]) -> Iterator[None]:
        """Give each line to `show` inside, an empty one when nothing is compiled any more."""
        self._watchers.append(show)
        try:
            yield
        finally:
            self._watchers.remove(show)

    @contextmanager
    def shown_on(self, stream: TextIO) -> Iterator[None]:
        """Rewrite a line of a terminal inside; another stream gets nothing."""
        width = 0

        def show(line: str) -> None:
            nonlocal width
            stream.write("\r" + line.ljust(width) + ("" if line else "\r"))
            stream.flush()
            width = len(line)

        with self.shown(show) if stream.isatty() else nullcontext():
            yield

    def _show(self, line: str) -> None:
        for show in self._watchers:
            show(line)


FIRST_USE = FirstUse()
"""Of this process."""
