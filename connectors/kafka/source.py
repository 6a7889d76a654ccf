"""Kafka topics as sources: groups, offsets, rebalances, and records in large fetches."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from connectors.base import AssignedCallback, Chunk, RevokedCallback
from connectors.errors import BadURL, ConnectorError, Revoked
from connectors.kafka.client import (
    Cluster,
    out_of_range,
    partition_name,
    split_partition,
)
from connectors.kafka.security import Security

__all__ = ["KafkaSource"]

# The cost of a poll per event halves when fetches are large; what a poll does not return stays
# in the client as bytes.
FETCH_MAX_BYTES = 64 << 20
PARTITION_FETCH_BYTES = 4 << 20

_NAP = 0.01
"""Longest wait inside kafka-python, seconds: at 1,000 events/s some waits of 100 ms went on to the
end although records were there, which was the p99 of the engine's latency."""
_REQUEST_TIMEOUT = 30.0
"""Seconds that a single question to the cluster (an offset, a commit) may take."""


class KafkaSource:
    """One topic, read by a consumer group or, without a group, whole.

    With a `group` the partitions are those that the group gives to this member; they come and
    go during `poll` (see `set_rebalance`). Without one they are all partitions that the topic
    has when the source is opened, and `commit` does nothing.

    A partition that nobody has sought starts at the group's committed offset, else at its
    earliest event. A position that is gone raises `OffsetOutOfRange` and never moves by itself.

    Parameters
    ----------
    servers : tuple of str
        ``host:port`` of one broker or more.
    topic : str
    encoding : str
        How values are to be read: "json", "float32" or "csv".
    fields : tuple of str, optional
        Names of the values in one event, where the events carry none.
    group, group_instance_id : str, optional
        The consumer group, and the name of a static member in it (a static member that returns
        within `session_timeout` gets its partitions back without a rebalance).
    isolation_level : str
        "read_committed" (events of aborted transactions are not seen) or "read_uncommitted".
    session_timeout : float
        Seconds without a heartbeat after which the group gives up a member.
    connect_timeout : float
        Seconds to wait for the first answer of a broker.
    security : Security, optional
        Default: from the environment (``STREAMK_KAFKA_*``).

    Raises
    ------
    Unavailable
        No broker answers, or there is no such topic.
    BadURL
        An option has a value that cannot be used.

    Examples
    --------
    ::

        source = KafkaSource(("localhost:9092",), "clicks", group="model-7")
        chunks = source.poll(1000, timeout=0.5)
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        *,
        encoding: str = "json",
        fields: tuple[str, ...] | None = None,
        group: str | None = None,
        group_instance_id: str | None = None,
        isolation_level: str = "read_committed",
        session_timeout: float = 45.0,
        connect_timeout: float = 10.0,
        security: Security | None = None,
    ) -> None:
        _check_options(encoding, isolation_level, group, group_instance_id)
        self.encoding = encoding
        self.fields = fields
        self._topic = topic
        self._group = group
        self._cluster = Cluster(
            servers, Security.load() if security is None else security, connect_timeout
        )
        self._names: dict[Any, str] = {}
        self._held: frozenset[str] = frozenset()
        self._on_revoked: RevokedCallback | None = None
        self._on_assigned: AssignedCallback | None = None
        self._callback_error: BaseException | None = None
        self._lost = False
        self._closed = False
        kafka = self._cluster.kafka()
        self._topic_partition = kafka.TopicPartition
        self._consumer = self._cluster.connect(
            kafka.KafkaConsumer,
            **self._consumer_options(group, group_instance_id, isolation_level, session_timeout),
        )
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that this member owns now, by number."""
        return tuple(self._names[tp] for tp in sorted(self._names))

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """At most `max_events` new events, one chunk a partition, waiting up to `timeout` seconds.

        A record without a value (a tombstone) has the value None. Rebalances happen in here: the
        callbacks are called, and an error that they raise is raised here.

        Raises `OffsetOutOfRange` where the next position of a partition is gone.
        """
        self._callback_error = None
        try:
            with self._cluster.errors(f"reading {self._topic}"):
                records = self._poll(max_events, timeout)
        finally:
            # kafka-python wraps an error of a callback in its own; the caller wants the original.
            error, self._callback_error = self._callback_error, None
            if error is not None:
                raise error
        return [self._chunk(tp, records[tp]) for tp in sorted(records)]

    def seek(self, partition: str, offset: int) -> None:
        """The next event from `partition` is the first at or after `offset`.

        Raises `ConnectorError` for a partition that this member does not own. A position that is
        gone shows in the next `poll`.
        """
        self._consumer.seek(self._owned(partition), offset)

    def position(self, partition: str) -> int:
        """The next offset to read; `end` once every event up to there was polled.

        Not always the last event's offset plus one: transactions and compaction leave gaps, and
        a partition may end in one.
        """
        tp = self._owned(partition)
        with self._cluster.errors(f"asking for the position of {partition}"):
            position = self._consumer.position(tp, timeout_ms=1000 * _REQUEST_TIMEOUT)
        if position is None:
            raise ConnectorError(f"{partition}: Kafka did not tell the position in time")
        return int(position)

    def hold(self, partitions: Collection[str]) -> None:
        """Do not read these partitions until the next call, which names those to hold then.

        For a reader that is far ahead in some partitions: nothing is lost, and no more of them is
        kept in memory. A partition that comes in a rebalance is not held.
        """
        held = frozenset(partitions)
        self._consumer.pause(*(self._owned(name) for name in held - self._held))
        self._consumer.resume(
            *(tp for tp, name in self._names.items() if name in self._held - held)
        )
        self._held = held

    def start(self, partition: str) -> int:
        """The earliest offset that can still be read."""
        tp = self._known(partition)
        with self._cluster.errors(f"asking for the start of {partition}"):
            return int(self._consumer.beginning_offsets([tp], 1000 * _REQUEST_TIMEOUT)[tp])

    def end(self, partition: str) -> int:
        """One past the last offset that can be read now.

        Reading committed events only, that is the last stable offset: nothing at or after the
        first open transaction. It counts the gaps too; compare it with `position`.
        """
        tp = self._known(partition)
        with self._cluster.errors(f"asking for the end of {partition}"):
            return int(self._consumer.end_offsets([tp], 1000 * _REQUEST_TIMEOUT)[tp])

    def lag(self) -> int | None:
        """Offsets not polled yet, as of the last fetches; None before every partition had one."""
        total = 0
        with self._cluster.errors("asking for the lag"):
            for tp in self._names:
                highwater = self._consumer.highwater(tp)
                position = self._consumer.position(tp, timeout_ms=0)
                if highwater is None or position is None:
                    return None
                total += max(0, highwater - position)
        return total

    def committed(self, partition: str) -> tuple[int, str] | None:
        """Offset and metadata that the group has committed; None without any, or without group."""
        if self._group is None:
            return None
        tp = self._known(partition)
        with self._cluster.errors(f"asking for the committed offset of {partition}"):
            found = self._consumer.committed(tp, metadata=True, timeout_ms=1000 * _REQUEST_TIMEOUT)
        return None if found is None or found.offset < 0 else (found.offset, found.metadata)

    def commit(self, offsets: Mapping[str, int], metadata: str) -> None:
        """Commit the next offset of each partition to the group, all with the same metadata.

        Returns when the group has it. Without a group nothing is committed.

        Raises `Revoked` where this member has lost the partitions (what it read after its last
        commit will be read again by their new owner).
        """
        if self._group is None or not offsets:
            return
        if self._lost:
            raise Revoked(f"group {self._group} has given {', '.join(offsets)} to another member")
        from kafka.structs import OffsetAndMetadata

        # -1: the leader epoch of the event before the offset is not kept.
        wanted = {
            self._owned(name): OffsetAndMetadata(offset, metadata, -1)
            for name, offset in offsets.items()
        }
        with self._cluster.errors(f"committing to group {self._group}"):
            self._consumer.commit(wanted, timeout_ms=1000 * _REQUEST_TIMEOUT)

    def finished(self) -> bool:
        """False: a topic has no last event."""
        return False

    def set_rebalance(self, on_revoked: RevokedCallback, on_assigned: AssignedCallback) -> None:
        """Be told, during `poll`, which partitions go (before they do) and which have come.

        Every rebalance first revokes all partitions of this member, then assigns all that it has
        next; most come back. In `on_revoked` they are still owned and offsets can be committed
        (unless the group has already given them away: then `commit` raises `Revoked`). In
        `on_assigned` they can be sought. The callbacks run in another thread while `poll` waits
        for them; they must not call `poll`.
        """
        self._on_revoked = on_revoked
        self._on_assigned = on_assigned

    def close(self) -> None:
        """Leave the group and let go of the connections; commits nothing. May be called twice.

        `on_revoked` is not called.
        """
        self._closed = True
        with self._cluster.errors("closing"):
            self._consumer.close(autocommit=False, timeout_ms=5000)

    def __repr__(self) -> str:
        group = f", group={self._group!r}" if self._group else ""
        return f"KafkaSource({','.join(self._cluster.servers)!r}, {self._topic!r}{group})"

    def _consumer_options(
        self,
        group: str | None,
        group_instance_id: str | None,
        isolation_level: str,
        session_timeout: float,
    ) -> dict[str, Any]:
        options: dict[str, Any] = {
            "group_id": group,
            "group_instance_id": group_instance_id,
            "isolation_level": isolation_level,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "fetch_max_bytes": FETCH_MAX_BYTES,
            "max_partition_fetch_bytes": PARTITION_FETCH_BYTES,
        }
        if group is not None:
            from kafka.coordinator.assignors.sticky.sticky_assignor import (
                StickyPartitionAssignor,
            )

            options["partition_assignment_strategy"] = [StickyPartitionAssignor]
            options["session_timeout_ms"] = int(1000 * session_timeout)
            options["heartbeat_interval_ms"] = int(1000 * min(3.0, session_timeout / 3))
        return options

    def _open(self) -> None:
        """Find the topic; take its partitions, or join the group."""
        with self._cluster.errors(f"looking for topic {self._topic}"):
            numbers = self._consumer.partitions_for_topic(self._topic)
            if not numbers:
                raise self._cluster.no_topic(self._topic, self._consumer.topics())
            if self._group is not None:
                self._consumer.subscribe([self._topic], listener=_listener(self))
                return
            every = [self._topic_partition(self._topic, number) for number in sorted(numbers)]
            self._consumer.assign(every)
            self._consumer.seek_to_beginning(*every)
        self._names = {tp: partition_name(*tp) for tp in every}

    def _poll(self, max_events: int, timeout: float) -> dict[Any, list[Any]]:
        from kafka import errors

        self._free_slot()
        try:
            polled = self._wait(max_events, timeout)
        except errors.OffsetOutOfRangeError as error:
            [(tp, wanted), *_] = error.args[0].items()
            raise self._out_of_range(tp, wanted) from None
        except errors.LogTruncationError as error:
            # An unclean election took records away that were already read.
            tp = next(iter(error.divergent_offsets))
            wanted = self._consumer.position(tp, timeout_ms=0)
            raise self._out_of_range(tp, wanted) from None
        return {tp: records for tp, records in polled.items() if tp in self._names and records}

    def _wait(self, max_events: int, timeout: float) -> dict[Any, list[Any]]:
        """Poll in naps: kafka-python can miss records that come as it begins to wait for some."""
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            self._keep_join()
            polled: dict[Any, list[Any]] = self._consumer.poll(
                timeout_ms=1000 * min(left, _NAP), max_records=max_events
            )
            if polled or left <= _NAP:
                return polled

    def _free_slot(self) -> None:
        """Let partitions that are held no more be read again.

        kafka-python parks what it has parsed of a paused partition and takes it back only when
        the slot for the partition being read is None. Since 3.0 (3.0.12 still) a partition that
        was read up stays in the slot, so that a resumed one would never be read again.
        """
        with contextlib.suppress(AttributeError):
            fetcher = self._consumer._fetcher
            if not fetcher._next_partition_records:
                fetcher._next_partition_records = None

    def _keep_join(self) -> None:
        """Let the next poll end a join that the last one had no time to wait for.

        kafka-python (3.0.12 still) takes a join that was answered between two polls for one that
        was dealt with and joins again, which makes all members rebalance: two that are busy
        between their polls may go on like that for ever. And the leader of a group that joined
        because the topic's partitions were news to it forgets, once it has divided them, that it
        still waits for the answer: it then neither owns partitions nor joins again.
        """
        with contextlib.suppress(AttributeError):
            coordinator = self._consumer._coordinator
            task = coordinator._join_task
            if task is None:
                return
            coordinator.request_rejoin()
            if not isinstance(task, _Unread):
                coordinator._join_task = _Unread(task)

    def _out_of_range(self, tp: Any, wanted: int) -> ConnectorError:
        name = partition_name(*tp)
        try:
            return out_of_range(name, wanted, self.start(name), self.end(name))
        except ConnectorError:
            return out_of_range(name, wanted, None, None)

    def _chunk(self, tp: Any, records: list[Any]) -> Chunk:
        n = len(records)
        keys = [record.key for record in records]
        return Chunk(
            partition=self._names[tp],
            offsets=np.fromiter((record.offset for record in records), np.int64, n),
            timestamps=np.fromiter((record.timestamp for record in records), np.int64, n),
            values=[record.value for record in records],
            keys=None if keys.count(None) == n else keys,
        )

    def _known(self, partition: str) -> Any:
        """The TopicPartition of any partition of the topic, owned or not."""
        parts = split_partition(partition)
        if parts is None or parts[0] != self._topic:
            raise ConnectorError(
                f"{partition!r} is not a partition of topic {self._topic!r}; they are named "
                f"{partition_name(self._topic, 0)!r} and so on"
            )
        return self._topic_partition(*parts)

    def _owned(self, partition: str) -> Any:
        tp = self._known(partition)
        if tp not in self._names:
            raise Revoked(
                f"{partition} does not belong to this reader (it has: "
                f"{', '.join(self.partitions()) or 'none'})"
            )
        return tp

    def _revoke(self, partitions: Collection[Any], *, lost: bool) -> None:
        """Tell the reader that partitions go; afterwards they are not owned any more."""
        self._lost = lost
        try:
            if self._on_revoked is not None and self._names:
                self._on_revoked(self.partitions())
        finally:
            self._names = {tp: n for tp, n in self._names.items() if tp not in partitions}
            self._lost = False

    def _assign(self, partitions: Collection[Any]) -> None:
        """Put what has come where the group left it, then tell the reader, who may seek."""
        self._names = {tp: partition_name(*tp) for tp in sorted(partitions)}
        self._held = frozenset()
        self._consumer.resume(*self._names)
        for tp, name in self._names.items():
            committed = self.committed(name)
            if committed is None:
                self._consumer.seek_to_beginning(tp)
            else:
                self._consumer.seek(tp, committed[0])
        if self._on_assigned is not None:
            self._on_assigned(self.partitions())


