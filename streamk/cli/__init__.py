"""The command `streamk`: how it begins and ends.

Exit status: 0 done, also when stopped by a signal and closed in order, or when nobody reads what is
told of it; 1 something failed while running; 2 the command line, a configuration, an address or a
column is wrong; 130 interrupted before there was anything to close in order.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO


class ForPeople:
    """A text stream that loses what cannot be written, and keeps the reason.

    Parameters
    ----------
    stream : text file, or None
        None where the process began with it closed. It has no `buffer` then, so that it is not
        taken for a stream of events.

    Attributes
    ----------
    trouble : str or None
        Why something was lost. That the reader has gone is not an error: it has enough.
    """

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._stream: Any = stream
        self._name = name
        self.trouble: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def encoding(self) -> str | None:
        """Return the stream's encoding, None if it tells none."""
        return getattr(self._stream, "encoding", None)

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._stream is not None and bool(self._stream.isatty())

    def write(self, text: str) -> int:
        """Write text, or lose it."""
        if self._stream is None:
            self.trouble = f"{self._name} is closed"
            return len(text)
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        """Hand what was written to the system, or lose it."""
        if self._stream is not None:
            try:
                self._stream.flush()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        """Have this and all that comes, also from Python at its end, lead nowhere."""
        if not isinstance(error, BrokenPipeError):
            self.trouble = f"{self._name} cannot be written: {error.strerror or error}"
        with suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


@contextmanager
def standing() -> Iterator[ForPeople]:
    """Have the three standard streams stand inside, whatever they are; yield standard output.

    A descriptor from 0 to 2 that is closed leads nowhere from here on. The first file that is
    opened would have its number otherwise, and get what others write to that.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a letter shows a question mark.
            stream.reconfigure(errors="replace")
    out, err = ForPeople(sys.stdout, "standard output"), ForPeople(sys.stderr, "standard error")
    kept: Any = out, err
    sys.stdout, sys.stderr = kept
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdin, sys.stdout, sys.stderr = before


__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the name of the program; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        The exit status, see above.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if arguments is None and gc.isenabled():  # the process is the command's own
        gc.disable()
        _starting.append(True)
    try:
        with standing() as out, _interrupts() as came:
            # Here, as most of the time before anything is there to be closed is that of imports.
            from streamk.cli.dispatch import dispatch

            return dispatch(given, came, out)
    except KeyboardInterrupt:
        return 130


_starting: list[bool] = []
"""Holds something while Python does not search for garbage."""


def started() -> None:
    """Have Python search for garbage again, but not among what there was before the first event.

    While modules are imported it would search 300 times, a tenth of the time until then.
    """
    if _starting:
        _starting.clear()
        gc.freeze()
        gc.enable()


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Yield a list of the interrupts that come inside, each of which raises KeyboardInterrupt.

    Where a module in C is imported at that moment, it may put another error in its place.
    """
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # another thread than the main one may not, and gets none
            signal.signal(signal.SIGINT, note)
    try:
        yield came
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, signal.default_int_handler)
