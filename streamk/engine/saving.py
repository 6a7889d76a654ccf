"""The times at which checkpoints are written, and restarts where that or a commit fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from connectors.errors import Aborted, Revoked, Unavailable
from streamk.engine.checkpoints.opening import Checkpoints
from streamk.engine.checkpoints.store import NotSaved
from streamk.engine.order.feed import Feed
from streamk.engine.recovery.coordinator import CheckpointCoordinator, NotAssigned

_PATIENCE = 180.0
"""Seconds without a commit after which a run ends."""
_REST = 0.5
"""Seconds between two tries."""


class Restarts:
    """Restarts a run from its last committed checkpoint, within the process.

    That is where a transaction was aborted, or partitions came while no checkpoint could be
    written. `stopping` tells whether the run was asked to stop.
    """

    def __init__(
        self, coordinator: CheckpointCoordinator, feed: Feed, stopping: Callable[[], bool]
    ) -> None:
        self._coordinator, self._feed, self._stopping = coordinator, feed, stopping
        self._commits, self._since = -1, 0.0

    def restart(self, error: Exception) -> None:
        """Restart. Raises the last error where nothing could be committed for too long."""
        if self._coordinator.commits != self._commits:
            self._commits, self._since = self._coordinator.commits, time.monotonic()
        while True:
            if self._stopping() or time.monotonic() - self._since > _PATIENCE:
                raise error
            try:
                self._coordinator.restart_from_commit(error)
            except (Aborted, Unavailable, NotAssigned) as again:
                error = again
            else:
                return
            with suppress(Aborted, Unavailable, NotAssigned):
                self._feed.poll(_REST)  # what the group has to say comes there
            if self._coordinator.commits != self._commits:
                return  # partitions came there, and were saved


_AGAIN = 1.0
"""Seconds between two attempts where one has failed."""

_log = logging.getLogger("streamk.engine")


class Saving:
    """Has checkpoints written; where that fails, it is tried again while the run goes on.

    What is learned does not depend on when a checkpoint is written, so a disk that is full for a
    while costs nothing but the time that a crash would throw the run back.
    """

    def __init__(self, coordinator: CheckpointCoordinator, checkpoints: Checkpoints) -> None:
        self._coordinator, self._checkpoints = coordinator, checkpoints
        self._tried = time.monotonic()
        self._failed: float | None = None

    @property
    def trouble(self) -> str | None:
        """Return a failure in two words; None without one."""
        return None if self._failed is None else "checkpoint fails"

    def is_due_by_count(self, events: int) -> bool:
        """Return True if a checkpoint is due after so many events."""
        if events % self._checkpoints.every == 0:
            return True
        return self._failed is not None and time.monotonic() - self._failed >= _AGAIN

    @property
    def is_due_by_time(self) -> bool:
        """Return True if a checkpoint is due because of the time since the last one."""
        seconds = self._checkpoints.transactions
        if seconds is None or time.monotonic() - self._tried < seconds:
            return False
        return not self._coordinator.is_current

    def save(self, events: int, *, final: bool = False) -> bool:
        """Write one after so many events; False if the group refused it and the run went back.

        After the `final` one nothing comes, so that its failure ends the run.

        Raises
        ------
        EngineError, ConnectorError
            See `CheckpointCoordinator.save`.
        """
        self._tried = time.monotonic()
        try:
            self._coordinator.save()
        except Revoked:
            return False
        except NotSaved as error:
            left = self._checkpoints.grace - (events - self._coordinator.saved_events)
            if final or left <= 0:
                raise
            if self._failed is None:
                _log.warning(
                    "%s; retrying every second while the run goes on, for at most %s events",
                    error,
                    f"{left:,}",
                )
            self._failed = time.monotonic()
            return True
        if self._failed is not None:
            self._failed = None
            _log.warning(
                "checkpoints can be written again; one was written after %s events", f"{events:,}"
            )
        return True
