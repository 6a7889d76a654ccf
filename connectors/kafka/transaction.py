"""One transaction of Kafka for several sinks and the offsets of a group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from connectors.errors import BadURL, ConnectorError
from connectors.kafka.client import Client, Producer, Transacting
from connectors.kafka.cluster import Cluster
from connectors.kafka.tail import parse_mark

__all__ = ["Link", "Member", "Transaction", "transactional_id"]

_LONGEST = 900.0
"""Seconds of a transaction that brokers admit by default."""


def transactional_id(writer: str) -> str:
    """Return the identifier of the producer of a writer and those that share its transactions.

    >>> transactional_id("0123456789ab")
    'streamk-0123456789ab'
    """
    return f"streamk-{writer}"


class Link(NamedTuple):
    """A client, a cluster, and the identifier that the cluster gives itself."""

    client: Client
    cluster: Cluster
    identity: str | None


class Member(Protocol):
    """A source or sink that takes part."""

    def link(self) -> Link:
        """Return how it reaches Kafka."""

    def join(self, transaction: Transaction) -> None:
        """Take part from here on."""


class WritingMember(Member, Protocol):
    """A sink that takes part."""

    writer: str

    def write_by(self, producer: Producer) -> None:
        """Write by this producer from here on."""


class Transaction:
    """What several sinks write becomes visible at once, with the offsets of a group if any.

    Without a group it is committed by the mark of any of the sinks, which comes before a
    checkpoint: what a process that dies between the two has written stands behind the mark of the
    checkpoint that the next one goes on from, and is not written again. With a group it is
    committed by `commit`, with the offsets, after the checkpoint, which counts only if the group
    has them.

    The transactional identifier is that of the writer of the first sink, which its marks keep.
    Whoever begins with it ends what others have left open, and fences them.

    Parameters
    ----------
    sinks : sequence of WritingMember
        The first one gives its name.
    source : Member, optional
        The source whose group's offsets are in it.
    seconds : float
        Time in which a transaction is committed; brokers give it three times that and 30 s.
    delivery_timeout : float
        Seconds in which the brokers must have taken a commit.

    Raises
    ------
    BadURL
        If the members are of several clusters or clients.
    """

    def __init__(
        self,
        sinks: Sequence[WritingMember],
        source: Member | None,
        *,
        seconds: float,
        delivery_timeout: float,
    ) -> None:
        self.with_offsets = source is not None
        """Whether it is committed with the offsets of a group."""
        self._sinks = sinks
        self._timeout = min(_LONGEST, 30 + 3 * seconds)
        self._delivery_timeout = delivery_timeout
        self._producer: Producer | None = None
        self._writer = ""
        self.is_open = False
        """Whether something is in it; also where it is not known what became of it."""
        members: list[Member] = [*sinks, *(() if source is None else (source,))]
        first = members[0].link()
        self._client, self._cluster = first.client, first.cluster
        for member in members[1:]:
            link = member.link()
            if type(link.client) is not type(first.client) or link.identity != first.identity:
                raise BadURL(
                    "a transaction is of one cluster and one client; predictions, dead letters and"
                    f" the events of a group are at {','.join(first.cluster.servers)} and"
                    f" {','.join(link.cluster.servers)}, by {type(first.client).__name__} and"
                    f" {type(link.client).__name__}"
                )
        for member in members:
            member.join(self)

    def begin(self) -> None:
        """Begin, unless it has begun."""
        if self.is_open:
            return
        if self._producer is None or self._writer != self._sinks[0].writer:
            self._begin_as(self._sinks[0].writer)
        assert self._producer is not None
        with self.errors("beginning a transaction"):
            self._producer.begin()
        self.is_open = True

    def commit(self, offsets: Any = None) -> None:
        """Commit what is in it, with offsets of a group as `Reader.for_transaction` gives them.

        Where that fails it is not known whether it was committed; `settle` comes to an end.
        """
        if offsets is None and not self.is_open:
            return
        self.begin()
        assert self._producer is not None
        with self.errors("committing a transaction"):
            if offsets is not None:
                self._producer.add_offsets(*offsets)
            self._producer.commit()
        self.is_open = False

    def settle(self, mark: Any) -> None:
        """Have an end of what was begun by this process, or by that which took a mark.

        The mark is one of the first sink. Afterwards that was committed or aborted, and that
        process, if it lives, can commit nothing any more.
        """
        if mark is not None:
            self._begin_as(parse_mark(mark)[0])

    def _begin_as(self, writer: str) -> None:
        """Have a producer with the name of a writer and nothing in its transaction."""
        if self._producer is not None and self._writer == writer and not self.is_open:
            return
        self.close()
        wanted = Transacting(transactional_id(writer), self._timeout, self._delivery_timeout)
        with self.errors(f"beginning with the transactional identifier {wanted.name}"):
            self._producer = self._client.producer(self._cluster, wanted)
        self._writer = writer
        for sink in self._sinks:
            sink.write_by(self._producer)

    def drop(self) -> None:
        """Abort what is in it."""
        if self.is_open:
            self._begin_as(self._writer)

    def close(self) -> None:
        """Abort what is in it and let go of the connections. May be called twice."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # What is not aborted here is aborted when the next one begins, or by the brokers.
            with contextlib.suppress(self._client.error):
                if self.is_open:
                    producer.abort()
            producer.close()
        self.is_open = False

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turn the errors of the client's library into `ConnectorError`."""
        try:
            yield
        except self._client.error as error:
            raise self.explain(error, doing) from None

    def explain(self, error: Exception, doing: str) -> ConnectorError:
        """The error for what a client's library raised."""
        if not self._client.is_fenced(error):
            return self._cluster.explain(self._client.fault(error), error, doing)
        return ConnectorError(
            f"{doing}: another process writes with the transactional identifier"
            f" {transactional_id(self._writer)}, or the transaction was open for longer than"
            f" {self._timeout:g} s ({type(error).__name__}: {error}). Nothing of it is visible;"
            " a run that is started again goes on from the last checkpoint"
        )
