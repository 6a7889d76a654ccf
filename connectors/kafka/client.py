"""The interface of Kafka clients to the source and the sink, and the choice of one.

A client reads one topic, so partitions are numbers here. What can be said without its library
(names, errors, chunks, ownership, callbacks) is in `connectors.kafka.source` and
`connectors.kafka.cluster`.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from importlib import metadata
from typing import Any, NamedTuple, Protocol, TypeVar

from connectors.errors import BadURL, ConnectorError, Unavailable
from connectors.kafka.cluster import Cluster, Description, Fault
from connectors.kafka.security import Security

_T = TypeVar("_T")

REQUEST_TIMEOUT = 30.0
"""Seconds that a single question to the cluster (an offset, a commit) may take."""

STABLE_TIMEOUT = 240.0
"""Seconds in which a group tells its offsets; those in an open transaction are waited for."""

ABORT_SECONDS = 5.0
"""Seconds that a transaction is given to be aborted; what is not, brokers abort in time."""

_REST = 0.1
"""Seconds between two questions to brokers that are away."""

# The cost of a poll per event halves when fetches are large; what a poll does not return stays
# in the client as bytes.
FETCH_MAX_BYTES = 64 << 20
PARTITION_FETCH_BYTES = 4 << 20

MAX_REQUEST_BYTES = 1 << 20
"""Largest output, Kafka's own default for a message; a topic may admit less."""
MAX_UNFLUSHED = 100_000
"""Outputs that a writer holds before it waits for the brokers to take some."""
BATCH_BYTES = 256 << 10
"""Largest batch of outputs for one partition."""


class Gone(Exception):
    """The next position of a partition does not exist (any more).

    `number` and `offset` are the partition, and the position in it that was asked for.
    """

    def __init__(self, number: int, offset: int) -> None:
        super().__init__(number, offset)
        self.number, self.offset = number, offset


class TooLarge(Exception):
    """A record that is larger than the client sends; it says how large it may be."""


Headers = Sequence[tuple[str, bytes | None]]
"""The headers of a record."""


class Records(NamedTuple):
    """Consecutive records of one partition, as columns of one length.

    `headers` is empty where the reading does not ask for them.
    """

    number: int
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers] = ()

    def first(self, count: int) -> Records:
        """The first so many of them."""
        return self._replace(
            offsets=self.offsets[:count],
            timestamps=self.timestamps[:count],
            keys=self.keys[:count],
            values=self.values[:count],
            headers=self.headers[:count],
        )


@dataclass(frozen=True)
class Reading:
    """Options for reading a topic: the fields of `KafkaSource`, and two more.

    `headers` tells whether records come with theirs, and `polled` whether `Reader.read` is called:
    a reader may be there for questions alone. Raises `BadURL` if options have no meaning, alone or
    together.
    """

    topic: str
    group: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    isolation_level: str = "read_committed"
    session_timeout: float | None = None
    headers: bool = False
    polled: bool = True

    @property
    def session(self) -> float:
        """The seconds of a session where the broker does not say."""
        return 45.0 if self.session_timeout is None else self.session_timeout

    def __post_init__(self) -> None:
        if self.isolation_level not in ("read_committed", "read_uncommitted"):
            raise BadURL(
                f"kafka: isolation_level {self.isolation_level!r} must be read_committed or"
                " read_uncommitted"
            )
        if self.group_protocol not in ("classic", "consumer"):
            raise BadURL(
                f"kafka: group_protocol {self.group_protocol!r} must be classic or consumer"
            )
        by_broker = self.group_protocol == "consumer"
        for name, given in (
            ("group_instance_id", self.group_instance_id is not None),
            ("group_protocol", by_broker),
        ):
            if given and self.group is None:
                raise BadURL(f"kafka: {name} is for members of a group; give group too")
        if by_broker and self.group_instance_id is not None:
            raise BadURL(
                "kafka: group_instance_id cannot be combined with group_protocol=consumer: "
                "brokers refuse a member that was killed under its name until its session is "
                "over; leave one of them out"
            )
        if by_broker and self.session_timeout is not None:
            raise BadURL(
                "kafka: session_timeout cannot be combined with group_protocol=consumer, where "
                "the broker sets it (group.consumer.session.timeout.ms); leave it out"
            )


@dataclass(frozen=True)
class Writing:
    """Options for writing to a topic: the fields of `KafkaSink`."""

    topic: str
    delivery_timeout: float


@dataclass(frozen=True)
class Transacting:
    """The options of a transactional producer."""

    name: str
    """The transactional identifier."""
    timeout: float
    """Seconds after which brokers abort a transaction."""
    delivery_timeout: float
    """Seconds in which the brokers must have taken an output, and a commit."""


