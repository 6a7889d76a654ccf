"""Kafka through confluent-kafka, that is librdkafka: in C, with threads of its own."""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from connectors.kafka.client import (
    ABORT_SECONDS,
    BATCH_BYTES,
    MAX_REQUEST_BYTES,
    MAX_UNFLUSHED,
    Failures,
    Reading,
    TooLarge,
    Transacting,
    Writing,
    answered,
)
from connectors.kafka.cluster import Cluster, Fault, LastWarning
from connectors.kafka.confluent_reader import (
    AWAY,
    LOGGER,
    POLL_SECONDS,
    ConfluentReader,
    Links,
    consumer_settings,
    partition_numbers,
)
from connectors.kafka.security import context

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
        *AWAY,
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

    def reader(self, cluster: Cluster, reading: Reading) -> ConfluentReader:
        """A Consumer that has reached the cluster."""
        consumer, links = _connect(cluster, Consumer, consumer_settings(reading), reading.topic)
        return ConfluentReader(consumer, links, cluster, reading)

    def is_fenced(self, error: Any) -> bool:
        """Return whether a transactional producer was fenced."""
        return error.args[0].code() in _PRODUCER_FENCED

    def writer(self, cluster: Cluster, writing: Writing) -> ConfluentWriter:
        """A Producer that has reached the cluster."""
        made = _made(cluster, writing.delivery_timeout, {}, writing.topic)
        return ConfluentWriter(made, writing)

    def producer(self, cluster: Cluster, transacting: Transacting) -> ConfluentProducer:
        """A Producer with a transactional identifier that has begun with it."""
        made = _made(
            cluster,
            transacting.delivery_timeout,
            {
                "transactional.id": transacting.name,
                "transaction.timeout.ms": int(1000 * transacting.timeout),
            },
        )
        return ConfluentProducer(made, transacting.delivery_timeout)


class _Made(NamedTuple):
    """A Producer, its connections, and seconds to wait for metadata.

    `failures` has what it did not deliver, by topic.
    """

    producer: Producer
    links: Links
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
) -> tuple[Any, Links]:
    """Make a Consumer or Producer that has reached the cluster, and its connections.

    Raises `Unavailable` with the reason when no broker answers in `connect_timeout` seconds.
    """
    logger, links = logging.getLogger(LOGGER), Links()
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
    with LastWarning(LOGGER) as complaint:
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


class ConfluentWriter:
    """The `Writer` on a Producer."""

    def __init__(self, made: _Made, writing: Writing) -> None:
        self._producer = made.producer
        self.connected = made.links.connected
        self.failures = made.failures[writing.topic].take
        self._topic = writing.topic
        self._patience = made.patience
        self._timeout = writing.delivery_timeout

    def find(self) -> bool:
        """Return whether the topic exists, or comes when it was asked for."""
        deadline = time.monotonic() + self._patience
        while not partition_numbers(self._producer, self._topic, self._patience):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def send(self, value: bytes, key: bytes | None, headers: Any) -> None:
        """Hand over one record, waiting for room."""
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=headers)
            except BufferError:
                # Full. Outputs are delivered or given up in time, so there will be room.
                self._producer.poll(POLL_SECONDS)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise TooLarge(f"{error.args[0].str()} ({MAX_REQUEST_BYTES} bytes)") from None
                raise
            else:
                return

    def settle(self) -> None:
        """Collect delivery results; `send` waits where the queue is full."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until everything was delivered or has failed."""
        deadline = time.monotonic() + self._timeout + 5
        while self._producer.flush(POLL_SECONDS):
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def close(self) -> None:
        """Close the connections."""
        self._producer.purge()
        self._producer.flush(5)
        self._producer.close()


class ConfluentProducer:
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

    def writer(self, writing: Writing) -> ConfluentWriter:
        """A writer to a topic within its transactions."""
        return ConfluentWriter(self._made, writing)

    def add_offsets(self, offsets: Any, group: Any) -> None:
        """Add offsets of a group."""
        self._until_done(
            lambda left: self._producer.send_offsets_to_transaction(offsets, group, left)
        )

    def commit(self) -> None:
        """Commit the transaction."""
        self._until_done(self._producer.commit_transaction)

    def abort(self) -> None:
        """Abort the transaction."""
        if not self._hangs:
            self._make(lambda: self._producer.abort_transaction(ABORT_SECONDS))

    def close(self) -> None:
        """Close the connections, ignoring what cannot be aborted."""
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
        """Make a request again until it is done: librdkafka goes on where it was cut short."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._make(lambda: request(_REQUEST_SECONDS))
            except KafkaException as error:
                again = error.args[0].retriable() and not self._hangs
                if not again or time.monotonic() > deadline:
                    raise

    def _make(self, request: Callable[[], None]) -> None:
        """Make a request; if it hangs, no other is made."""
        if not answered(request, _HUNG_SECONDS):
            self._hangs = True
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
