"""Addresses of Kafka clusters, names of partitions, and errors that say what to check."""

from __future__ import annotations

import enum
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from connectors.base import URL, Trouble
from connectors.errors import BadURL, ConnectorError, OffsetOutOfRange, Revoked, Unavailable
from connectors.kafka.security import Security, diagnose
from connectors.registry import near

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PARTITION = re.compile(rf"({_TOPIC.pattern}):(\d+)")


def partition_name(topic: str, number: int) -> str:
    """Name a partition in all of streamk: ``topic:number``.

    >>> partition_name("clicks", 3)
    'clicks:3'
    """
    return f"{topic}:{number}"


def split_partition(name: str) -> tuple[str, int] | None:
    """Undo `partition_name`; None for the partition of another kind of source.

    >>> split_partition("clicks:3"), split_partition("events.ndjson")
    (('clicks', 3), None)
    """
    found = _PARTITION.fullmatch(name)
    return (found[1], int(found[2])) if found else None


class Fault(enum.Enum):
    """The meaning of an error of a client's library to its user."""

    SILENT = "no answer in time"
    MOVED_ON = "the group has another generation"
    OTHER_ASSIGNOR = "the group divides its partitions in another way"
    METADATA = "the metadata of a commit is too large"
    ABORTED = "a transaction is not to be committed, and may be done again"
    CODEC = "records are compressed by what cannot be read here"
    OTHER = "all else"


@dataclass(frozen=True)
class Cluster:
    """A Kafka cluster and how to reach it."""

    servers: tuple[str, ...]
    """``host:port`` of one broker or more to ask first."""
    security: Security = field(default_factory=Security)
    connect_timeout: float = 10.0
    """Seconds to wait for the first answer."""

    @staticmethod
    def parse(url: URL) -> tuple[tuple[str, ...], str]:
        """Take servers and topic out of ``kafka://host:port,host:port/topic``.

        Raises `BadURL` naming the part that is wrong.
        """
        shape = "expected kafka://HOST:PORT/TOPIC"
        servers = tuple(server for server in url.host.split(",") if server)
        if not servers:
            raise BadURL(f"{url.text}: no host; {shape}")
        for server in servers:
            host, colon, port = server.rpartition(":")
            if colon and not (host and port.isdigit() and 0 < int(port) < 65536):
                raise BadURL(f"{url.text}: {server!r} is not HOST:PORT; {shape}")
        if not _TOPIC.fullmatch(url.path) or url.path in (".", ".."):
            raise BadURL(
                f"{url.text}: {url.path!r} is not a topic name (letters, digits, `.`, `_` and `-`, "
                f"at most 249); {shape}"
            )
        return tuple(s if ":" in s else f"{s}:9092" for s in servers), url.path

    def unanswered(self, complaint: str) -> Unavailable:
        """Return the error for brokers that did not answer; `complaint` is the client's message."""
        unreachable = self._unreachable()
        reason = unreachable or complaint or "no answer"
        login = "sasl_mechanism" in self.security.options
        if login and "authenticat" in reason.lower():
            user = self.security.options.get("sasl_plain_username")
            return Unavailable(
                f"Kafka at {','.join(self.servers)} refused to let {user or 'this program'} in"
                f" ({self.security.options['sasl_mechanism']}): {self.security.redact(reason)}."
                " Check that user name and password are right"
            )
        for server in self.servers if unreachable is None else ():
            trouble = diagnose(server, self.security)
            if trouble is not None:
                return Unavailable(self.security.redact(trouble))
        checks = (
            "the broker runs",
            "host and port are those of its listener",
            "the security options are those that the listener asks for",
            # A broker may refuse a password by closing the connection without a word.
            *(["user name and password are right"] if login else []),
        )
        return Unavailable(
            f"no Kafka broker answered at {','.join(self.servers)} in "
            f"{self.connect_timeout:g} s: {self.security.redact(reason)}. Check that "
            f"{', that '.join(checks)}"
        )

    def trouble(self, connected: bool) -> Trouble | None:
        """Tell that no broker can be reached, if a client is not `connected` to any.

        That alone is not a sign: connections that are not used are closed.
        """
        if connected or self._unreachable() is None:
            return None
        where = ",".join(self.servers)
        return Trouble(
            "broker gone",
            f"no Kafka broker answers at {where}; waiting until one is back",
            f"Kafka at {where} answers again",
        )

    def _unreachable(self) -> str | None:
        """Say why no server takes a TCP connection; None if one does."""
        reasons = []
        for server in self.servers:
            host, _, port = server.rpartition(":")
            try:
                with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
                    return None
            except OSError as error:
                reasons.append(f"{server}: {error.strerror or error}")
        return "; ".join(reasons)

    def explain(self, fault: Fault, error: Exception, doing: str) -> ConnectorError:
        """Return the error for an exception of a client's library, without credentials."""
        where = ",".join(self.servers)
        text = self.security.redact(f"{type(error).__name__}: {error}")
        if fault is Fault.SILENT:
            return Unavailable(
                f"Kafka at {where} did not answer while {doing}: {text}. Check that the brokers "
                "run and that the addresses they advertise (advertised.listeners) can be reached"
            )
        if fault is Fault.MOVED_ON:
            return Revoked(f"{doing}: the group has moved on without this member: {text}")
        if fault is Fault.OTHER_ASSIGNOR:
            return ConnectorError(
                f"{doing}: the members of the group have no partition assignor in common (those "
                f"of streamk all have `range`): {text}. Stop the others, or choose another group"
            )
        if fault is Fault.METADATA:
            return ConnectorError(
                f"{doing}: the metadata of the commit is larger than the broker admits "
                "(offset.metadata.max.bytes)"
            )
        if fault is Fault.CODEC:
            return Unavailable(
                f"{doing}: {text}. Install what reads compressed records: pip install"
                " 'streamk[kafka-codecs]', or 'streamk[confluent]' for client=confluent"
            )
        return ConnectorError(f"Kafka at {where}, {doing}: {text}")

    def not_taken(self, count: int, what: str, topic: str, first: Exception) -> ConnectorError:
        """The error for records that the brokers did not take, with the first reason."""
        reason = self.security.redact(f"{type(first).__name__}: {first}")
        return ConnectorError(
            f"Kafka did not take {count} {what} for topic {topic!r}; the first because of {reason}"
        )

    def no_topic(self, topic: str, topics: set[str]) -> Unavailable:
        """The error for a topic that is not there, with the nearest name that is."""
        hint = near(topic, sorted(topics))
        return Unavailable(
            f"there is no topic {topic!r} at {','.join(self.servers)}{hint}, or this user may not"
            " describe it"
        )


