"""The standard streams of the command, which may be closed, or break while it runs.

What is for people is lost then, and nothing else is: the work goes on. Events and predictions have
streams of bytes of their own (`connectors.stdio`), which say so where they cannot be used.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = ["ForPeople", "standing"]


class ForPeople:
    """A text stream that loses what cannot be written, and keeps the reason.

    Parameters
    ----------
    stream : text file, or None
        None where the process began with it closed. It has no `buffer` then, so that it is not
        taken for a stream of events.
    name : str

    Attributes
    ----------
    trouble : str or None
        Why something was lost. That the reader has gone is no trouble: it has enough.
    """

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._stream: Any = stream
        self._name = name
        self.trouble: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def encoding(self) -> str | None:
        """That of the stream."""
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
