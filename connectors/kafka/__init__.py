"""Apache Kafka: topics to read events from and to write outputs to.

Addresses are ``kafka://HOST:PORT[,HOST:PORT]/TOPIC?option=value``; partitions are named
``topic:number``. Credentials come from a file or the environment (see `Security`), never from the
address.
"""

from __future__ import annotations

from connectors.base import URL, Connector
from connectors.kafka.cluster import Cluster
from connectors.kafka.security import Security
from connectors.kafka.sink import Connection, KafkaSink, TopicLog
from connectors.kafka.source import KafkaSource

__all__ = ["CONNECTOR", "KafkaSink", "KafkaSource", "Security"]


def open_source(
    url: URL,
    *,
    encoding: str = "json",
    fields: tuple[str, ...] = (),
    schemas: str = "",
    reader_schema: int | None = None,
    envelope: str = "",
    group: str = "",
    group_instance_id: str = "",
    group_protocol: str = "classic",
    start: str = "earliest",
    isolation_level: str = "read_committed",
    session_timeout: float = 0.0,
    connect_timeout: float = 10.0,
    security_file: str = "",
    client: str = "",
) -> KafkaSource:
    """Open ``kafka://HOST:PORT/TOPIC`` for reading; the options are those of `KafkaSource`."""
    return KafkaSource(
        *Cluster.parse(url),
        encoding=encoding,
        fields=fields or None,
        schemas=schemas or None,
        reader_schema=reader_schema,
        envelope=envelope,
        group=group or None,
        group_instance_id=group_instance_id or None,
        group_protocol=group_protocol,
        start=start,
        isolation_level=isolation_level,
        session_timeout=session_timeout or None,
        **_connection(connect_timeout, security_file, client),
    )


def open_sink(
    url: URL,
    *,
    encoding: str = "json",
    schemas: str = "",
    connect_timeout: float = 10.0,
    delivery_timeout: float = 120.0,
    security_file: str = "",
    client: str = "",
) -> KafkaSink:
    """Open ``kafka://HOST:PORT/TOPIC`` for writing; the options are those of `KafkaSink`."""
    return KafkaSink(
        *Cluster.parse(url),
        encoding=encoding,
        schemas=schemas or None,
        delivery_timeout=delivery_timeout,
        **_connection(connect_timeout, security_file, client),
    )


def open_log(
    url: URL,
    *,
    connect_timeout: float = 10.0,
    delivery_timeout: float = 10.0,
    security_file: str = "",
    client: str = "",
) -> TopicLog:
    """Open ``kafka://HOST:PORT/TOPIC`` to add events; the options are those of `TopicLog`."""
    return TopicLog(
        *Cluster.parse(url),
        delivery_timeout=delivery_timeout,
        **_connection(connect_timeout, security_file, client),
    )


def _connection(connect_timeout: float, security_file: str, client: str) -> Connection:
    """Return the options of an address about how Kafka is reached."""
    return {
        "connect_timeout": connect_timeout,
        "security": Security.load(security_file or None),
        "client": client or None,
    }


CONNECTOR = Connector(source=open_source, sink=open_sink, log=open_log)