class Listener(NamedTuple):
    """The listener of rebalances. None of these raises; they may call the reader.

    Partitions that are `revoked` go and can still be committed; those that are `lost` are gone;
    those `assigned` are all that there are now, none held: place each of them.
    """

    revoked: Callable[[Collection[int]], None]
    lost: Callable[[Collection[int]], None]
    assigned: Callable[[Collection[int]], None]


class Reader(Protocol):
    """A consumer of one topic. Every method may raise the errors of the client's library."""

    def numbers(self) -> Collection[int]:
        """The topic's partitions; empty if the topic does not exist."""

    def topics(self) -> set[str]:
        """All topics that can be seen."""

    def take(self, numbers: Collection[int]) -> None:
        """Read these partitions, too, from their start, without a group."""

    def join(self, listener: Listener) -> None:
        """Join the group; partitions come and go in `read`."""

    def read(self, max_events: int, timeout: float) -> list[Records]:
        """At most `max_events` records, waiting up to `timeout` seconds. Raises `Gone`."""

    def place(self, number: int, offset: int | None) -> None:
        """Go on at an offset, or at the earliest record."""

    def position(self, number: int) -> int:
        """The next offset to read."""

    def highwater(self, number: int) -> int | None:
        """The end of the partition as of the last fetch."""

    def hold(self, numbers: Collection[int]) -> None:
        """Do not read these of the partitions that are read."""

    def unhold(self, numbers: Collection[int]) -> None:
        """Read these again."""

    def start(self, number: int) -> int:
        """The earliest offset that can be read."""

    def ends(self, numbers: Collection[int]) -> Mapping[int, int]:
        """One past the last offset that can be read now, of each partition."""

    def at_time(self, number: int, time: int) -> int | None:
        """The offset of the first record of this time (ms since 1970) or later; None: no such."""

    def committed(self, number: int) -> tuple[int, str] | None:
        """Offset and metadata that the group has committed."""

    def commit(self, offsets: Mapping[int, tuple[int, str]]) -> None:
        """Commit offsets and their metadata, and return when the group has them."""

    def for_transaction(self, offsets: Mapping[int, tuple[int, str]]) -> tuple[Any, Any]:
        """Return what `Producer.add_offsets` takes for a commit of these."""

    def cluster_id(self) -> str | None:
        """Return the identifier that the cluster gives itself."""

    def connected(self) -> bool:
        """Return whether some broker is connected; may be asked in another thread."""

    def describe(self) -> Description:
        """Ask for the current state of the topic, also from another thread."""

    def close(self) -> None:
        """Leave the group, without a word to the listener. May be called twice."""


