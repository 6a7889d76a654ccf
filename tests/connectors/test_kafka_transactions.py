"""Sinks that write in transactions, by every client: what is seen, when, and who may go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from crash_kit import read_all

from connectors.base import Output, Transactional
from connectors.errors import BadURL, ConnectorError, Revoked
from connectors.kafka import KafkaSink, KafkaSource
from connectors.memory import MemorySink, MemorySource

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("kafka_client"),
]

MakeTopic = Callable[..., str]

NO_GROUP: Any = MemorySource([{"x": 1.0}])


def outputs(start: int, stop: int) -> list[Output]:
    return [Output("clicks:3", i, i, None, {"prediction": i}) for i in range(start, stop)]


@contextmanager
def writing(address: str, *topics: str, source: Any = NO_GROUP) -> Iterator[Any]:
    """A sink for each topic, and the transactions that they share, at the end."""
    sinks = [KafkaSink((address,), topic) for topic in topics]
    try:
        assert isinstance(sinks[0], Transactional)
        yield [*sinks, sinks[0].transact(source, [*sinks[1:], MemorySink()], 10.0)]
    finally:
        for sink in sinks:
            sink.close()


def seen(address: str, topic: str) -> list[int]:
    """The inputs of the records that were committed, in their order."""
    records = read_all(address, topic, "read_committed")
    return [int(dict(one.headers)["streamk-offset"]) for one in records]


def test_all_of_a_transaction_is_seen_at_once(kafka_address: str, kafka_topic: MakeTopic) -> None:
    scores, letters = kafka_topic(), kafka_topic()
    with writing(kafka_address, scores, letters) as (sink, dead, _):
        assert sum(sink.mark()["ends"].values()) == 0
        for part in range(3):
            sink.write(outputs(10 * part, 10 * part + 10))
            dead.write(outputs(part, part + 1))
            sink.flush()
            assert seen(kafka_address, scores) == list(range(10 * part))
            assert seen(kafka_address, letters) == list(range(part))
            (sink if part else dead).mark()
            assert seen(kafka_address, scores) == list(range(10 * part + 10))
            assert seen(kafka_address, letters) == list(range(part + 1))
        sink.write(outputs(30, 40))
        dead.write(outputs(3, 4))
    # What no mark was taken after is aborted, and nobody waits for it.
    assert seen(kafka_address, scores) == list(range(30))
    assert seen(kafka_address, letters) == [0, 1, 2]


def test_a_sink_goes_back(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    with writing(kafka_address, topic) as (sink, _):
        sink.write(outputs(0, 10))
        mark = sink.mark()
        sink.write(outputs(10, 20))
        sink.rewind(mark)
        sink.write(outputs(10, 30))
        sink.mark()
    assert sorted(seen(kafka_address, topic)) == list(range(30))


def test_what_was_committed_after_the_mark_is_not_written_again(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    """As where a process dies between its transaction and its checkpoint."""
    topic = kafka_topic(3)
    with writing(kafka_address, topic) as (sink, _):
        mark = sink.mark()
        sink.write(outputs(0, 20))
        sink.mark()
        sink.write(outputs(20, 30))
        with writing(kafka_address, topic) as (heir, transactions):
            transactions.settle(mark)
            heir.rewind(mark)
            heir.write(outputs(0, 30))
            heir.mark()
            heir.write(outputs(30, 40))
            heir.mark()
    assert sorted(seen(kafka_address, topic)) == list(range(40))


@pytest.mark.parametrize("act", ["mark", "write"])
def test_one_that_was_replaced_writes_nothing_more(
    act: str, kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    with writing(kafka_address, topic) as (sink, _):
        mark = sink.mark()
        sink.write(outputs(0, 20))
        sink.flush()
        with writing(kafka_address, topic) as (heir, transactions):
            transactions.settle(mark)
            heir.rewind(mark)
            heir.write(outputs(0, 5))
            heir.mark()
            with pytest.raises(ConnectorError, match=f"identifier streamk-{mark['writer']}"):
                for _ in range(100):
                    if act == "write":
                        sink.write(outputs(20, 40))
                        sink.flush()
                    sink.mark()
            heir.write(outputs(5, 10))
            heir.mark()
    assert seen(kafka_address, topic) == list(range(10))


@pytest.mark.slow
def test_a_transaction_that_takes_too_long(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    with writing(kafka_address, topic) as (sink, transactions):
        transactions._timeout = 1.0
        mark = sink.mark()
        sink.write(outputs(0, 20))
        sink.flush()
        time.sleep(13)  # brokers look for such ones every ten seconds
        with pytest.raises(ConnectorError, match="open for longer than 1 s"):
            sink.mark()
    with writing(kafka_address, topic) as (again, transactions):
        transactions.settle(mark)
        again.rewind(mark)
        again.write(outputs(0, 20))
        again.mark()
    assert seen(kafka_address, topic) == list(range(20))


def test_offsets_are_committed_with_what_was_written(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    events, topic = kafka_topic(), kafka_topic()
    name = f"{events}:0"

    def member() -> KafkaSource:
        one = KafkaSource((kafka_address,), events, group=f"g-{events}", session_timeout=6.0)
        deadline = time.monotonic() + 60
        while not one.partitions():
            assert time.monotonic() < deadline
            one.poll(1, 0.2)
        return one

    with closing(member()) as source:
        with writing(kafka_address, topic, source=source) as (sink, transactions):
            assert source.committed(name) is None
            sink.write(outputs(0, 10))
            mark = sink.mark()
            assert seen(kafka_address, topic) == []
            source.commit({name: 10}, {name: "ten"})
            assert seen(kafka_address, topic) == list(range(10))
            assert source.committed(name) == (10, "ten")
            source.commit({name: 11}, {name: "eleven"})  # nothing was written
            assert source.committed(name) == (11, "eleven")
            sink.write(outputs(10, 20))
            sink.mark()
            transactions.settle(mark)
            assert source.committed(name) == (11, "eleven")
    assert seen(kafka_address, topic) == list(range(10))


def test_a_member_that_lost_its_partitions_commits_nothing(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    events, topic = kafka_topic(), kafka_topic()
    name, group = f"{events}:0", f"g-{events}"
    options = {"group": group, "group_instance_id": "a", "session_timeout": 6.0}

    def until_owned(one: KafkaSource) -> None:
        deadline = time.monotonic() + 60
        while not one.partitions():
            assert time.monotonic() < deadline
            one.poll(1, 0.2)

    with (
        closing(KafkaSource((kafka_address,), events, **options)) as zombie,
        writing(kafka_address, topic, source=zombie) as (sink, transactions),
    ):
        until_owned(zombie)
        mark = sink.mark()
        sink.write(outputs(0, 10))
        sink.mark()
        with closing(KafkaSource((kafka_address,), events, **options)) as heir:
            until_owned(heir)
            with pytest.raises(Revoked):
                zombie.commit({name: 10}, {name: "zombie"})
            transactions.settle(mark)
            assert heir.committed(name) is None
    assert seen(kafka_address, topic) == []


def test_what_cannot_be_in_one_transaction(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    options = {"group": "g", "isolation_level": "read_uncommitted"}
    with (
        closing(KafkaSource((kafka_address,), topic, **options)) as source,
        closing(KafkaSink((kafka_address,), topic)) as sink,
        pytest.raises(BadURL, match="isolation_level=read_committed"),
    ):
        sink.transact(source, [], 1.0)


def test_one_client_for_all(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.undo()  # all clients again
    topic = kafka_topic()
    with (
        closing(KafkaSink((kafka_address,), topic, client="confluent")) as one,
        closing(KafkaSink((kafka_address,), topic, client="kafka-python")) as other,
        pytest.raises(BadURL, match="one cluster and one client"),
    ):
        one.transact(NO_GROUP, [other], 1.0)
