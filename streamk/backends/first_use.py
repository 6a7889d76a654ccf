"""Compilation on the first use on a machine: counted, logged, shown.

numba compiles a loop when it is first called and keeps it on the disk, so this is once for a
machine and a version. It takes seconds, in which a program that says nothing looks stuck.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TextIO

__all__ = ["FIRST_USE", "FirstUse"]

_log = logging.getLogger("streamk.compiling")
_PROCESS = os.getpid()
"""That has imported this; its children by `os.fork` have another one."""


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
        self._awaited = 0
        """Pieces of work that the main thread has begun and not ended, some within others."""
        self._watchers: list[Callable[[str], None]] = []
        self._own: _Line | None = None
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
            self._awaited += _is_main()
            if len(self._begun) == 1:
                if not self._expected and not self.done:
                    _log.info("compiling for this processor, once")
                self._show(self.line())
            elif _is_main() and self._awaited == 1 and not self._watchers:
                self._show(self.line())  # nothing is seen of what other threads have begun

    def end(self, name: str) -> None:
        """End the loop begun last."""
        with self._lock:
            seconds = time.monotonic() - self._begun.pop()
            self._awaited -= _is_main()
            if not self._begun:
                self.seconds += seconds
                self.ended()
                if not self._expected:
                    _log.info("compiled %s in %.1f s", name, seconds)
                    self._show("")
            self._clear_terminal()

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
        with self._lock:
            self._awaited += _is_main()
            self._show(self.line())
        try:
            yield
        finally:
            with self._lock:
                self._awaited -= _is_main()
                self._expected = 0
                self._show("")
                self._clear_terminal()
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
        with self.shown(_Line(stream).show) if stream.isatty() else nullcontext():
            yield

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Show nothing inside, on a terminal either."""
        with self.shown(_ignore):
            yield

    def _show(self, line: str) -> None:
        for show in self._watchers:
            show(line)
        if line and not self._watchers:
            self._show_on_terminal(line)

    def _show_on_terminal(self, line: str) -> None:
        """Show a line to whoever uses streamk as a library, which says nothing of it by itself.

        It stays while the main thread waits. What that writes afterwards begins an empty line,
        whatever other threads still compile.
        """
        if self._own is None and self._awaited and _has_terminal() and not _is_logged():
            self._own = _Line(sys.stderr)
        if self._own is not None and _is_first_process():
            with suppress(OSError, ValueError):  # an event is learned whether it can be said or not
                self._own.show(f"streamk: {line}")

    def _clear_terminal(self) -> None:
        """Leave nothing on the terminal, unless the main thread waits."""
        if self._own is not None and not self._awaited:
            if _is_first_process():
                with suppress(OSError, ValueError):
                    self._own.show("")
            self._own = None


class _Line:
    """A line of a terminal that is rewritten."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def show(self, line: str) -> None:
        """Write another one in its place; an empty one leaves nothing of it."""
        self._stream.write("\r" + line.ljust(self._width) + ("" if line else "\r"))
        self._stream.flush()
        self._width = len(line)


def _ignore(line: str) -> None:
    pass


def _has_terminal() -> bool:
    """Return whether a line on stderr would be read, and disturb nothing.

    Another thread, or a process of several, would write into what the program writes meanwhile.
    """
    try:
        shown = sys.stderr.isatty()  # None in a program without a console
    except (AttributeError, ValueError):
        return False
    return shown and _is_main() and _is_first_process()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_first_process() -> bool:
    """Return whether this process was neither begun by `multiprocessing` nor forked."""
    return multiprocessing.parent_process() is None and os.getpid() == _PROCESS


def _is_logged() -> bool:
    """Return whether the program has the log told, and needs no second word."""
    return _log.isEnabledFor(logging.INFO) and _log.hasHandlers()


FIRST_USE = FirstUse()
"""Of this process."""
