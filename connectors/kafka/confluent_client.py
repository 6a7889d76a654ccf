"""Kafka through confluent-kafka, that is librdkafka: in C, with threads of its own."""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

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

_AWAY = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
"""Errors that mean that a broker is away, or just back."""

_REQUEST_SECONDS = 1.0
"""Longest wait inside librdkafka for a step of a transaction: signals are not seen meanwhile."""

_HUNG_SECONDS = 10.0
"""Time after which such a step is not waited for any more."""

_PRODUCER_FENCED = (
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)

_FAULTS = {
    Fault.SILENT: {
        *_AWAY,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
    },
    Fault.ABORTED: {
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError._STATE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.TRANSACTION_ABORTABLE,
        KafkaError.UNKNOWN_PRODUCER_ID,
    },
    Fault.MOVED_ON: {
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._FENCED,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
    },
    Fault.OTHER_ASSIGNOR: {KafkaError.INCONSISTENT_GROUP_PROTOCOL},
    Fault.METADATA: {KafkaError.OFFSET_METADATA_TOO_LARGE},
}


class ConfluentClient:
    """The client of `connectors.kafka.client` on confluent-kafka."""

    error: type[Exception] = KafkaException

    def fault(self, error: Any) -> Fault:
        """Return the meaning of an error of librdkafka."""
        code = error.args[0].code()
        return next((fault for fault, codes in _FAULTS.items() if code in codes), Fault.OTHER)

    def reader(self, cluster: Cluster, reading: Reading) -> _Reader:
        """A Consumer that has reached the cluster."""
        consumer, links = _connect(cluster, Consumer, _settings(reading), reading.topic)
        return _Reader(consumer, links, cluster, reading)

    def is_fenced(self, error: Any) -> bool:
        """Return whether a transactional producer was fenced."""
        return error.args[0].code() in _PRODUCER_FENCED

    def writer(self, cluster: Cluster, writing: Writing) -> _Writer:
        """A Producer that has reached the cluster."""
        made = _made(cluster, writing.delivery_timeout, {}, writing.topic)
        return _Writer(made, writing)

    def producer(self, cluster: Cluster, transacting: Transacting) -> _Producer:
        """A Producer with a transactional identifier that has begun with it."""
        made = _made(
            cluster,
            transacting.delivery_timeout,
            {
                "transactional.id": transacting.name,
                "transaction.timeout.ms": int(1000 * transacting.timeout),
            },
        )
        return _Producer(made, transacting.delivery_timeout)


class _Made(NamedTuple):
    """A Producer, its connections, and seconds to wait for metadata.

    `failures` has what it did not deliver, by topic.
    """

    producer: Producer
    links: _Links
    failures: Mapping[str, Failures]
    patience: float


def _made(
    cluster: Cluster, timeout: float, more: Mapping[str, Any], topic: str | None = None
) -> _Made:
    """Make a Producer that has reached the cluster, with so many seconds for a delivery."""
    failures: defaultdict[str, Failures] = defaultdict(Failures)

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures[message.topic() or ""].add(KafkaException(error))

    settings = {
        "acks": "all",
        "enable.idempotence": True,
        "allow.auto.create.topics": True,
        "delivery.timeout.ms": int(1000 * timeout),
        "request.timeout.ms": int(1000 * min(30.0, timeout)),
        "message.max.bytes": MAX_REQUEST_BYTES,
        "batch.size": BATCH_BYTES,
        # Long enough for batches while outputs come fast, short beside a request.
        "linger.ms": 2,
        "queue.buffering.max.messages": MAX_UNFLUSHED,
        "queue.buffering.max.kbytes": 256 << 10,
        "partitioner": "murmur2_random",  # by keys as all other clients do
        "delivery.report.only.error": True,
        "on_delivery": report,
        **more,
    }
    producer, links = _connect(cluster, Producer, settings, topic)
    return _Made(producer, links, failures, cluster.connect_timeout)


