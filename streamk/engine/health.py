"""Telling that a source or a sink waits for something that is gone, and that it is back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from connectors.base import Trouble, Troubled

__all__ = ["HealthMonitor"]

_EVERY_SECONDS = 1.0
"""Time between two questions: a broker that is gone shall be told within five seconds."""

_log = logging.getLogger("streamk.engine")


class HealthMonitor:
    """Asks sources and sinks, in a thread of its own, whether something is wrong.

    The loop itself may wait in a call of one of them for minutes. What begins and what is over is a
    warning each; nothing else follows from it.

    Parameters
    ----------
    parts : iterable
        Sources and sinks; those that cannot tell (`connectors.base.Troubled`) are left out.
    show : function
        Called after every question while something is wrong.
    """

    def __init__(self, parts: Iterable[Any], show: Callable[[], None]) -> None:
        self._parts = [part for part in parts if isinstance(part, Troubled)]
        self._show = show
        self._since: dict[Trouble, float] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def short(self) -> str | None:
        """The trouble and its duration, for a line: "broker gone 12s"; None without any."""
        now = time.monotonic()
        told = [f"{what.short} {now - since:.0f}s" for what, since in self._since.copy().items()]
        return "  ".join(told) or None

    def __enter__(self) -> Self:
        if self._parts:
            self._thread = threading.Thread(target=self._watch, name="streamk-health", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Stop asking; what has come up at the end is told."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            if kind is None:
                self._look()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            self._look()
            if self._since:
                self._show()

    def _look(self) -> None:
        told = [part.trouble() for part in self._parts]
        found = {one for one in told if one is not None}
        for what in [one for one in self._since if one not in found]:
            seconds = time.monotonic() - self._since.pop(what)
            _log.warning("%s, after %.0f s", what.over, seconds)
        for what in found:
            if what not in self._since:
                self._since[what] = time.monotonic()
                _log.warning("%s", what.text)
