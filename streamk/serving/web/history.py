"""The state of a job or a server, point by point, for a page that shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from streamk.engine.observing.observer import Observer
from streamk.engine.progress import Snapshot

__all__ = ["MOST", "History"]

MOST = 2000
"""Points that are kept; where there are more, every second one of the older half goes."""


class History:
    """Points in time, with what an observer says then.

    Points come from one thread and are read by others.

    Parameters
    ----------
    about : mapping of str to str
        What the page says of the job or server.
    observer : Observer, optional
    """

    def __init__(self, about: Mapping[str, str], observer: Observer | None = None) -> None:
        self.about = dict(about)
        self.observer = Observer() if observer is None else observer
        self._lock = threading.Lock()
        self._points: list[tuple[int, dict[str, Any]]] = []
        self._count = 0

    def __call__(self, snapshot: Snapshot) -> None:
        """Add a point of a job."""
        self.add(asdict(snapshot))

    def add(self, figures: Mapping[str, Any]) -> None:
        """Add a point."""
        observer = self.observer
        means = {"experts": observer.experts, "importances": observer.importances}
        point = {"time": time.time(), **figures, **means}
        with self._lock:
            self._count += 1
            self._points.append((self._count, point))
            if len(self._points) > MOST:
                half = MOST // 2
                self._points = self._points[:half:2] + self._points[half:]

    def since(self, number: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the points after one, each with its number, the first of which is 1."""
        with self._lock:
            if self._count == number:
                return []
            return [point for point in self._points if point[0] > number]

    @property
    def last(self) -> dict[str, Any] | None:
        """The last point, if there is one."""
        with self._lock:
            return self._points[-1][1] if self._points else None
