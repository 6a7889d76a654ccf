"""The progress of a run: one line on a terminal, a log elsewhere."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any, TextIO

from streamk.backends.first_use import FIRST_USE

__all__ = ["JsonFormatter", "Snapshot", "TerminalLine", "log_progress", "shown_on"]

_log = logging.getLogger("streamk.engine")


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at one moment.

    Attributes
    ----------
    events : int
        Events taken from the sequence since the job began, restarts included.
    learned, predicted, bad : int
    events_per_s : float
        Since the snapshot before.
    lag : int or None
        Events that are in the source and not yet taken; None where the source cannot tell.
    features : int
        Random features or landmarks in use.
    model_bytes, process_bytes : int
        Memory of the model, and of the whole process (resident).
    whole, window : dict of str to float
        Figures of progressive validation: accuracy and log_loss, or mae (pinball of a quantile)
        and rmse; and others that were asked for.
    baselines : dict of str to float
        Accuracy of no_change and majority, or mean absolute error of last_value and mean, in the
        window.
    epoch : int or None
        The last checkpoint.
    trouble : str or None
        What the run waits for and for how long, such as "broker gone 12s".
    contest : dict or None
        `streamk.contest.Contest.standings`, where there are challengers.
    slices : dict of str to dict
        Figures of each value of a column, where one was named.
    alarms : dict of str to int
        Alarms so far, by kind.
    bad_kinds : dict of str to int
        Bad events by kind (`streamk.encoding.BAD_KINDS`).
    tombstones : int
        Records that mark a deletion; they do not count as events.
    share : float or None
        Part of a bounded source that was read; None where there is no end, or none is known.
    seconds_left : float or None
        Until that end, at the rate since the run began.
    """

    events: int
    learned: int
    predicted: int
    bad: int
    events_per_s: float
    lag: int | None
    features: int
    model_bytes: int
    process_bytes: int
    whole: dict[str, float]
    window: dict[str, float]
    baselines: dict[str, float]
    epoch: int | None
    trouble: str | None = None
    contest: dict[str, Any] | None = None
    slices: dict[str, dict[str, Any]] = field(default_factory=dict)
    alarms: dict[str, int] = field(default_factory=dict)
    bad_kinds: dict[str, int] = field(default_factory=dict)
    tombstones: int = 0
    share: float | None = None
    seconds_left: float | None = None

    def line(self) -> str:
        """At most 79 characters for a terminal.

        What matters least goes first where there is no room for all.

        >>> s = Snapshot(1234567, 0, 0, 3, 61234.5, None, 131072, 1, 250_000_000, {},
        ...              {"accuracy": 0.8123, "log_loss": 0.4567}, {"no_change": 0.5}, 7,
        ...              share=0.3, seconds_left=75.2)
        >>> print(s.line())
        1.23M events  61.2k/s  30%, 1:15 left  accuracy 0.812 (no change 0.500)  3 bad
        """
        # In the order of the line, with a rank: what has the highest goes first.
        parts = [(0, f"{short(self.events)} events"), (0, f"  {short(self.events_per_s)}/s")]
        if self.share is not None and self.share < 1.0:
            parts.append((1, f"  {int(100 * self.share)}%"))
            if self.seconds_left is not None:
                parts.append((1, f", {clock(self.seconds_left)} left"))
        if self.trouble is not None:
            parts.append((0, f"  {self.trouble}"))
        for place, (name, value) in enumerate(self.window.items()):
            rank = 0 if place == 0 else 6 if place == 1 else 2
            parts.append((rank, f"  {name} {figure(value)}"))
            if place == 0 and self.baselines:
                name, value = next(iter(self.baselines.items()))
                parts.append((3, f" ({name.replace('_', ' ')} {figure(value)})"))
        parts += [(4, f"  {name} {value}") for name, value in self._challengers().items()]
        if self.lag is not None and self.share is None:
            parts.append((1, f"  lag {short(self.lag)}"))
        parts += [(5, f"  {short(self.features)} feat"), (4, f"  {short(self.process_bytes)}")]
        if self.bad:
            parts.append((1, f"  {short(self.bad)} bad"))
        left, kept = 79, set()
        for place in sorted(range(len(parts)), key=lambda place: parts[place][0]):
            if len(parts[place][1]) <= left:
                left -= len(parts[place][1])
                kept.add(place)
        return "".join(parts[place][1] for place in sorted(kept))

    def _challengers(self) -> dict[str, str]:
        """Return the first figure of each challenger by its name."""
        if self.contest is None:
            return {}
        found = {
            name: next(iter(model["window"].values()), None)
            for name, model in self.contest["models"].items()
            if name != self.contest["champion"]
        }
        return {name: figure(value) for name, value in found.items() if value is not None}