def _connect(
    cluster: Cluster, client: Any, settings: dict[str, Any], topic: str | None = None
) -> tuple[Any, _Links]:
    """Make a Consumer or Producer that has reached the cluster, and its connections.

    Raises `Unavailable` with the reason when no broker answers in `connect_timeout` seconds.
    """
    logger, links = logging.getLogger(_LOGGER), _Links()
    cluster.security.guard_logs()
    context(cluster.security)  # whose mistakes librdkafka tells in fewer words
    settings = {
        "bootstrap.servers": ",".join(cluster.servers),
        "client.id": "streamk",
        # A broker that comes back is noticed within a second, not within ten.
        "reconnect.backoff.max.ms": 1000,
        "statistics.interval.ms": 1000,
        "stats_cb": links.note,
        # It would print to the standard error what it is told here by its log.
        "error_cb": lambda error: logger.warning("%s", error.str()),
        **settings,
    }
    with LastWarning(_LOGGER) as complaint:
        try:
            # Secrets in plain text stay out of every variable, which a traceback might show.
            made = client(settings | cluster.security.librdkafka(), logger=logger)
        except KafkaException as error:
            raise cluster.explain(Fault.OTHER, error, "starting librdkafka") from None
        try:
            made.list_topics(topic, timeout=cluster.connect_timeout)
        except KafkaException:
            made.poll(0)  # hands over what was logged
            made.close()
            raise cluster.unanswered(complaint.text) from None
    return made, links


# --- reading --------------------------------------------------------------------------------------


def _settings(reading: Reading) -> dict[str, Any]:
    """Return the settings of a Consumer."""
    settings: dict[str, Any] = {
        # Without a group a name is needed all the same; nothing is ever said to it.
        "group.id": reading.group or "streamk-without-group",
        "isolation.level": reading.isolation_level,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        # Partitions that a topic gets are taken up by a group within seconds, not five minutes.
        "topic.metadata.refresh.interval.ms": 5000,
        "fetch.max.bytes": FETCH_MAX_BYTES,
        "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
        # What was read ahead of a held partition is read again: not too much of it.
        "queued.min.messages": 20_000,
        "queued.max.messages.kbytes": FETCH_MAX_BYTES >> 10,
        # Questions to a broker wait behind the fetch that waits for records there.
        "fetch.wait.max.ms": 100,
        # A full queue is looked at again soon, not after a second.
        "fetch.queue.backoff.ms": 10,
    }
    if not reading.polled:
        settings["statistics.interval.ms"] = 0  # nobody would take them, and they would pile up
    if reading.group_protocol == "consumer":
        settings["group.protocol"] = "consumer"
    elif reading.group is not None:
        timeout = reading.session
        # Of the ways to divide partitions librdkafka has none that is sticky and revokes all
        # partitions first, which is what a source promises.
        settings["partition.assignment.strategy"] = "range"
        settings["session.timeout.ms"] = int(1000 * timeout)
        settings["heartbeat.interval.ms"] = int(1000 * min(3.0, timeout / 3))
        if reading.group_instance_id is not None:
            settings["group.instance.id"] = reading.group_instance_id
    return settings


class _Broker(msgspec.Struct):
    state: str


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker]


class _Links:
    """The connections of a client, as librdkafka's statistics tell of them once a second."""

    def __init__(self) -> None:
        self._up = True

    def note(self, statistics: str) -> None:
        """Read the statistics."""
        found = msgspec.json.decode(statistics, type=_Statistics).brokers.values()
        self._up = any(broker.state == "UP" for broker in found)

    def connected(self) -> bool:
        """Return whether some broker was connected when the last statistics were made."""
        return self._up


_Whole = Callable[[Any], int]
# Those of messages, which all have both.
_offset, _number = cast("_Whole", Message.offset), cast("_Whole", Message.partition)
_time = itemgetter(1)

_LOGGER = "confluent_kafka"
"""Name of the logger that librdkafka's messages go to."""

