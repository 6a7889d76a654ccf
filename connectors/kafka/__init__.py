"""Apache Kafka: topics to read events from and to write outputs to.

Addresses are ``kafka://HOST:PORT[,HOST:PORT]/TOPIC?option=value``; partitions are named
``topic:number``. Credentials come from a file or the environment (see `Security`), never from the
address.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from connectors.base import URL, Connector
from connectors.kafka.cluster import Cluster
from connectors.kafka.security import Security
from connectors.kafka.sink import KafkaSink, TopicLog
from connectors.kafka.source import KafkaSource

__all__ = ["CONNECTOR", "KafkaSink", "KafkaSource", "Security"]


def _by_address(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return what opens an address: its options are those of a class, credentials in a file."""
    every = inspect.signature(kind, eval_str=True).parameters.values()
    known = [one for one in every if one.kind is one.KEYWORD_ONLY and one.name != "security"]

    def opened(url: URL, *, security_file: str = "", **options: Any) -> Any:
        for one in known:
            if one.default is None and one.name in options:
                options[one.name] = options[one.name] or None
        security = Security.load(security_file or None)
        return kind(*Cluster.parse(url), security=security, **options)

    own = list(inspect.signature(opened, eval_str=True).parameters.values())
    shown = inspect.Signature([*own[:-1], *known])
    opened.__signature__ = shown  # type: ignore[attr-defined]
    return opened


CONNECTOR = Connector(
    source=_by_address(KafkaSource), sink=_by_address(KafkaSink), log=_by_address(TopicLog)
)
