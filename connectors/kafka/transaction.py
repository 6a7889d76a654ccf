"""One transaction of Kafka for several sinks and the offsets of a group."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from connectors.errors import Aborted, BadURL, ConnectorError, Unavailable
from connectors.kafka.client import Link, Producer, Transacting
from connectors.kafka.cluster import Fault

_MARGIN = 30.0
"""Seconds that a transaction may take beyond the time in which it must be committed and that in
which brokers that were away must have taken its outputs."""
_LONGEST = 900.0
"""Seconds of a transaction that brokers admit by default."""
_SURE = 1.0
"""Seconds after which a commit may have been asked for twice."""


def transactional_id(name: str) -> str:
    """Return the transactional identifier for a name of `Transaction.begin_as`."""
    return f"streamk-{name}"


class _Member(Protocol):
    """A `KafkaSource` or a `KafkaSink`, which say what this does."""

    link: Link

    def cluster_id(self) -> str | None: ...
    def join(self, transaction: Transaction) -> None: ...


class _Sink(_Member, Protocol):
    def write_by(self, producer: Producer) -> None: ...
    def flush(self) -> None: ...
    def find_ends(self) -> None: ...
    def committed(self) -> None: ...
    def is_alone(self) -> bool: ...


class Transaction:
    """Outputs of several sinks become visible at once, with the offsets of a group if any.

    Without a group, the mark of any of the sinks commits it, before the checkpoint. If the process
    dies between the two, its outputs are behind the mark of the older checkpoint, where the next
    process finds them and does not write them again. The ends of the topics are taken before the
    commit, which fails if another process has taken over: so no output of that one is before a
    mark. With a group, `commit` commits it with the offsets, after the checkpoint, which counts
    only if the group has them.

    A producer is used again only while commits are answered quickly and without an error. Kafka's
    protocol cannot tell a delayed commit request from one for the producer's next transaction,
    which it would end half-way (KAFKA-17754, and Jepsen's report on Bufstream 0.1.0); requests of
    an earlier producer are refused. A new producer fences a process that has taken the name
    meanwhile; whether that one has committed outputs is then looked up in the topics, or, with a
    group, told by the refusal of the offsets. Raises `BadURL` if the members are of several
    clusters, clients or users, or if a transaction may take longer than brokers admit by default.

    It has the offsets of the group of the source, if one is given, and must be committed within so
    many seconds; in `delivery_timeout` the brokers must have taken an output, and a commit.
    """

    def __init__(
        self,
        sinks: Sequence[_Sink],
        source: _Member | None,
        *,
        seconds: float,
        delivery_timeout: float,
    ) -> None:
        self.with_offsets = source is not None
        """It is committed with the offsets of a group."""
        self.is_open = False
        """Something is in it; also where it is not known what became of it."""
        self._in_doubt = False
        self._sinks = sinks
        self._delivery_timeout = delivery_timeout
        self._timeout = seconds + delivery_timeout + _MARGIN
        if self._timeout > _LONGEST:
            raise BadURL(
                f"kafka: with delivery_timeout={delivery_timeout:g} a transaction of {seconds:g} "
                f"s may take longer than the {_LONGEST:g} s that brokers allow; it must be at "
                f"most {_LONGEST - _MARGIN - seconds:g}"
            )
        self._producer: Producer | None = None
        self._name = ""
        self._fenced: str | None = None
        members: list[_Member] = [*sinks, *(() if source is None else (source,))]
        self._client, self._cluster = members[0].link
        first = members[0].cluster_id()
        for member in members[1:]:
            _check_same(members[0], first, member)
        for member in members:
            member.join(self)

    def begin_as(self, name: str) -> None:
        """Become the only writer of this name; see `connectors.base.Transactions`."""
        if self._producer is not None and self._name == name and not self.is_open:
            return
        self.close()
        self._name = name
        self._connect()

    def begin(self) -> None:
        """Begin, unless it has begun."""
        if self.is_open:
            return
        if self._producer is None:
            self._connect()
        assert self._producer is not None
        with self._errors("beginning a transaction"):
            self._producer.begin()
        self.is_open = True

    def commit(self, offsets: Any = None) -> None:
        """Commit its outputs, with offsets of a group as `Reader.for_transaction` gives them.

        If it fails, it is not known whether the transaction was committed; `begin_as` finds out.
        """
        if offsets is None and not self.is_open:
            return
        self.begin()
        assert self._producer is not None
        for sink in self._sinks:
            sink.flush()
        began = time.monotonic()
        with self._errors("committing a transaction"):
            if not self.with_offsets:
                for sink in self._sinks:
                    sink.find_ends()
            self._in_doubt = True
            if offsets is not None:
                self._producer.add_offsets(*offsets)
            self._producer.commit()
        self.is_open = self._in_doubt = False
        if not self.with_offsets:
            for sink in self._sinks:
                sink.committed()
        if time.monotonic() - began > _SURE:
            self._renew()

    def drop(self) -> None:
        """Abort it."""
        if self.is_open:
            self.begin_as(self._name)

    def close(self) -> None:
        """Abort it and close the connections. May be called twice."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # What is not aborted here is aborted when the next one begins, or by the brokers.
            with contextlib.suppress(self._client.error):
                if self.is_open and not self._in_doubt:
                    producer.abort()
            producer.close()
        self.is_open = self._in_doubt = False

    def explain(self, error: Exception, doing: str) -> ConnectorError:
        """Return the error for one of the client's library; `Aborted` where a retry is safe."""
        if not self._client.is_fenced(error):
            fault = self._client.fault(error)
            told = self._cluster.explain(fault, error, doing)
            return Aborted(str(told)) if fault in (Fault.SILENT, Fault.ABORTED) else told
        return self._replaced(
            f"{doing}: another process has begun with the transactional identifier "
            f"{transactional_id(self._name)}, perhaps from the same checkpoint, or the "
            f"transaction took longer than {self._timeout:g} s ({type(error).__name__}: {error}). "
            "Nothing of it is visible"
        )

    def _replaced(self, reason: str) -> ConnectorError:
        """Return the error that ends a process that another one has replaced."""
        self._fenced = f"{reason}; a run that is started again goes on from the last checkpoint"
        return ConnectorError(self._fenced)

    def _renew(self) -> None:
        """Take another producer; see the class."""
        self.close()
        if self.with_offsets:
            return
        self._connect()
        if not all(sink.is_alone() for sink in self._sinks):
            self.close()
            raise self._replaced(
                "after a commit that took long: another process had begun with the transactional"
                f" identifier {transactional_id(self._name)} and has committed outputs"
            )

    def _connect(self) -> None:
        """Make a producer of the name, which ends transactions begun under it."""
        if self._fenced is not None:  # the other one goes on
            raise ConnectorError(self._fenced)
        wanted = Transacting(transactional_id(self._name), self._timeout, self._delivery_timeout)
        with self._errors(f"beginning with the transactional identifier {wanted.name}"):
            self._producer = self._client.producer(self._cluster, wanted)
        for sink in self._sinks:
            sink.write_by(self._producer)

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self._client.error as error:
            raise self.explain(error, doing) from None
        except Unavailable as error:
            raise Aborted(str(error)) from None


def _check_same(one: _Member, cluster_id: str | None, other: _Member) -> None:
    first, second = one.link, other.link
    for what, mine, others in (
        ("client", type(first.client).__name__, type(second.client).__name__),
        ("cluster", cluster_id, other.cluster_id()),
        ("set of credentials", first.cluster.security, second.cluster.security),
    ):
        if mine != others:
            raise BadURL(
                f"a transaction has one {what} for predictions, dead letters, alarms and the "
                f"offsets of a group, but those at {','.join(first.cluster.servers)} and "
                f"{','.join(second.cluster.servers)} differ. Give them the same, or leave "
                "transactions out"
            )
