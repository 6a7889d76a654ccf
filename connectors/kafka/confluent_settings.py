"""Settings of a consumer of confluent-kafka, and what it does not tell by itself."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from connectors.kafka.client import (
    FETCH_MAX_BYTES,
    PARTITION_FETCH_BYTES,
    Reading,
)
from connectors.kafka.cluster import Cluster

__all__ = ["LOGGER", "Links", "TopicIdentity", "consumer_settings"]

LOGGER = "confluent_kafka"
"""Name of the logger that librdkafka's messages go to."""

_PATIENCE = 2.0
"""Seconds that a broker has to tell a topic's identifier."""
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The identifier that brokers older than Kafka 2.8 tell."""


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
    if reading.group is not None:
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


class TopicIdentity:
    """The identifier of a topic, which librdkafka tells to an `AdminClient` alone.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._admin: AdminClient | None = None

    def ask(self) -> str | None:
        """Return it, "" where there is no such topic, None where no broker tells."""
        if self._admin is None:
            self._admin = self._connect()
        self._admin.poll(0)  # hands over what was logged
        asked = self._admin.describe_topics(
            TopicCollection([self._topic]), request_timeout=_PATIENCE
        )
        try:
            found = str(asked[self._topic].result().topic_id)
        except KafkaException as error:
            return "" if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None
        return found if found.rstrip("=") != _NONE else None

    def _connect(self) -> AdminClient:
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(self._cluster.servers),
            "client.id": "streamk",
            "reconnect.backoff.max.ms": 1000,
        }
        # Secrets in plain text stay out of every variable, which a traceback might show.
        return AdminClient(
            settings | self._cluster.security.librdkafka(), logger=logging.getLogger(LOGGER)
        )
