"""Kafka through confluent-kafka, that is librdkafka: in C, with threads of its own."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connectors.kafka.client import (
    ABORT_SECONDS,
    BATCH_BYTES,
    MAX_REQUEST_BYTES,
    MAX_UNFLUSHED,
    Failures,
    Reader,
    Reading,
    TooLarge,
    Transacting,
    Writing,
    answered,
)
from connectors.kafka.cluster import Cluster, Fault
from connectors.kafka.confluent_reader import (
    AWAY,
    POLL_SECONDS,
    Links,
    connect,
    partition_numbers,
    reader,
)

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

    def reader(self, cluster: Cluster, reading: Reading) -> Reader:
        """A Consumer that has reached the cluster."""
        return reader(cluster, reading)

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
    producer, links = connect(cluster, Producer, settings, topic)
    return _Made(producer, links, failures, cluster.connect_timeout)


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
        while not partition_numbers(self._producer, self._topic, self._patience):
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
                self._producer.poll(POLL_SECONDS)
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
        while self._producer.flush(POLL_SECONDS):
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