class _Unread:
    """A future of kafka-python's of which nobody has had the result, so that it counts as open."""

    is_done = False

    def __init__(self, future: Any) -> None:
        self.add_callback = future.add_callback
        self.add_errback = future.add_errback


def _listener(source: KafkaSource) -> Any:
    """A kafka-python listener that runs the source's callbacks beside the client's event loop.

    kafka-python calls listeners in its own I/O thread, where a commit would wait for itself.
    Here they run in a thread of their own while the I/O thread goes on serving it.
    """
    from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
    from kafka.future import Future

    async def beside(callback: Callable[[], None]) -> None:
        if source._closed:
            return
        done = Future()
        # The only thread-safe way to wake the loop; every release of kafka-python 3 has it.
        wake = source._consumer._net.call_soon_threadsafe

        def run() -> None:
            try:
                callback()
            except BaseException as error:
                source._callback_error = error
            wake(lambda: done.success(None))

        threading.Thread(target=run, name="streamk-rebalance", daemon=True).start()
        await done

    class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            await beside(lambda: source._revoke(revoked, lost=False))

        async def on_partitions_lost(self, lost: set[Any]) -> None:
            await beside(lambda: source._revoke(lost, lost=True))

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            await beside(lambda: source._assign(assigned))

    return Listener()


def _check_options(
    encoding: str, isolation_level: str, group: str | None, group_instance_id: str | None
) -> None:
    if encoding not in ("json", "float32", "csv"):
        raise BadURL(f"kafka: encoding {encoding!r} must be json, float32 or csv")
    if isolation_level not in ("read_committed", "read_uncommitted"):
        raise BadURL(
            f"kafka: isolation_level {isolation_level!r} must be read_committed or read_uncommitted"
        )
    if group_instance_id is not None and group is None:
        raise BadURL("kafka: group_instance_id names a member of a group: give group too")
