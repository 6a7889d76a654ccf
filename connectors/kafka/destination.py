"""A topic that is written to: the way there, by which sinks and logs write."""

from __future__ import annotations

from typing import TypedDict

from connectors.kafka.client import Writer, Writing, choose, errors
from connectors.kafka.cluster import Cluster
from connectors.kafka.security import Security

__all__ = ["Connection", "Destination"]


class Connection(TypedDict, total=False):
    """Options of how Kafka is reached.

    Attributes
    ----------
    connect_timeout : float, default 10.0
        Seconds to wait for the first answer of a broker.
    security : Security, optional
        Default: from the environment (``STREAMK_KAFKA_*``).
    client : str, optional
        "confluent" (librdkafka, from the extra ``confluent``) or "kafka-python". Default: the
        first of them that is installed.
    """

    connect_timeout: float
    security: Security | None
    client: str | None


class Destination:
    """A topic that is there, with a producer to it.

    Parameters
    ----------
    servers : tuple of str
        ``host:port`` of one broker or more.
    topic : str
        Where the broker creates topics by itself, it need not exist.
    delivery_timeout : float
        Seconds in which the brokers must have taken a record, retries included.
    connect_timeout, security, client
        See `Connection`.

    Attributes
    ----------
    topic : str
    cluster : Cluster
    client : Client
    writing : Writing
    writer : Writer

    Raises
    ------
    Unavailable
        No broker answers, there is no such topic, or the client is not installed.
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        delivery_timeout: float,
        *,
        connect_timeout: float = 10.0,
        security: Security | None = None,
        client: str | None = None,
    ) -> None:
        self.topic = topic
        self.cluster = Cluster(
            servers, Security.load() if security is None else security, connect_timeout
        )
        self.client = choose(client)
        self.writing = Writing(topic, delivery_timeout)
        self.writer: Writer = self.client.writer(self.cluster, self.writing)
        try:
            with errors(self.client, self.cluster, f"looking for topic {topic}"):
                if not self.writer.find():
                    raise self.cluster.no_topic(topic, set())
        except BaseException:
            self.writer.close()
            raise
