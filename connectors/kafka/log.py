"""A Kafka topic to which events are added, for a job that reads it."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.errors import BadRecord
from connectors.kafka.client import TooLarge, Writer, Writing, choose, errors
from connectors.kafka.cluster import Cluster
from connectors.kafka.security import Security

__all__ = ["TopicLog"]


class TopicLog:
    """An `EventLog` that is a topic, one event a record without a key.

    Parameters
    ----------
    servers : tuple of str
        ``host:port`` of one broker or more.
    topic : str
        Where the broker creates topics by itself, it need not exist.
    connect_timeout : float
        Seconds to wait for the first answer of a broker.
    delivery_timeout : float
        Seconds in which the brokers must have taken an event, retries included.
    security : Security, optional
        Default: from the environment (``STREAMK_KAFKA_*``).
    client : str, optional
        See `connectors.kafka.KafkaSink`.

    Raises
    ------
    Unavailable
        No broker answers, there is no such topic, or the client is not installed.
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        topic: str,
        *,
        connect_timeout: float = 10.0,
        delivery_timeout: float = 10.0,
        security: Security | None = None,
        client: str | None = None,
    ) -> None:
        self._topic = topic
        security = Security.load() if security is None else security
        self._cluster = Cluster(servers, security, connect_timeout)
        self._client = choose(client)
        self._writer: Writer = self._client.writer(self._cluster, Writing(topic, delivery_timeout))
        try:
            with errors(self._client, self._cluster, f"looking for topic {topic}"):
                if not self._writer.find():
                    raise self._cluster.no_topic(topic, set())
        except BaseException:
            self._writer.close()
            raise

    def append(self, events: Sequence[bytes]) -> None:
        """Add events; every in-sync replica has them when it returns.

        Raises
        ------
        BadRecord
            If one is too large; those before it are added.
        ConnectorError
            If the brokers do not take them in time; they may have taken some.
        """
        with errors(self._client, self._cluster, f"writing to {self._topic}"):
            try:
                for event in events:
                    self._writer.send(event, None, [])
            except TooLarge as error:
                raise BadRecord(f"an event is too large for Kafka: {error}") from None
            finally:
                self._writer.flush()
        count, first = self._writer.failures()
        if first is not None:
            raise self._cluster.not_taken(count, "events", self._topic, first)

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()
