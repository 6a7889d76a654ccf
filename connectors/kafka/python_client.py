"""Kafka through kafka-python, which is written in Python and needs nothing else."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.partitioner.abc import Partitioner
from kafka.partitioner.default import murmur2
from kafka.structs import OffsetAndMetadata

from connectors.errors import BadURL
from connectors.kafka.client import (
    ABORT_SECONDS,
    BATCH_BYTES,
    FETCH_MAX_BYTES,
    MAX_REQUEST_BYTES,
    MAX_UNFLUSHED,
    PARTITION_FETCH_BYTES,
    REQUEST_TIMEOUT,
    STABLE_TIMEOUT,
    Failures,
    Gone,
    Listener,
    Reading,
    Records,
    TooLarge,
    Transacting,
    Writing,
    answered,
    persist,
)
from connectors.kafka.cluster import Cluster, Description, Fault, LastWarning
from connectors.kafka.security import context

_POLL_SECONDS = 0.01
"""Longest wait inside kafka-python, seconds: at 1,000 events/s some waits of 100 ms went on to the
end although records were there, which was the p99 of the engine's latency."""

_DESCRIBE_SECONDS = 2.0
"""Time that a broker has to tell of a topic."""

_offset, _timestamp, _key, _value = map(attrgetter, ("offset", "timestamp", "key", "value"))
_T = TypeVar("_T")


class PythonClient:
    """The client of `connectors.kafka.client` on kafka-python."""

    error: type[Exception] = errors.KafkaError

    def fault(self, error: Any) -> Fault:
        """Return the meaning of an error of kafka-python."""
        faults: dict[Fault, tuple[type[Exception], ...]] = {
            Fault.ABORTED: (
                errors.ConcurrentTransactionsError,
                errors.InvalidTxnStateError,
                errors.OutOfOrderSequenceNumberError,
                errors.TransactionAbortableError,
                errors.UnknownProducerIdError,
            ),
            Fault.SILENT: (errors.RetriableError,),
            Fault.MOVED_ON: (
                errors.CommitFailedError,
                errors.FencedInstanceIdError,
                errors.IllegalGenerationError,
                errors.RebalanceInProgressError,
                errors.UnknownMemberIdError,
            ),
            Fault.OTHER_ASSIGNOR: (errors.InconsistentGroupProtocolError,),
            Fault.METADATA: (errors.OffsetMetadataTooLargeError,),
            Fault.CODEC: (errors.UnsupportedCodecError,),
        }
        return next((f for f, types in faults.items() if isinstance(error, types)), Fault.OTHER)

    def is_fenced(self, error: Any) -> bool:
        """Return whether a transactional producer was fenced."""
        # What comes after the first such error names it.
        return any(
            isinstance(one, (errors.ProducerFencedError, errors.InvalidProducerEpochError))
            for one in (error, *error.args)
        )

    def reader(self, cluster: Cluster, reading: Reading) -> _Reader:
        """A KafkaConsumer that has reached the cluster."""
        if reading.group_protocol != "classic":
            raise BadURL(
                f"kafka: group_protocol={reading.group_protocol} is not supported by "
                "kafka-python; use client=confluent (pip install 'streamk[confluent]')"
            )
        consumer, net = _connect(cluster, KafkaConsumer, **_consumer_options(reading))
        return _Reader(consumer, net, reading)

    def writer(self, cluster: Cluster, writing: Writing) -> _Writer:
        """A KafkaProducer that has reached the cluster."""
        options = _producer_options(cluster, writing.delivery_timeout)
        producer, net = _connect(cluster, _NamedProducer, **options)
        return _Writer(producer, net, writing)

    def producer(self, cluster: Cluster, transacting: Transacting) -> _Producer:
        """A KafkaProducer with a transactional identifier that has begun with it."""
        producer, net = _connect(
            cluster,
            _NamedProducer,
            transactional_id=transacting.name,
            transaction_timeout_ms=int(1000 * transacting.timeout),
            **_producer_options(cluster, transacting.delivery_timeout),
        )
        return _Producer(producer, net, transacting.delivery_timeout)


