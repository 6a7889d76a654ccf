"""Kafka as source and sink, against a real broker, by every client."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from crash_kit import MakeTopic, read_all
from files_kit import offsets, values
from kafka_kit import delete_before, producer, read

from connectors.base import Chunk, Output, Sink, Source
from connectors.errors import (
    BadRecord,
    ConnectorError,
    OffsetOutOfRange,
    Revoked,
    Unavailable,
)
from connectors.kafka import KafkaSink, KafkaSource
from connectors.kafka.security import Security
from connectors.registry import open_sink, open_source

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(90),
    pytest.mark.usefixtures("kafka_client"),
]


def fill(address: str, topic: str, count: int, partition: int = 0, first: int = 0) -> None:
    """Write ``{"i": first}`` and so on, with timestamps 1000, 1001 and so on."""
    with producer(address) as out:
        for i in range(first, first + count):
            out.send(topic, b'{"i":%d}' % i, partition=partition, timestamp_ms=1000 + i)
        out.flush()


def source(address: str, topic: str, **options: Any) -> contextlib.closing[KafkaSource]:
    return contextlib.closing(KafkaSource((address,), topic, **options))


def poll_nothing(src: KafkaSource) -> None:
    """Poll for up to ten seconds where no event comes."""
    for _ in range(50):
        assert src.poll(10, 0.2) == []


def test_partitions_after_an_error_of_a_rebalance_are_those_of_the_last_one(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error may not end the run, which then goes on with what the member owns."""
    topic = kafka_topic(2)

    def refused(_: Any) -> None:
        raise OSError("the disk is full")

    with source(kafka_address, topic, group=f"{topic}-group") as src:
        revoke = src._keeping_errors(partial(src._revoke, lost=False), src._without)
        assign = src._keeping_errors(refused, src._named)

        def rebalances(*_: Any) -> list[Any]:
            assign({0, 1})
            revoke({0, 1})
            assign({1})
            return []

        monkeypatch.setattr(src._reader, "read", rebalances)
        with pytest.raises(OSError, match="the disk is full"):
            src.poll(10, 0.1)
        assert src.partitions() == (f"{topic}:1",)


