"""The command `streamk`: how it begins and ends.

Exit status: 0 done, also when stopped by a signal and closed in order, or when nobody reads what is
told of it; 1 something failed while running; 2 the command line, a configuration, an address or a
column is wrong; 130 interrupted before there was anything to close in order.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from streamk.cli.output.standard_streams import standing

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
    try:
        with standing() as out, _interrupts() as came:
            # Here, as most of the time before anything is there to be closed is that of imports.
            from streamk.cli.dispatch import dispatch

            return dispatch(given, came, out)
    except KeyboardInterrupt:
        return 130


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