def short(number: float) -> str:
    """Three digits and a suffix.

    >>> [short(n) for n in (0, 12, 999, 1000, 61234, 2_500_000_000)]
    ['0', '12', '999', '1k', '61.2k', '2.5G']
    """
    for suffix in ("", "k", "M", "G"):
        # What would round to 1000 belongs to the next suffix.
        if abs(number) < 999.5:
            return f"{number:.3g}{suffix}"
        number /= 1000
    return f"{number:.3g}T"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any.

    >>> clock(7.2), clock(3600)
    ('0:07', '1:00:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def figure(value: float) -> str:
    """A figure of merit: fractions with three places, large errors in short.

    >>> figure(0.81234), figure(12.3456), figure(123456.0)
    ('0.812', '12.3', '123k')
    """
    return f"{value:.3f}" if abs(value) < 9.9995 else short(value)


def process_bytes() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class TerminalLine:
    """Rewrites one line in place, in a single write, so that it does not flicker."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def __call__(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self._rewrite(snapshot.line())

    def show_line(self, line: str) -> None:
        """Show a line of another kind; none if it is empty."""
        if line:
            self._rewrite(line)
        else:
            self.clear()

    def clear(self) -> None:
        """Make room for other output."""
        if self._width:
            self._rewrite("")
            self._stream.write("\r")
            self._stream.flush()

    def _rewrite(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)


def log_progress(snapshot: Snapshot) -> None:
    """Log a snapshot as a structured record."""
    _log.info("progress", extra={"streamk": asdict(snapshot)})


class LogLine:
    """Logs snapshots as lines for people; a run that stands still, or waits, logs one."""

    def __init__(self) -> None:
        self._last: tuple[int, bool] | None = None

    def __call__(self, snapshot: Snapshot) -> None:
        """Log a snapshot."""
        if self._last != (snapshot.events, snapshot.trouble is None):
            _log.info("%s", snapshot.line())
        self._last = snapshot.events, snapshot.trouble is None


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (seconds since 1970), level, message, and the record's data."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        data: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "streamk", {}),
        }
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


class TextFormatter(logging.Formatter):
    """A line for people: date and time, the level of what is more than information, message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line, without an exception."""
        if record.levelno > logging.INFO:
            record.message = f"{record.levelname.lower()}: {record.message}"
        return super().formatMessage(record)


class _AboveLine(logging.Handler):
    """Prints records above the progress line."""

    def __init__(self, line: TerminalLine, stream: TextIO) -> None:
        super().__init__()
        self._line, self._stream = line, stream

    def emit(self, record: logging.LogRecord) -> None:
        self._line.clear()
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        self._stream.write(fill(text, 79, break_long_words=False, break_on_hyphens=False) + "\n")
        self._stream.flush()


@contextmanager
def shown_on(
    stream: TextIO | None = None, *, structured: bool = False
) -> Iterator[Callable[[Snapshot], None]]:
    """An `on_progress` for `stream` (stderr by default), and the engine's logs beside it.

    A terminal gets one line that is rewritten, and warnings above it. Anything else gets lines for
    people, or JSON if it is to be `structured`. Logging is as it was afterwards.
    """
    stream = stream or sys.stderr
    handler: logging.Handler
    show: Callable[[Snapshot], None]
    if stream.isatty():
        show = TerminalLine(stream)
        handler = _AboveLine(show, stream)
        handler.setLevel(logging.WARNING)
    else:
        show = log_progress if structured else LogLine()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JsonFormatter() if structured else TextFormatter())
    with ExitStack() as stack:
        for log in (_log, *map(logging.getLogger, ("streamk.compiling", "streamk.contest"))):
            stack.enter_context(_logged_by(log, handler))
        if isinstance(show, TerminalLine):
            stack.callback(stream.write, "\n")
            stack.enter_context(FIRST_USE.shown(show.show_line))
        yield show


@contextmanager
def _logged_by(log: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    """Give what is logged to this handler alone."""
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


class Pace:
    """Says when the next snapshot is due, and how fast things went since the last."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._last = time.monotonic()
        self._events: int | None = None

    def due(self) -> bool:
        """Return whether `interval` seconds have passed."""
        return time.monotonic() - self._last >= self._interval

    def overdue(self) -> bool:
        """Return whether whoever shows snapshots is held up."""
        return time.monotonic() - self._last >= 2 * self._interval

    def rate(self, events: int) -> float:
        """Events per second since the last call; the first call counts from `start`."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        before, self._events = self._events, events
        return 0.0 if before is None or passed <= 0 else (events - before) / passed