class Writer(Protocol):
    """A producer to one topic: idempotent, to every in-sync replica.

    Unless told otherwise, methods may raise the errors of the client's library.
    """

    def find(self) -> bool:
        """Return whether the topic exists; may create it where the broker does that by itself."""

    def send(self, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        """Hand over one record. Raises `TooLarge`."""

    def settle(self) -> None:
        """Collect delivery results, and wait while too many records are not delivered."""

    def flush(self) -> None:
        """Wait until everything was delivered or has failed."""

    def failures(self) -> tuple[int, Exception | None]:
        """Return the number of records that failed since the last call, and the first reason."""

    def connected(self) -> bool:
        """Return whether some broker is connected; may be asked in another thread."""

    def close(self) -> None:
        """Close the connections, in five seconds at most."""


class Producer(Protocol):
    """A transactional producer. Every method may raise the errors of the client's library."""

    def writer(self, writing: Writing) -> Writer:
        """A writer to a topic within its transactions, which need not be closed."""

    def begin(self) -> None:
        """Begin a transaction."""

    def add_offsets(self, offsets: Any, group: Any) -> None:
        """Add what `Reader.for_transaction` gave."""

    def commit(self) -> None:
        """Commit; where it raises it is not known whether it was committed."""

    def abort(self) -> None:
        """Abort."""

    def close(self) -> None:
        """Close the connections, in five seconds at most."""


class Client(Protocol):
    """A library that speaks to Kafka."""

    error: type[Exception]
    """Root of the errors that it raises."""

    def fault(self, error: Any) -> Fault:
        """Return the meaning of an `error`."""

    def reader(self, cluster: Cluster, reading: Reading) -> Reader:
        """A consumer that has reached the cluster. Raises `Unavailable`."""

    def writer(self, cluster: Cluster, writing: Writing) -> Writer:
        """A producer that has reached the cluster. Raises `Unavailable`."""

    def producer(self, cluster: Cluster, transacting: Transacting) -> Producer:
        """A transactional producer, the only one of its name from now on.

        When it returns, open transactions of an earlier one are ended. Raises `Unavailable`, and
        errors of the library.
        """

    def is_fenced(self, error: Any) -> bool:
        """Return whether an error means that a transactional producer is fenced.

        Another one has taken its name, or its transaction took too long.
        """


class Link(NamedTuple):
    """A cluster, reached by the library of a client."""

    client: Client
    cluster: Cluster

    @classmethod
    def to(
        cls,
        servers: tuple[str, ...],
        security: Security | None,
        connect_timeout: float,
        client: str | None,
    ) -> Link:
        """Return the link by options of `KafkaSource`. Raises `BadURL` and `Unavailable`."""
        security = Security.load() if security is None else security
        return cls(choose(client), Cluster(servers, security, connect_timeout))

    def explain(self, error: Exception, doing: str) -> ConnectorError:
        """Return the error for one of the library."""
        return self.cluster.explain(self.client.fault(error), error, doing)

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turn the errors of the library into `ConnectorError`."""
        try:
            yield
        except self.client.error as error:
            raise self.explain(error, doing) from None

    def writer(self, writing: Writing) -> Writer:
        """Return a producer to a topic that is there. Raises `Unavailable`."""
        writer = self.client.writer(self.cluster, writing)
        try:
            with self.errors(f"looking for topic {writing.topic}"):
                if not writer.find():
                    raise self.cluster.no_topic(writing.topic, set())
        except BaseException:
            writer.close()
            raise
        return writer


class Failures:
    """The number of records that a producer failed to deliver, and the first reason."""

    def __init__(self) -> None:
        self._count = 0
        self._reason: Exception | None = None

    def add(self, reason: Exception) -> None:
        """Count a record that failed."""
        self._count += 1
        self._reason = self._reason or reason

    def take(self) -> tuple[int, Exception | None]:
        """Return those since the last call."""
        found = self._count, self._reason
        self._count, self._reason = 0, None
        return found


def persist(
    question: Callable[[float], _T],
    error: type[Exception],
    away: Callable[[Any], bool],
    patience: float = REQUEST_TIMEOUT,
) -> _T:
    """Return the answer to a question, asked again while an `error` means that brokers are away.

    It is called with the seconds that are left of the `patience` for all its tries.

    Clients ask again by themselves, but not in every moment of a broker's restart: each was seen to
    give up at once where it had just lost the group's coordinator.

    >>> answers = iter(["", "", "7"])
    >>> persist(lambda left: int(next(answers)), ValueError, lambda error: True)
    7
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return question(max(_REST, deadline - time.monotonic()))
        except error as found:
            if not away(found) or time.monotonic() + _REST > deadline:
                raise
            time.sleep(_REST)


def answered(request: Callable[[], object], seconds: float) -> bool:
    """Make a request, and return whether it was answered in so many seconds; raise its error.

    It is made in a thread of its own: clients were seen to wait without an end, whatever time they
    are given, for a coordinator that was away.

    >>> answered(lambda: None, 1.0), answered(lambda: time.sleep(1.0), 0.01)
    (True, False)
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            request()
        except Exception as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    threading.Thread(target=run, name="streamk-transaction", daemon=True).start()
    is_done = bool(wait([outcome], seconds).done)
    if is_done:
        outcome.result()
    return is_done


CLIENTS = ("confluent", "kafka-python")
"""Names of clients, the one that is preferred first."""


def choose(name: str | None = None) -> Client:
    """Return the client of this name; without one the first of `CLIENTS` that is installed.

    Raises `BadURL` for a name that is not known, `Unavailable` for a client that is not installed
    or too old.
    """
    if name is not None and name not in CLIENTS:
        raise BadURL(f"kafka: client {name!r} must be {' or '.join(CLIENTS)}")
    wanted = CLIENTS if name is None else (name,)
    if "confluent" in wanted and _version("confluent-kafka") >= (2, 15):
        return _made("connectors.kafka.confluent_client", "ConfluentClient")
    if "kafka-python" in wanted:
        return _made("connectors.kafka.python_client", "PythonClient")
    raise Unavailable(
        "kafka: client=confluent needs the package confluent-kafka 2.15 or newer: pip install"
        " 'streamk[confluent]'"
    )


def _made(module: str, name: str) -> Client:
    made: Client = getattr(importlib.import_module(module), name)()
    return made


def _version(distribution: str) -> tuple[int, ...]:
    """The release that is installed, () for none."""
    try:
        found = re.match(r"[\d.]*\d", metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return ()
    return tuple(map(int, found[0].split("."))) if found else ()
