"""A Kafka topic to which events are added, for a job that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from connectors.errors import BadRecord
from connectors.kafka.client import TooLarge, errors
from connectors.kafka.destination import Connection, Destination

__all__ = ["TopicLog"]


class TopicLog:
    """An `EventLog` that is a topic, one event a record without a key.

    Parameters
    ----------
    servers, topic, delivery_timeout
        See `connectors.kafka.destination.Destination`.
    **connection
        See `connectors.kafka.destination.Connection`.

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
        delivery_timeout: float = 10.0,
        **connection: Unpack[Connection],
    ) -> None:
        self._to = Destination(servers, topic, delivery_timeout, **connection)

    def append(self, events: Sequence[bytes]) -> None:
        """Add events; every in-sync replica has them when it returns.

        Raises
        ------
        BadRecord
            If one is too large; those before it are added.
        ConnectorError
            If the brokers do not take them in time; they may have taken some.
        """
        to = self._to
        with errors(to.client, to.cluster, f"writing to {to.topic}"):
            try:
                for event in events:
                    to.writer.send(event, None, [])
            except TooLarge as error:
                raise BadRecord(f"an event is too large for Kafka: {error}") from None
            finally:
                to.writer.flush()
        count, first = to.writer.failures()
        if first is not None:
            raise to.cluster.not_taken(count, "events", to.topic, first)

    def close(self) -> None:
        """Close the connections."""
        self._to.writer.close()