class Description(NamedTuple):
    """The answer of brokers about a topic."""

    identity: str | None
    """Another topic of its name does not have it; "" where there is no such topic, None where no
    broker tells."""
    numbers: Collection[int] = ()
    """Its partitions; none where no broker tells."""


_ABSENT = 5.0
"""Seconds that a topic may be unknown to the brokers, as to one that has just started."""


class TopicWatch:
    """Notices when a topic is deleted, created again under its name, or gets partitions.

    A client would go on at the same offset in the new topic, where other events are. It asks by
    `Reader.describe` of a reader of the topic.
    """

    def __init__(self, topic: str, ask: Callable[[], Description]) -> None:
        self._topic, self._ask = topic, ask
        self._asking = threading.Lock()
        self._first: str | None = None
        self.numbers: frozenset[int] = frozenset()
        """The partitions that were seen so far."""
        self._absent_since: float | None = None
        self._fault: str | None = None

    def identity(self) -> str | None:
        """Return the identifier that the topic had first; None while no broker tells."""
        with self._asking:
            if self._first is None:
                self._first = self._ask().identity or None
            return self._first

    def look(self) -> None:
        """Ask whether it is still the same topic, and for its partitions; in any thread."""
        first, (told, numbers) = self.identity(), self._ask()
        found = None if first is None else told
        if found != "":
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = time.monotonic()
        if found and found != first:
            self._fault = "was deleted and made anew"
        elif self._absent_since and time.monotonic() - self._absent_since >= _ABSENT:
            self._fault = "was deleted"
        else:
            self.numbers = self.numbers.union(numbers)

    def check(self) -> None:
        """Raise `ConnectorError` once another topic, or none, was seen."""
        if self._fault is not None:
            raise ConnectorError(
                f"the topic {self._topic!r} {self._fault} while it was read; its unread records "
                "are lost. To go on with a new topic of this name start again, and choose where: "
                "earliest or latest"
            )


class LastWarning(logging.Handler):
    """Keeps the last warning of a logger that is heard inside a `with` block.

    Clients log why they cannot connect, but raise a timeout.
    """

    def __init__(self, logger: str) -> None:
        super().__init__(logging.WARNING)
        self._logger = logging.getLogger(logger)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, unless the one kept says more."""
        text = record.getMessage()
        # The last attempt is cut short by the time limit and says only that; a refusal to
        # authenticate is the reason, whatever comes after it.
        vague = ("imed out", "Unable to bootstrap", "in the clear", "not ready", "brokers are down")
        if "uthentication" not in self.text and not any(word in text for word in vague):
            self.text = text

    def __enter__(self) -> Self:
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


def out_of_range(
    partition: str, wanted: int, start: int | None, end: int | None
) -> OffsetOutOfRange:
    """The error for a position that the partition does not hold."""
    there = "" if start is None or end is None else f"; it holds {start} up to {end}"
    return OffsetOutOfRange(
        f"{partition}: offset {wanted} is not there (any more){there}. Records are deleted after "
        "the topic's retention time; choose where to go on: fail, earliest or latest",
        partition=partition,
        offset=wanted,
    )