def _connect(cluster: Cluster, client: Callable[..., Any], **options: Any) -> tuple[Any, Any]:
    """Make a KafkaConsumer or KafkaProducer that has reached the cluster, and its connections.

    Raises `Unavailable` with the reason when no broker answers in `connect_timeout` seconds.
    """
    made: list[Any] = []

    def make(**settings: Any) -> Any:
        made.append(KafkaNetClient(**settings))
        # kafka-python takes this option and forgets it: a reader made a deleted topic anew.
        made[0].cluster.config["allow_auto_create_topics"] = settings["allow_auto_create_topics"]
        return made[0]

    cluster.security.guard_logs()
    # Its own would fail over a file of revoked certificates.
    tls = context(cluster.security)
    with LastWarning("kafka") as complaint:
        try:
            one = client(
                bootstrap_servers=list(cluster.servers),
                client_id="streamk",
                bootstrap_timeout_ms=int(1000 * cluster.connect_timeout),
                # A broker that comes back is noticed within a second, not within thirty.
                reconnect_backoff_max_ms=1000,
                metrics_enabled=False,
                kafka_client=make,
                ssl_context=tls,
                **cluster.security.options,
                **options,
            )
        except (errors.KafkaError, OSError, ValueError) as error:
            # The constructor that failed leaves its thread and sockets behind.
            for client_made in made:
                client_made.close()
            text = complaint.text or f"{type(error).__name__}: {error}"
            raise cluster.unanswered(text) from None
    return one, made[0]


def _producer_options(cluster: Cluster, timeout: float) -> dict[str, Any]:
    return {
        "acks": "all",
        "enable_idempotence": True,
        "batch_size": BATCH_BYTES,
        "delivery_timeout_ms": int(1000 * timeout),
        "request_timeout_ms": int(1000 * min(30.0, timeout)),
        "max_block_ms": int(1000 * cluster.connect_timeout),
        "max_request_size": MAX_REQUEST_BYTES,
        "partitioner": _Partitioner(),
    }


def _consumer_options(reading: Reading) -> dict[str, Any]:
    options: dict[str, Any] = {
        "group_id": reading.group,
        "group_instance_id": reading.group_instance_id,
        "isolation_level": reading.isolation_level,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "allow_auto_create_topics": False,
        "fetch_max_bytes": FETCH_MAX_BYTES,
        "max_partition_fetch_bytes": PARTITION_FETCH_BYTES,
    }
    if reading.group is not None:
        timeout = reading.session
        # Members on librdkafka know `range`, so that both may be in one group.
        options["partition_assignment_strategy"] = [StickyPartitionAssignor, RangePartitionAssignor]
        options["session_timeout_ms"] = int(1000 * timeout)
        options["heartbeat_interval_ms"] = int(1000 * min(3.0, timeout / 3))
    return options