def test_is_a_source_and_a_sink(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    url = f"kafka://{kafka_address}/{topic}"
    src = open_source(url + "?encoding=float32&fields=x,y")
    sink = open_sink(url)
    try:
        assert isinstance(src, Source)
        assert isinstance(sink, Sink)
        assert (src.encoding, src.fields) == ("float32", ("x", "y"))
        assert src.partitions() == (f"{topic}:0", f"{topic}:1")
        assert not src.finished()
        assert src.committed(f"{topic}:0") is None
        src.commit({f"{topic}:0": 1}, {f"{topic}:0": ""})  # no group: nothing to commit to
        assert sink.mark()["ends"] == {"0": 0, "1": 0}
    finally:
        src.close()
        src.close()
        sink.close()
        sink.close()


def test_predictions_carry_their_input_as_headers(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    sink = KafkaSink((kafka_address,), topic)
    sink.write(
        [
            Output("clicks:3", 41, 5, b"key", {"prediction": "a", "p": 0.25}),
            Output("clicks:3", 42, 6, None, {"prediction": None}),
            Output("events.ndjson", 7, 7, None, {"prediction": 1.5}),
        ]
    )
    sink.rewind(None)  # nothing happens
    mark = sink.mark()
    assert mark["ends"] == {"0": 3}
    sink.close()

    records = list(read_all(kafka_address, topic))
    assert [r.key for r in records] == [b"key", None, None]
    assert json.loads(records[0].value) == {"prediction": "a", "p": 0.25}
    assert records[0].headers == [
        ("streamk-writer", mark["writer"].encode()),
        ("streamk-topic", b"clicks"),
        ("streamk-partition", b"3"),
        ("streamk-offset", b"41"),
    ]
    assert records[2].headers[1:] == [
        ("streamk-partition", b"events.ndjson"),
        ("streamk-offset", b"7"),
    ]


def test_keys_go_to_the_partitions_that_every_client_chooses(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    from kafka.partitioner.default import murmur2

    topic = kafka_topic(4)
    keys = [b"key-%d" % i for i in range(40)]
    sink = KafkaSink((kafka_address,), topic)
    sink.write([Output("a:0", i, 0, key, {"i": i}) for i, key in enumerate(keys)])
    sink.write([Output("a:0", 40 + i, 0, None, {"i": i}) for i in range(40)])
    sink.close()
    with source(kafka_address, topic) as src:
        chunks = read(src, 80)
    found = {
        key: int(chunk.partition.rpartition(":")[2]) for chunk in chunks for key in chunk.keys or []
    }
    found.pop(None, None)
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 4 for key in keys}


def test_reads_every_partition_with_offsets_times_and_keys(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(3)
    for partition in range(3):
        fill(kafka_address, topic, 10 * (partition + 1), partition)
    with producer(kafka_address) as out:
        for value in (b"keyed", None):  # a tombstone
            out.send(topic, value, key=b"k", partition=0, timestamp_ms=2000)
    with source(kafka_address, topic) as src:
        chunks = read(src, 62)
        for number, count in enumerate((12, 20, 30)):
            name = f"{topic}:{number}"
            assert offsets(chunks, name) == list(range(count))
            assert src.position(name) == src.end(name) == count
            assert src.start(name) == 0
        assert src.lag() == 0
        started = time.monotonic()
        assert src.poll(10, 0.3) == []
        assert time.monotonic() - started < 5  # a bound on waiting, generous to a slow machine
    first = chunks[0]
    assert first.offsets.dtype == first.timestamps.dtype == np.int64
    assert first.timestamps[0] == 1000
    keys = [key for c in chunks if c.partition == f"{topic}:0" for key in c.keys or [None] * len(c)]
    assert keys == [None] * 10 + [b"k"] * 2
    assert values([c for c in chunks if c.partition == f"{topic}:0"])[10:] == [b"keyed", None]
    assert values([c for c in chunks if c.partition == f"{topic}:2"])[29] == b'{"i":29}'


def test_at_most_max_events_and_seek_within_the_fetched(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    fill(kafka_address, topic, 100)
    with source(kafka_address, topic) as src:
        name = f"{topic}:0"
        chunks: list[Chunk] = []
        while not chunks:
            chunks = src.poll(7, 1.0)
        assert offsets(chunks) == list(range(7))
        assert src.position(name) == 7
        assert src.lag() == 93
        src.seek(name, 50)
        assert offsets(read(src, 50)) == list(range(50, 100))
        src.seek(name, 3)
        assert offsets(read(src, 97)) == list(range(3, 100))


def test_log_append_time(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(1, **{"message.timestamp.type": "LogAppendTime"})
    before = 1000 * time.time()
    fill(kafka_address, topic, 3)
    with source(kafka_address, topic) as src:
        (chunk,) = read(src, 3)
    assert (abs(chunk.timestamps - before) < 60_000).all()


def test_hold_keeps_what_is_held(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    fill(kafka_address, topic, 50, 0)
    fill(kafka_address, topic, 50, 1)
    zero, one = f"{topic}:0", f"{topic}:1"
    with source(kafka_address, topic) as src:
        src.hold([zero])
        assert {c.partition for c in read(src, 50)} == {one}
        assert src.poll(10, 0.2) == []
        src.hold([one])
        assert offsets(read(src, 50), zero) == list(range(50))
        src.hold([])
        fill(kafka_address, topic, 1, 1)
        assert offsets(read(src, 1), one) == [50]


def test_what_was_fetched_before_the_hold_comes_after_it(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(2)
    fill(kafka_address, topic, 50, 0)
    fill(kafka_address, topic, 50, 1)
    with source(kafka_address, topic) as src:
        first: list[Chunk] = []
        while not first:
            first = src.poll(10, 0.2)
        (held,) = {chunk.partition for chunk in first}
        src.hold([held])
        assert {chunk.partition for chunk in read(src, 50)} != {held}
        src.hold([])
        assert offsets(read(src, 40), held) == list(range(10, 50))


def test_aborted_transactions_leave_gaps(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    name = f"{topic}:0"
    with producer(kafka_address, transactional_id=f"x-{topic}") as out:
        out.init_transactions()
        for number, keep in enumerate([True, False, True, False]):
            out.begin_transaction()
            for _ in range(5):
                out.send(topic, b"%d" % number)
            out.flush()
            if keep:
                out.commit_transaction()
            else:
                out.abort_transaction()
        out.begin_transaction()
        out.send(topic, b"open")
        out.flush()
        with source(kafka_address, topic) as src:
            chunks = read(src, 10)
            # Each transaction ends in a marker that takes an offset too.
            assert offsets(chunks) == [0, 1, 2, 3, 4, 12, 13, 14, 15, 16]
            assert values(chunks) == [b"0"] * 5 + [b"2"] * 5
            # The aborted tail is passed, the open transaction is not.
            assert src.end(name) == 24
            for _ in range(50):
                if src.position(name) == 24:
                    break
                assert src.poll(10, 0.1) == []
            assert src.position(name) == 24
            src.seek(name, 7)  # in a gap: the next event is the first after it
            assert offsets(read(src, 5)) == [12, 13, 14, 15, 16]
        with source(kafka_address, topic, isolation_level="read_uncommitted") as src:
            assert len(offsets(read(src, 21))) == 21
            assert src.end(name) == 25
        out.abort_transaction()


def test_offsets_that_are_gone(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    name = f"{topic}:0"
    fill(kafka_address, topic, 20)
    delete_before(kafka_address, topic, 0, 8)
    with source(kafka_address, topic) as src:
        assert offsets(read(src, 12)) == list(range(8, 20))
        assert src.start(name) == 8
        for gone in (3, 25):
            src.seek(name, gone)
            with pytest.raises(OffsetOutOfRange, match=rf"{name}: offset {gone}.*8 up to 20") as e:
                poll_nothing(src)
            assert (e.value.partition, e.value.offset) == (name, gone)
        src.seek(name, src.start(name))
        assert offsets(read(src, 12)) == list(range(8, 20))


def test_commits_return_with_their_metadata(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    fill(kafka_address, topic, 10, 0)
    fill(kafka_address, topic, 10, 1)
    zero, one = f"{topic}:0", f"{topic}:1"
    with source(kafka_address, topic, group=f"g-{topic}", group_instance_id="a") as src:
        assert src.partitions() == ()
        read(src, 20)
        assert src.partitions() == (zero, one)
        assert src.committed(zero) is None
        src.commit({zero: 4, one: 7}, {zero: "member-0/00000003", one: "of its own"})
        assert src.committed(one) == (7, "of its own")
        src.commit({zero: 5}, {zero: "member-0/00000004"})
        assert src.committed(zero) == (5, "member-0/00000004")
        with pytest.raises(ConnectorError, match=r"offset\.metadata\.max\.bytes"):
            src.commit({zero: 6}, {zero: "x" * 10_000})
        with pytest.raises(ConnectorError, match="not a partition of topic"):
            src.commit({"0": 6}, {"0": ""})
    # A static member that comes back goes on at the commit.
    with source(kafka_address, topic, group=f"g-{topic}", group_instance_id="a") as src:
        chunks = read(src, 8)
        assert offsets(chunks, zero) == [5, 6, 7, 8, 9]
        assert offsets(chunks, one) == [7, 8, 9]
        assert src.committed(one) == (7, "of its own")


class Member:
    """A group member that commits what it has read when its partitions go."""

    def __init__(self, address: str, topic: str, group: str, client: str | None = None) -> None:
        self.source = KafkaSource(
            (address,), topic, group=group, session_timeout=6.0, client=client
        )
        self.source.set_rebalance(self.revoked, self.assigned)
        self.read: dict[str, list[int]] = {}
        self.log: list[tuple[str, tuple[str, ...]]] = []
        self.threads: set[int] = set()

    def revoked(self, partitions: tuple[str, ...]) -> None:
        assert partitions == self.source.partitions()
        self.log.append(("revoked", partitions))
        next_offsets = {p: self.read[p][-1] + 1 for p in partitions if self.read.get(p)}
        self.source.commit(next_offsets, dict.fromkeys(next_offsets, "on the way out"))

    def assigned(self, partitions: tuple[str, ...]) -> None:
        assert partitions == self.source.partitions()
        self.log.append(("assigned", partitions))
        for partition in partitions:
            committed = self.source.committed(partition)
            self.source.seek(partition, committed[0] if committed else 0)

    def poll(self, timeout: float = 0.05) -> None:
        for chunk in self.source.poll(100, timeout):
            self.read.setdefault(chunk.partition, []).extend(chunk.offsets.tolist())


def test_two_members_share_a_topic(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(4)
    names = tuple(f"{topic}:{n}" for n in range(4))
    for n in range(4):
        fill(kafka_address, topic, 25, n)
    first = Member(kafka_address, topic, f"g-{topic}")
    members = [first]

    def run(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not done():
            assert time.monotonic() < deadline, [(m.log, m.read) for m in members]
            for member in members:
                member.poll()
            time.sleep(0.1)  # busy with what was read: answers of the group come meanwhile

    try:
        run(lambda: sum(map(len, first.read.values())) == 100)
        assert first.log[-1] == ("assigned", names)

        second = Member(kafka_address, topic, f"g-{topic}")
        members.append(second)
        run(lambda: len(first.source.partitions()) == len(second.source.partitions()) == 2)
        assert ("revoked", names) in first.log
        assert {*first.source.partitions(), *second.source.partitions()} == {*names}
        gone = second.source.partitions()[0]
        with pytest.raises(Revoked, match=gone):
            first.source.commit({gone: 1}, {gone: ""})
        for n in range(4):
            fill(kafka_address, topic, 10, n, first=25)
        run(lambda: sum(len(r) for m in members for r in m.read.values()) == 140)

        second.source.close()  # leaves the group; nothing is committed by that
        members.remove(second)
        run(lambda: first.source.partitions() == names)
        run(lambda: sum(map(len, first.read.values())) == 140)
        for name in names:
            assert first.read[name] == list(range(35))
    finally:
        for member in members:
            member.source.close()


def test_members_of_both_clients_share_a_topic(
    kafka_client: str, kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka", reason="the extra `confluent` is not installed")
    monkeypatch.undo()  # of the fixture that leaves only one client to choose from
    topic = kafka_topic(4)
    names = {f"{topic}:{n}" for n in range(4)}
    (other,) = {"confluent", "kafka-python"} - {kafka_client}
    members = []
    try:
        for client in (kafka_client, other):
            members.append(Member(kafka_address, topic, f"g-{topic}", client))
            until_shared(members, names)
    finally:
        for member in members:
            member.source.close()


def until_shared(members: list[Member], names: set[str]) -> None:
    """Poll until the members have all partitions, as many each."""
    deadline = time.monotonic() + 30
    share = len(names) // len(members)
    while [len(m.source.partitions()) for m in members] != [share] * len(members):
        assert time.monotonic() < deadline, [m.log for m in members]
        for member in members:
            member.poll()
    assert {name for m in members for name in m.source.partitions()} == names


def test_a_group_that_divides_in_another_way(kafka_address: str, kafka_topic: MakeTopic) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    topic = kafka_topic()
    other = KafkaConsumer(
        topic,
        bootstrap_servers=kafka_address,
        group_id=f"g-{topic}",
        partition_assignment_strategy=[RoundRobinPartitionAssignor],
    )
    try:
        while not other.assignment():
            other.poll(1000)
        with (
            source(kafka_address, topic, group=f"g-{topic}") as src,
            pytest.raises(ConnectorError, match="have no partition assignor in common"),
        ):
            poll_nothing(src)
    finally:
        other.close()


def test_a_member_whose_place_was_taken_is_told(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    fill(kafka_address, topic, 5)
    name = f"{topic}:0"
    options = {"group": f"g-{topic}", "group_instance_id": "same", "session_timeout": 6.0}
    with source(kafka_address, topic, **options) as old:
        read(old, 5)
        with source(kafka_address, topic, **options) as new:
            read(new, 5)
            for _ in range(2):
                with pytest.raises(Revoked, match=r"(?i)fenced"):
                    poll_nothing(old)
            with pytest.raises(Revoked):
                old.commit({name: 5}, {name: ""})
            new.commit({name: 2}, {name: "new"})
            assert new.committed(name) == (2, "new")


def test_an_error_of_a_callback_comes_out_of_poll(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()

    def fail(partitions: tuple[str, ...]) -> None:
        raise ZeroDivisionError(*partitions)

    with source(kafka_address, topic, group=f"g-{topic}") as src:
        src.set_rebalance(lambda _: None, fail)
        with pytest.raises(ZeroDivisionError, match=f"{topic}:0"):
            poll_nothing(src)


def test_oversized_and_unwritable_outputs(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(1, **{"max.message.bytes": "2000"})
    sink = KafkaSink((kafka_address,), topic)
    with pytest.raises(BadRecord, match=r"clicks:0 offset 3 .*too large"):
        sink.write([Output("clicks:0", 3, 0, None, {"text": "x" * (2 << 20)})])
    with pytest.raises(BadRecord, match=r"clicks:0 offset 4 .*JSON"):
        sink.write([Output("clicks:0", 4, 0, None, {"text": object()})])
    sink.write([Output("clicks:0", 5, 0, None, {"text": "x" * 5000})])  # more than the topic takes
    with pytest.raises(ConnectorError, match="did not take 1 outputs"):
        sink.flush()
    sink.close()  # what failed was told once
    with source(kafka_address, topic) as src:
        assert src.end(f"{topic}:0") == 0


def test_nothing_answers() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        for end in (KafkaSource, KafkaSink):
            with pytest.raises(Unavailable, match=rf"{address} in 0\.5 s: .*refused.*Check that"):
                end((address,), "t", connect_timeout=0.5)
    with pytest.raises(Unavailable, match=r"no\.such\.host\.invalid:9092"):
        KafkaSource(("no.such.host.invalid:9092",), "t", connect_timeout=0.5)


def test_no_such_topic(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    with pytest.raises(Unavailable, match=f"no topic '{topic}x'.*did you mean '{topic}'"):
        KafkaSource((kafka_address,), topic + "x")


@pytest.mark.nightly
def test_the_broker_goes_away_and_comes_back(kafka_client: str, local_kafka: Any) -> None:
    topic, out = f"away-{kafka_client}", f"away-{kafka_client}-out"
    for one in (topic, out):
        local_kafka.create_topic(one)
    fill(local_kafka.address, topic, 10)
    sink = KafkaSink((local_kafka.address,), out)
    with source(local_kafka.address, topic, group=topic, session_timeout=6.0) as src:
        assert offsets(read(src, 10)) == list(range(10))
        src.commit({f"{topic}:0": 10}, {f"{topic}:0": "before"})
        local_kafka.kill()
        started = time.monotonic()
        assert src.poll(10, 0.5) == []
        assert time.monotonic() - started < 5
        sink.write([Output(f"{topic}:0", 9, 0, None, {"p": 1})])  # kept until the broker is back
        local_kafka.start()
        fill(local_kafka.address, topic, 5, first=10)
        chunks = read(src, 5)
        assert offsets(chunks)[-5:] == list(range(10, 15))
        src.commit({f"{topic}:0": 15}, {f"{topic}:0": "after"})
        assert src.committed(f"{topic}:0") == (15, "after")
    sink.close()
    with source(local_kafka.address, out) as src:
        assert values(read(src, 1)) == [b'{"p":1}']


PASSWORD = "correct horse battery staple"


def plain(password: str) -> Security:
    return Security.load(
        environment={
            "STREAMK_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "STREAMK_KAFKA_SASL_MECHANISM": "PLAIN",
            "STREAMK_KAFKA_SASL_PLAIN_USERNAME": "ada",
            "STREAMK_KAFKA_SASL_PLAIN_PASSWORD": password,
        }
    )


def test_credentials_work_and_are_never_logged(
    kafka_client: str,
    local_kafka: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = f"secured-{kafka_client}"
    local_kafka.create_topic(topic)
    with caplog.at_level(logging.DEBUG):
        address = (local_kafka.sasl_address,)
        sink = KafkaSink(address, topic, security=plain(PASSWORD))
        sink.write([Output("a:0", 0, 0, None, {"p": 1})])
        sink.close()
        src = KafkaSource(address, topic, security=plain(PASSWORD))
        assert values(read(src, 1)) == [b'{"p":1}']
        shown = repr(src) + str(src.__dict__) + repr(sink) + str(sink.__dict__)
        src.close()
    if kafka_client == "kafka-python":
        # The requests with the password were logged.
        assert "SaslAuthenticateRequest" in caplog.text
        assert "***" in caplog.text
    assert PASSWORD not in caplog.text
    assert PASSWORD not in shown


@pytest.mark.parametrize("end", [KafkaSource, KafkaSink])
def test_wrong_credentials_are_not_shown(
    end: Any, local_kafka: Any, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "wr0ng 'pass' \\ wörd"
    with caplog.at_level(logging.DEBUG), pytest.raises(Unavailable) as error:
        end((local_kafka.sasl_address,), "t", connect_timeout=3.0, security=plain(wrong))
    # kafka-python may see that the connection is closed before it has read the refusal.
    refused = f"Kafka at {local_kafka.sasl_address} refused to let ada in (PLAIN)"
    closed = f"no Kafka broker answered at {local_kafka.sasl_address}"
    assert str(error.value).startswith((refused, closed))
    assert "user name and password are right" in str(error.value)
    everything = caplog.text + str(error.value)
    # What a traceback with local variables would show of every frame but this one.
    frames = [entry.frame.f_locals for entry in error.traceback[1:]]
    assert len(frames) >= 2
    everything += "".join(map(repr, frames))
    for form in (wrong, repr(wrong)[1:-1], repr(wrong.encode())[2:-1]):
        assert form not in everything