_PATIENCE = 2.0
"""Seconds that a broker has to tell a topic's identifier."""
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The identifier that brokers older than Kafka 2.8 tell."""

# As kafka-python has it: a program that wants these messages says where to, and in others they do
# not go to the terminal, several a second where a broker is gone.
logging.getLogger(_LOGGER).addHandler(logging.NullHandler())

_POLL_SECONDS = 0.2
"""Longest wait inside librdkafka, seconds: signals are not seen meanwhile."""


class _Reader:
    """The `connectors.kafka.client.Reader` on a Consumer.

    Positions are kept here: librdkafka knows one only when something was read there, and would
    move a partition only while it is being fetched. A partition that was placed anew is moved
    when the next records are read.
    """

    def __init__(
        self, consumer: Consumer, links: _Links, cluster: Cluster, reading: Reading
    ) -> None:
        self._consumer, self._cluster = consumer, cluster
        self.connected = links.connected
        self._admin: AdminClient | None = None
        self._topic, self._headers = reading.topic, reading.headers
        self._in_group = reading.group is not None
        self._in_parts = reading.group_protocol == "consumer"
        """Partitions come and go one by one, not all at once."""
        self._patience = cluster.connect_timeout
        self._positions: dict[int, int | None] = {}
        self._moved: set[int] = set()
        self._held: set[int] = set()
        self._generation = 0
        self._trouble: list[Gone | KafkaException] = []
        self._fenced: KafkaException | None = None
        self._closed = False

    def numbers(self) -> Collection[int]:
        return _partition_numbers(self._consumer, self._topic, self._patience)

    def topics(self) -> set[str]:
        return set(self._consumer.list_topics(timeout=self._patience).topics)

    def take(self, numbers: Collection[int]) -> None:
        self._positions |= dict.fromkeys(numbers)
        self._moved.update(numbers)

    def join(self, listener: Listener) -> None:
        """Join the group; librdkafka calls the listener inside `read`, in the same thread.

        Where partitions come and go one by one the listener is told that all of them go, and that
        all that there are now have come.
        """

        def come(_: Any, partitions: list[TopicPartition]) -> None:
            if self._in_parts and not partitions:
                return
            self._generation += 1
            new = {tp.partition for tp in partitions}
            if not self._in_parts:
                self._positions = {}
            elif self._positions:
                listener.revoked(set(self._positions))
            # A partition that the listener does not place goes on at the group's committed offset;
            # without one reading it is an error.
            self._positions |= dict.fromkeys(new, OFFSET_STORED)
            listener.assigned(set(self._positions))
            if self._in_parts:
                self._consumer.incremental_assign([self._at(number) for number in sorted(new)])
                self._moved -= new
            else:
                self._assign()

        def go(tell: Any, partitions: list[TopicPartition]) -> None:
            if self._closed:
                return
            self._generation += 1
            gone = {tp.partition for tp in partitions}
            tell(set(self._positions) if self._in_parts else gone)
            if self._in_parts:
                self._consumer.incremental_unassign(partitions)
            self._moved -= gone
            self._held -= gone
            self._positions = {n: at for n, at in self._positions.items() if n not in gone}
            if self._in_parts and self._positions:
                listener.assigned(set(self._positions))

        self._consumer.subscribe(
            [self._topic],
            on_assign=come,
            on_revoke=lambda _, partitions: go(listener.revoked, partitions),
            on_lost=lambda _, partitions: go(listener.lost, partitions),
        )

    def read(self, max_events: int, timeout: float) -> list[Records]:
        """At most `max_events` records.

        `Consumer.consume` would wait until it has all that it was asked for; so it takes what is
        there, and `Consumer.poll` waits for the first record where there is none.
        """
        if self._fenced is not None:
            self._consumer.poll(0)  # what was lost by it is told there
            raise self._fenced
        if self._moved:
            self._move()
        deadline = time.monotonic() + timeout
        generation = self._generation
        messages: list[Any] = [] if self._trouble else self._consumer.consume(max_events, 0.0)
        while True:
            if generation != self._generation:
                # Which of them are from before the rebalance cannot be told: read them again.
                generation, messages = self._generation, []
                self._moved |= self._positions.keys()
                self._move()
            found = self._sort(messages)
            if found:
                return found
            if self._trouble:
                raise self._trouble.pop(0)
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            first = self._consumer.poll(min(left, _POLL_SECONDS))
            messages = [] if first is None else [first]
            if first is not None and max_events > 1:
                messages += self._consumer.consume(max_events - 1, 0.0)

    def _sort(self, messages: list[Any]) -> list[Records]:
        # No bytecode for a message where that is possible: reading is a good part of a run's time.
        errors = list(map(Message.error, messages))
        if any(errors):
            for message, error in zip(messages, errors, strict=True):
                if error is not None:
                    self._note(message, error)
            messages = [m for m, error in zip(messages, errors, strict=True) if error is None]
        found = []
        for number, some in _by_partition(messages).items():
            if number not in self._positions:
                continue
            records = Records(
                number,
                list(map(_offset, some)),
                list(map(_time, map(Message.timestamp, some))),
                list(map(Message.key, some)),
                list(map(Message.value, some)),
                [message.headers() or () for message in some] if self._headers else (),
            )
            self._positions[number] = max(records.offsets[-1] + 1, self._positions[number] or 0)
            found.append(records)
        return found

    def _note(self, message: Any, error: KafkaError) -> None:
        code, number, offset = error.code(), message.partition(), message.offset()
        if code == KafkaError._PARTITION_EOF:
            # The end as a position: it lies behind gaps that no record tells of.
            if number in self._positions:
                self._positions[number] = max(offset, self._positions[number] or 0)
        elif code == KafkaError._AUTO_OFFSET_RESET:
            if number in self._positions:
                self._trouble.append(Gone(number, offset))
        elif code == KafkaError._FATAL:
            self._fenced = _fenced(error)
            self._trouble.append(self._fenced)
        elif code == KafkaError._MAX_POLL_EXCEEDED or error.retriable():
            # Partitions that went with it are lost in the next read; what can be is tried again.
            logging.getLogger(_LOGGER).warning("%s", error.str())
        elif self._in_group or code != KafkaError.GROUP_AUTHORIZATION_FAILED:
            self._trouble.append(KafkaException(error))

    def _move(self) -> None:
        for number in sorted(self._moved):
            try:
                self._consumer.seek(self._at(number))
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:
                    raise
                # It is not being fetched: not yet, or not any more because its position was gone.
                if self._in_parts:
                    self._consumer.incremental_unassign([self._one(number)])
                    self._consumer.incremental_assign([self._at(number)])
                    if number in self._held:
                        self._consumer.pause([self._one(number)])
                    continue
                self._assign()
                break
        self._moved.clear()

    def _assign(self) -> None:
        self._consumer.assign([self._at(number) for number in sorted(self._positions)])
        self._moved.clear()
        if self._held:
            self._consumer.pause([self._one(number) for number in sorted(self._held)])

    def place(self, number: int, offset: int | None) -> None:
        self._positions[number] = offset
        self._moved.add(number)
        self._trouble = [
            one for one in self._trouble if not (isinstance(one, Gone) and one.number == number)
        ]

    def position(self, number: int) -> int:
        known = self._positions[number]
        return self.start(number) if known is None or known < 0 else known

    def highwater(self, number: int) -> int | None:
        known = self._consumer.get_watermark_offsets(self._one(number), cached=True)
        return None if known is None or known[1] < 0 else known[1]

    def hold(self, numbers: Collection[int]) -> None:
        self._held |= set(numbers)
        if numbers:
            self._consumer.pause([self._one(number) for number in sorted(numbers)])

    def unhold(self, numbers: Collection[int]) -> None:
        again = self._held.intersection(numbers)
        self._held -= again
        if again:
            self._consumer.resume([self._one(number) for number in sorted(again)])

    def start(self, number: int) -> int:
        return self._listed((number,), OFFSET_BEGINNING)[number]

    def ends(self, numbers: Collection[int]) -> Mapping[int, int]:
        return self._listed(numbers, OFFSET_END)

    def at_time(self, number: int, time: int) -> int | None:
        found = self._listed((number,), time)[number]
        return None if found < 0 else found

    def committed(self, number: int) -> tuple[int, str] | None:
        asked = [self._one(number)]
        (found,) = _ask(
            lambda left: self._consumer.committed(asked, timeout=left), patience=STABLE_TIMEOUT
        )
        return None if found.offset < 0 else (found.offset, found.metadata or "")

    def commit(self, offsets: Mapping[int, tuple[int, str]]) -> None:
        wanted = self._wanted(offsets)
        try:
            _ask(lambda _: self._consumer.commit(offsets=wanted, asynchronous=False))
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL:
                raise _fenced(error.args[0]) from None
            raise

    def for_transaction(self, offsets: Mapping[int, tuple[int, str]]) -> tuple[Any, Any]:
        return self._wanted(offsets), self._consumer.consumer_group_metadata()

    def cluster_id(self) -> str | None:
        found: str | None = self._consumer.list_topics(timeout=self._patience).cluster_id
        return found

    def describe(self) -> Description:
        if self._admin is None:  # which alone is told a topic's identifier
            settings: dict[str, Any] = {
                "bootstrap.servers": ",".join(self._cluster.servers),
                "client.id": "streamk",
                "reconnect.backoff.max.ms": 1000,
            }
            # Secrets in plain text stay out of every variable, which a traceback might show.
            self._admin = AdminClient(
                settings | self._cluster.security.librdkafka(), logger=logging.getLogger(_LOGGER)
            )
        self._admin.poll(0)  # hands over what was logged
        topics = TopicCollection([self._topic])
        asked = self._admin.describe_topics(topics, request_timeout=_PATIENCE)
        try:
            found = asked[self._topic].result()
        except KafkaException as error:
            unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            return Description("" if unknown else None)
        identity = str(found.topic_id)
        return Description(
            None if identity.rstrip("=") == _NONE else identity,
            [partition.id for partition in found.partitions],
        )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close()

    def _listed(self, numbers: Collection[int], which: int) -> dict[int, int]:
        """Ask for the first offset, the last, or that of a time, of each partition.

        They go to the broker in place of a timestamp, as Kafka's protocol has it. The question
        for both at once, `get_watermark_offsets`, was seen to give the end as the start (2.15.0).
        """
        asked = [TopicPartition(self._topic, number, which) for number in sorted(numbers)]
        found = _ask(lambda left: self._consumer.offsets_for_times(asked, timeout=left))
        return {one.partition: int(one.offset) for one in found}

    def _wanted(self, offsets: Mapping[int, tuple[int, str]]) -> list[TopicPartition]:
        return [
            TopicPartition(self._topic, number, offset, metadata)
            for number, (offset, metadata) in offsets.items()
        ]

    def _one(self, number: int) -> TopicPartition:
        return TopicPartition(self._topic, number)

    def _at(self, number: int) -> TopicPartition:
        offset = self._positions[number]
        return TopicPartition(self._topic, number, OFFSET_BEGINNING if offset is None else offset)


def _ask(
    question: Callable[[float], Any], patience: float = REQUEST_TIMEOUT
) -> list[TopicPartition]:
    """Return the answer to a question about partitions; an error of one is raised."""

    def ask(left: float) -> list[TopicPartition]:
        found: list[TopicPartition] = question(left) or []
        for one in found:
            if one.error is not None:
                raise KafkaException(one.error)
        return found

    return persist(ask, KafkaException, lambda error: error.args[0].code() in _AWAY, patience)


def _by_partition(messages: list[Any]) -> dict[int, list[Any]]:
    numbers = list(map(_number, messages))
    if numbers and numbers.count(numbers[0]) == len(numbers):
        return {numbers[0]: messages}
    found: dict[int, list[Any]] = {}
    for number, message in zip(numbers, messages, strict=True):
        found.setdefault(number, []).append(message)
    return found


def _fenced(error: KafkaError) -> KafkaException:
    """Return the error of a consumer whose name was taken, after which librdkafka stops."""
    return KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID, error.str()))


def _partition_numbers(client: Any, topic: str, timeout: float) -> Collection[int]:
    """The partitions of a topic; none where it is not there."""
    found = client.list_topics(topic, timeout=timeout).topics[topic]
    if found.error is None:
        return set(found.partitions)
    if found.error.code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ):
        return ()
    raise KafkaException(found.error)


# --- writing --------------------------------------------------------------------------------------


class _Writer:
    """The `Writer` on a Producer."""

    def __init__(self, made: _Made, writing: Writing) -> None:
        self._producer = made.producer
        self.connected = made.links.connected
        self.failures = made.failures[writing.topic].take
        self._topic = writing.topic
        self._patience = made.patience
        self._timeout = writing.delivery_timeout

    def find(self) -> bool:
        deadline = time.monotonic() + self._patience
        while not _partition_numbers(self._producer, self._topic, self._patience):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def send(self, value: bytes, key: bytes | None, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=headers)
            except BufferError:
                # Full. Outputs are delivered or given up in time, so there will be room.
                self._producer.poll(_POLL_SECONDS)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise TooLarge(f"{error.args[0].str()} ({MAX_REQUEST_BYTES} bytes)") from None
                raise
            else:
                return

    def settle(self) -> None:
        self._producer.poll(0)

    def flush(self) -> None:
        deadline = time.monotonic() + self._timeout + 5
        while self._producer.flush(_POLL_SECONDS):
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(5)
        self._producer.close()


class _Producer:
    """The `Producer` of transactions, which begins with its identifier here."""

    def __init__(self, made: _Made, timeout: float) -> None:
        self._made, self._producer, self._timeout = made, made.producer, timeout
        self._hangs = False
        self.begin = self._producer.begin_transaction
        try:
            self._until_done(self._producer.init_transactions)
        except BaseException:
            self.close()
            raise

    def writer(self, writing: Writing) -> _Writer:
        return _Writer(self._made, writing)

    def add_offsets(self, offsets: Any, group: Any) -> None:
        self._until_done(
            lambda left: self._producer.send_offsets_to_transaction(offsets, group, left)
        )

    def commit(self) -> None:
        self._until_done(self._producer.commit_transaction)

    def abort(self) -> None:
        if not self._hangs:
            self._make(lambda: self._producer.abort_transaction(ABORT_SECONDS))

    def close(self) -> None:
        if self._hangs:  # it would be waited for; what it has begun ends when another one begins
            return
        # Of the error of a producer that another one has replaced flush makes a SystemError.
        with contextlib.suppress(KafkaException, SystemError):
            self._producer.purge()
            self._producer.flush(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self._producer.close()

    def _until_done(self, request: Callable[[float], None]) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._make(lambda: request(_REQUEST_SECONDS))
            except KafkaException as error:
                again = error.args[0].retriable() and not self._hangs
                if not again or time.monotonic() > deadline:
                    raise

    def _make(self, request: Callable[[], None]) -> None:
        if not answered(request, _HUNG_SECONDS):
            self._hangs = True
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