class _Reader:
    """The `connectors.kafka.client.Reader` on a KafkaConsumer."""

    def __init__(self, consumer: Any, net: Any, reading: Reading) -> None:
        self._consumer, self._known = consumer, net.cluster
        self.connected = functools.partial(is_connected, net)
        self._topic, self._headers = reading.topic, reading.headers
        self._closed = False
        self._away_since: float | None = None

    def numbers(self) -> Collection[int]:
        return self._consumer.partitions_for_topic(self._topic) or ()

    def topics(self) -> set[str]:
        return set(self._consumer.topics())

    def take(self, numbers: Collection[int]) -> None:
        more = self._all(numbers)
        self._consumer.assign([*self._consumer.assignment(), *more])
        self._consumer.seek_to_beginning(*more)

    def join(self, listener: Listener) -> None:
        self._consumer.subscribe([self._topic], listener=_ListenerAdapter(self._beside, listener))

    def read(self, max_events: int, timeout: float) -> list[Records]:
        """At most `max_events` records, in naps.

        kafka-python can miss records that come as it begins to wait for some.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            self._mend()
            polled = self._poll(max_events, min(left, _POLL_SECONDS))
            if polled or left <= _POLL_SECONDS:
                return [
                    Records(
                        tp.partition,
                        list(map(_offset, records)),
                        list(map(_timestamp, records)),
                        list(map(_key, records)),
                        list(map(_value, records)),
                        [record.headers for record in records] if self._headers else (),
                    )
                    for tp, records in polled.items()
                    if records
                ]

    def _mend(self) -> None:
        """Mend two faults of kafka-python before a poll, through its private attributes.

        It parks what it has parsed of a paused partition and takes it back only when the slot for
        the partition being read is None. A partition that was read up stays in the slot, so that
        one that is resumed would never be read again.

        It takes a join that was answered between two polls for one that was dealt with and joins
        again, which makes all members rebalance: two that are busy between their polls may go on
        like that for ever. And the leader of a group that joined because the topic's partitions
        were news to it forgets, once it has divided them, that it still waits for the answer: it
        then neither owns partitions nor joins again.
        """
        fetcher, coordinator = self._consumer._fetcher, self._consumer._coordinator
        if not fetcher._next_partition_records:
            fetcher._next_partition_records = None
        task = coordinator._join_task
        if task is not None:
            coordinator.request_rejoin()
            if not isinstance(task, _Unread):
                coordinator._join_task = _Unread(task)

    def _poll(self, max_events: int, timeout: float) -> dict[Any, list[Any]]:
        try:
            polled: dict[Any, list[Any]] = self._consumer.poll(
                timeout_ms=1000 * timeout, max_records=max_events
            )
        except errors.OffsetOutOfRangeError as error:
            [(tp, wanted), *_] = error.args[0].items()
            raise Gone(tp.partition, wanted) from None
        except errors.KafkaConnectionError:
            # As with most brokers that are away: nothing has come yet. But it may be for good.
            now = time.monotonic()
            self._away_since = self._away_since or now
            if now > self._away_since + REQUEST_TIMEOUT:
                raise
            time.sleep(timeout)
            return {}
        except errors.LogTruncationError as error:
            # An unclean election took records away that were already read.
            number = next(iter(error.divergent_offsets)).partition
            raise Gone(number, self.position(number)) from None
        self._away_since = None
        return polled

    def place(self, number: int, offset: int | None) -> None:
        if offset is None:
            self._consumer.seek_to_beginning(self._one(number))
        else:
            self._consumer.seek(self._one(number), offset)

    def position(self, number: int) -> int:
        tp = self._one(number)
        position = _ask(lambda left: self._consumer.position(tp, timeout_ms=1000 * left))
        if position is None:
            raise errors.KafkaTimeoutError(f"no position of partition {number}")
        return int(position)

    def highwater(self, number: int) -> int | None:
        highwater: int | None = self._consumer.highwater(self._one(number))
        return highwater

    def hold(self, numbers: Collection[int]) -> None:
        self._consumer.pause(*self._all(numbers))

    def unhold(self, numbers: Collection[int]) -> None:
        self._consumer.resume(*self._all(numbers))

    def start(self, number: int) -> int:
        tp = self._one(number)
        return int(_ask(lambda left: self._consumer.beginning_offsets([tp], 1000 * left))[tp])

    def ends(self, numbers: Collection[int]) -> Mapping[int, int]:
        every = self._all(numbers)
        found = _ask(lambda left: self._consumer.end_offsets(every, 1000 * left))
        return {tp.partition: int(end) for tp, end in found.items()}

    def at_time(self, number: int, time: int) -> int | None:
        tp = self._one(number)
        found = _ask(lambda left: self._consumer.offsets_for_times({tp: time}, 1000 * left))[tp]
        return None if found is None else int(found.offset)

    def committed(self, number: int) -> tuple[int, str] | None:
        tp = self._one(number)
        found = _ask(
            lambda left: self._consumer.committed(tp, metadata=True, timeout_ms=1000 * left),
            STABLE_TIMEOUT,
        )
        return None if found is None or found.offset < 0 else (found.offset, found.metadata)

    def commit(self, offsets: Mapping[int, tuple[int, str]]) -> None:
        wanted = self._wanted(offsets)
        _ask(lambda left: self._consumer.commit(wanted, timeout_ms=1000 * left))

    def for_transaction(self, offsets: Mapping[int, tuple[int, str]]) -> tuple[Any, Any]:
        return self._wanted(offsets), self._consumer.group_metadata()

    def cluster_id(self) -> str | None:
        found: str | None = self._known.cluster_id
        return found

    def describe(self) -> Description:
        answered = threading.Event()
        self._known.request_update().add_both(lambda _: answered.set())
        if not answered.wait(_DESCRIBE_SECONDS):
            return Description(None)
        identity = self._known.topic_id(self._topic)
        numbers = self._known.partitions_for_topic(self._topic)
        if identity is not None:
            return Description(str(identity), numbers or ())
        return Description("") if numbers is None else Description(None, numbers)

    def close(self) -> None:
        self._closed = True
        self._consumer.close(autocommit=False, timeout_ms=5000)

    def _wanted(self, offsets: Mapping[int, tuple[int, str]]) -> dict[Any, Any]:
        # -1: the leader epoch of the event before the offset is not kept.
        return {
            self._one(number): OffsetAndMetadata(offset, metadata, -1)
            for number, (offset, metadata) in offsets.items()
        }

    def _one(self, number: int) -> Any:
        return TopicPartition(self._topic, number)

    def _all(self, numbers: Collection[int]) -> list[Any]:
        return [self._one(number) for number in sorted(numbers)]

    async def _beside(self, callback: Callable[[], None]) -> None:
        """Run a callback beside the client's event loop.

        kafka-python calls listeners in its own I/O thread, where a commit would wait for itself.
        Here they run in a thread of their own while the I/O thread goes on serving it.
        """
        if self._closed:
            return
        done = Future()

        def run() -> None:
            callback()
            # Nothing public wakes the I/O thread: it would find out at the next heartbeat.
            self._consumer._net.call_soon_threadsafe(lambda: done.success(None))

        threading.Thread(target=run, name="streamk-rebalance", daemon=True).start()
        await done


class _Unread:
    """A future of kafka-python's of which nobody has had the result, so that it counts as open."""

    is_done = False

    def __init__(self, future: Any) -> None:
        self.add_callback = future.add_callback
        self.add_errback = future.add_errback


