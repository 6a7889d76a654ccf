"""Workarounds for kafka-python, which reach for names that are its own business.

Each is for a fault of the versions in `TESTED`, and all names are looked up once, when a client is
made. A version that was not tested, or that lacks a name, goes on without the mends and a
warning says so: better the library's own faults than a mend that breaks what was repaired.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import metadata
from typing import Any

__all__ = ["TESTED", "PollWorkarounds", "keep_epoch"]

TESTED = ("3.0.12",)
"""The versions of kafka-python of which the mends were tested; pyproject.toml bounds them too."""

_NAMES = (
    ("_fetcher", "_next_partition_records"),
    ("_coordinator", "_join_task"),
    ("_coordinator", "request_rejoin"),
    ("_net", "call_soon_threadsafe"),
)

_log = logging.getLogger("streamk.connectors")


def keep_epoch(producer: Any) -> None:
    """Have errors of its epoch or sequence be the end of a transactional producer.

    kafka-python goes on under a new epoch, by which the brokers abort the transaction, and then
    refuses to send or commit because of its state, without the error that was the cause. Where it
    has other names than these it does so all the same: what is refused is refused.
    """
    manager = producer._transaction_manager
    fatal: frozenset[Any] = getattr(manager, "_FATAL_ERRORS", frozenset())
    manager._FATAL_ERRORS = fatal.union(getattr(manager, "_NEEDS_EPOCH_BUMP_ERRORS", ()))
    manager._NEEDS_EPOCH_BUMP_ERRORS = frozenset()


class PollWorkarounds:
    """Corrections of a consumer around each of its polls.

    Parameters
    ----------
    consumer : kafka.KafkaConsumer
    """

    def __init__(self, consumer: Any) -> None:
        version = metadata.version("kafka-python")
        lacks = [
            f"{part}.{name}"
            for part, name in _NAMES
            if not hasattr(getattr(consumer, part, None), name)
        ]
        self._applies = version in TESTED and not lacks
        if not self._applies:
            _log.warning(
                "kafka-python %s was not tested with this version of streamk%s: partitions may "
                "stand still after a hold, or a group may rebalance for ever. Install %s",
                version,
                f" (it has no {', '.join(lacks)})" if lacks else "",
                " or ".join(f"kafka-python=={one}" for one in TESTED),
            )
            return
        self._fetcher = consumer._fetcher
        self._coordinator = consumer._coordinator
        self._net = consumer._net

    def before_poll(self) -> None:
        """Have the next poll read partitions held no more, and end a join that is under way."""
        if self._applies:
            self._free_slot()
            self._keep_join()

    def wake(self, done: Callable[[], Any]) -> None:
        """Call `done` in the consumer's I/O thread, at once, from any thread.

        A listener that works beside that thread has to wake it when it is ready, and nothing
        public does. Without this, the I/O thread finds out the next time it has something to do:
        a heartbeat, three seconds later at most.
        """
        if self._applies:
            self._net.call_soon_threadsafe(done)
        else:
            done()

    def _free_slot(self) -> None:
        """Read partitions again that are held no more.

        kafka-python parks what it has parsed of a paused partition and takes it back only when
        the slot for the partition being read is None. Since 3.0 a partition that was read up
        stays in the slot, so that a resumed one would never be read again.
        """
        if not self._fetcher._next_partition_records:
            self._fetcher._next_partition_records = None

    def _keep_join(self) -> None:
        """Have the next poll end a join that the last one had no time to wait for.

        kafka-python takes a join that was answered between two polls for one that was dealt with
        and joins again, which makes all members rebalance: two that are busy between their polls
        may go on like that for ever. And the leader of a group that joined because the topic's
        partitions were news to it forgets, once it has divided them, that it still waits for the
        answer: it then neither owns partitions nor joins again.
        """
        task = self._coordinator._join_task
        if task is None:
            return
        self._coordinator.request_rejoin()
        if not isinstance(task, _Unread):
            self._coordinator._join_task = _Unread(task)


class _Unread:
    """A future of kafka-python's of which nobody has had the result, so that it counts as open."""

    is_done = False

    def __init__(self, future: Any) -> None:
        self.add_callback = future.add_callback
        self.add_errback = future.add_errback
