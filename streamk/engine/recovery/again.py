"""Doing again what a transaction has not brought to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from connectors.errors import Aborted, ConnectorError, Unavailable
from streamk.engine.order.feed import Feed
from streamk.engine.recovery.coordinator import CheckpointCoordinator

__all__ = ["Again"]

_PATIENCE = 180.0
"""Seconds without a commit after which a run ends."""
_REST = 0.5
"""Seconds between two tries."""


class Again:
    """Has a run go on from its last committed checkpoint where a transaction was aborted.

    Parameters
    ----------
    coordinator : CheckpointCoordinator
    feed : Feed
    stopping : function
        Tells whether the run was asked to stop.
    """

    def __init__(
        self, coordinator: CheckpointCoordinator, feed: Feed, stopping: Callable[[], bool]
    ) -> None:
        self._coordinator, self._feed, self._stopping = coordinator, feed, stopping
        self._commits, self._since = -1, 0.0

    def go_back(self, error: ConnectorError) -> None:
        """Go back. Raises the last error where nothing could be committed for too long."""
        if self._coordinator.commits != self._commits:
            self._commits, self._since = self._coordinator.commits, time.monotonic()
        while True:
            if self._stopping() or time.monotonic() - self._since > _PATIENCE:
                raise error
            try:
                self._coordinator.go_back(error)
            except (Aborted, Unavailable) as again:
                error = again
            else:
                return
            with suppress(Aborted, Unavailable):
                self._feed.poll(_REST)  # what the group has to say comes there