def _ask(question: Callable[[float], _T], patience: float = REQUEST_TIMEOUT) -> _T:
    return persist(question, errors.KafkaConnectionError, lambda _: True, patience)


class _ListenerAdapter(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Passes rebalances on to a `Listener`, by way of a function that runs it elsewhere."""

    def __init__(self, beside: Callable[[Callable[[], None]], Any], listener: Listener) -> None:
        self._beside, self._listener = beside, listener

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        await self._beside(lambda: self._listener.revoked({tp.partition for tp in revoked}))

    async def on_partitions_lost(self, lost: set[Any]) -> None:
        await self._beside(lambda: self._listener.lost({tp.partition for tp in lost}))

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        await self._beside(lambda: self._listener.assigned({tp.partition for tp in assigned}))


# --- writing --------------------------------------------------------------------------------------


_STAY = 1024
"""Records after which another partition has its turn, and partitions are looked up again."""


def is_connected(net: Any) -> bool:
    """Return whether a client has a connection to any broker."""
    return any(net.connected(broker.node_id) for broker in net.cluster.brokers())


class _Writer:
    """The `Writer` on a KafkaProducer."""

    def __init__(self, producer: Any, net: Any, writing: Writing) -> None:
        self._producer = producer
        self.connected = functools.partial(is_connected, net)
        self._topic = writing.topic
        self._timeout = writing.delivery_timeout
        # A result is asked for when it is there: a callback a record would cost more.
        self._results: deque[Any] = deque()
        self._failures = Failures()
        self.failures = self._failures.take

    def find(self) -> bool:
        try:
            return bool(self._producer.partitions_for(self._topic))
        except errors.KafkaTimeoutError:
            return False

    def send(self, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        try:
            self._results.append(self._producer.send(self._topic, value, key, headers))
        except errors.MessageSizeTooLargeError as error:
            raise TooLarge(str(error)) from None

    def settle(self) -> None:
        results = self._results
        while results and results[0].is_done:
            self._note(results.popleft())
        # The producer has no bound of its own on what it holds.
        if len(results) > MAX_UNFLUSHED:
            self.flush()

    def flush(self) -> None:
        # A little longer than the deliveries, so that theirs is the reason that is told.
        self._producer.flush(timeout=self._timeout + 5)
        while self._results:
            self._note(self._results.popleft())

    def close(self) -> None:
        self._producer.close(timeout=5)

    def _note(self, result: Any) -> None:
        if result.exception is not None:
            self._failures.add(result.exception)


class _Producer:
    """The `Producer` of transactions on a KafkaProducer, which begins with its identifier here."""

    def __init__(self, producer: Any, net: Any, timeout: float) -> None:
        self._producer, self._net, self._timeout = producer, net, timeout
        self.begin = producer.begin_transaction
        _keep_epoch(producer)
        try:
            persist(
                lambda _: producer.init_transactions(),
                errors.KafkaTimeoutError,
                lambda _: True,
                timeout,
            )
        except BaseException:
            self.close()
            raise

    def writer(self, writing: Writing) -> _Writer:
        return _Writer(self._producer, self._net, writing)

    def add_offsets(self, offsets: Any, group: Any) -> None:
        _answered(lambda: self._producer.send_offsets_to_transaction(offsets, group), self._timeout)

    def commit(self) -> None:
        _answered(self._producer.commit_transaction, self._timeout)

    def abort(self) -> None:
        _answered(self._producer.abort_transaction, ABORT_SECONDS)

    def close(self) -> None:
        self._producer.close(timeout=5)


def _keep_epoch(producer: Any) -> None:
    """Make errors of epoch or sequence fatal to a transactional producer.

    kafka-python goes on under a new epoch, by which the brokers abort the transaction, and then
    refuses to send or commit because of its state, without the error that was the cause.
    """
    manager = producer._transaction_manager
    manager._FATAL_ERRORS = manager._FATAL_ERRORS | manager._NEEDS_EPOCH_BUMP_ERRORS
    manager._NEEDS_EPOCH_BUMP_ERRORS = frozenset()


def _answered(request: Callable[[], object], timeout: float) -> None:
    """Make a request of a transaction with a time limit, which kafka-python does not have."""
    if not answered(request, timeout):
        raise errors.KafkaTimeoutError(f"no answer in {timeout:g} s")


class _NamedProducer(KafkaProducer):  # type: ignore[misc]
    """A producer with a constant name: KafkaProducer builds its own for every record."""

    def __str__(self) -> str:
        return "<KafkaProducer of streamk>"


@dataclass(slots=True)
class _Turn:
    """The partitions of a topic, the one whose turn it is, and for how many records."""

    numbers: Sequence[int] = ()
    chosen: int = -1
    left: int = 0


class _Partitioner(Partitioner):  # type: ignore[misc]
    """Kafka's choice: by the key's hash, else one partition for a whole batch, then the next.

    kafka-python's own sort and search the topic's partitions for every record. Here that is done
    for every batch, and once in `_STAY` records.
    """

    def __init__(self) -> None:
        self._turns: defaultdict[str, _Turn] = defaultdict(_Turn)

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: Any,
        value: Any,
        serialized_value: Any,
        cluster: Any,
    ) -> int:
        """The partition for a record."""
        turn = self._turns[topic]
        turn.left -= 1
        if turn.left < 0:
            self.on_new_batch(topic, cluster, turn.chosen)
        if serialized_key is None:
            return turn.chosen
        return turn.numbers[_hash(serialized_key) % len(turn.numbers)]

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """Go on to the next partition that has a leader."""
        turn = self._turns[topic]
        turn.left = _STAY
        turn.numbers = sorted(cluster.partitions_for_topic(topic))
        there = sorted(cluster.available_partitions_for_topic(topic)) or turn.numbers
        turn.chosen = next((number for number in there if number > prev_partition), there[0])


@functools.lru_cache(maxsize=1 << 14)
def _hash(key: bytes) -> int:
    return int(murmur2(key)) & 0x7FFFFFFF
