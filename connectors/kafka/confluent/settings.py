"""Settings of a consumer of confluent-kafka, and which of its brokers are connected."""

from __future__ import annotations

from typing import Any

import msgspec

from connectors.kafka.client import (
    FETCH_MAX_BYTES,
    PARTITION_FETCH_BYTES,
    Reading,
)

__all__ = ["Links", "consumer_settings"]


def consumer_settings(reading: Reading) -> dict[str, Any]:
    """Return the settings of a Consumer."""
    settings: dict[str, Any] = {
        # Without a group a name is needed all the same; nothing is ever said to it.
        "group.id": reading.group or "streamk-without-group",
        "isolation.level": reading.isolation_level,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        # Partitions that a topic gets are taken up by a group within seconds, not five minutes.
        "topic.metadata.refresh.interval.ms": 5000,
        "fetch.max.bytes": FETCH_MAX_BYTES,
        "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
        # What was read ahead of a held partition is read again: not too much of it.
        "queued.min.messages": 20_000,
        "queued.max.messages.kbytes": FETCH_MAX_BYTES >> 10,
        # Questions to a broker wait behind the fetch that waits for records there.
        "fetch.wait.max.ms": 100,
        # A full queue is looked at again soon, not after a second.
        "fetch.queue.backoff.ms": 10,
    }
    if not reading.polled:
        settings["statistics.interval.ms"] = 0  # nobody would take them, and they would pile up
    if reading.group_protocol == "consumer":
        settings["group.protocol"] = "consumer"
    elif reading.group is not None:
        timeout = reading.session_timeout
        # Of the ways to divide partitions librdkafka has none that is sticky and revokes all
        # partitions first, which is what a source promises.
        settings["partition.assignment.strategy"] = "range"
        settings["session.timeout.ms"] = int(1000 * timeout)
        settings["heartbeat.interval.ms"] = int(1000 * min(3.0, timeout / 3))
        if reading.group_instance_id is not None:
            settings["group.instance.id"] = reading.group_instance_id
    return settings


class _Broker(msgspec.Struct):
    state: str


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker]


class Links:
    """The connections of a client, as librdkafka's statistics tell of them once a second."""

    def __init__(self) -> None:
        self._up = True

    def note(self, statistics: str) -> None:
        """Read the statistics."""
        found = msgspec.json.decode(statistics, type=_Statistics).brokers.values()
        self._up = any(broker.state == "UP" for broker in found)

    def connected(self) -> bool:
        """Return whether some broker was connected when the last statistics were made."""
        return self._up
