"""Sinks that write in transactions, by every client: what is seen, when, and who may go on."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from crash_kit import MakeTopic
from kafka_kit import inputs, until

from connectors.base import Output, Transactional
from connectors.errors import BadURL, ConnectorError, Revoked
from connectors.kafka import KafkaSink, KafkaSource, Security
from connectors.kafka import transaction as transactions_module
from connectors.memory import MemorySink, MemorySource

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("kafka_client"),
]

NO_GROUP: Any = MemorySource([{"x": 1.0}])


def outputs(start: int, stop: int) -> list[Output]:
    return [Output("clicks:3", i, i, None, {"prediction": i}) for i in range(start, stop)]


@contextmanager
def writing(
    address: str,
    name: str,
    *topics: str,
    source: Any = NO_GROUP,
    seconds: float = 10.0,
    **options: Any,
) -> Iterator[Any]:
    """A sink for each topic, and the transactions that they share, at the end."""
    sinks = [KafkaSink((address,), topic, **options) for topic in topics]
    try:
        assert isinstance(sinks[0], Transactional)
        transactions = sinks[0].transact(source, [*sinks[1:], MemorySink()], seconds)
        transactions.begin_as(name)
        yield [*sinks, transactions]
    finally:
        for sink in sinks:
            sink.close()


def expect(address: str, topic: str, right: list[int]) -> None:
    """Wait until a reader of what is committed sees it, and check that he sees nothing else.

    The answer to a commit comes before the brokers have told the end of the transaction to the
    partitions.
    """
    until(lambda: len(inputs(address, topic)) >= len(right))
    assert inputs(address, topic) == right


def member(address: str, topic: str, **options: Any) -> KafkaSource:
    """A source that has the partitions of its group."""
    one = KafkaSource((address,), topic, group=f"g-{topic}", session_timeout=6.0, **options)
    until(lambda: one.poll(1, 0.2) is not None and bool(one.partitions()))
    return one


def test_all_of_a_transaction_is_seen_at_once(kafka_address: str, kafka_topic: MakeTopic) -> None:
    scores, letters = kafka_topic(2), kafka_topic()
    with writing(kafka_address, scores, scores, letters) as (sink, dead, _):
        assert sum(sink.mark()["ends"].values()) == 0
        for part in range(3):
            sink.write(outputs(10 * part, 10 * part + 10))
            dead.write(outputs(part, part + 1))
            sink.flush()
            dead.flush()
            assert inputs(kafka_address, scores, "read_uncommitted") == list(range(10 * part + 10))
            assert inputs(kafka_address, scores) == list(range(10 * part))
            assert inputs(kafka_address, letters) == list(range(part))
            (sink if part else dead).mark()
            expect(kafka_address, scores, list(range(10 * part + 10)))
            expect(kafka_address, letters, list(range(part + 1)))
        sink.write(outputs(30, 40))
        sink.flush()
    # What no mark was taken after is aborted, and nobody waits for it.
    assert inputs(kafka_address, scores) == list(range(30))
    assert inputs(kafka_address, letters) == [0, 1, 2]
    assert inputs(kafka_address, scores, "read_uncommitted") == list(range(40))


def test_a_sink_goes_back(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    with writing(kafka_address, topic, topic) as (sink, _):
        sink.write(outputs(0, 10))
        mark = sink.mark()
        sink.write(outputs(10, 20))
        sink.rewind(mark)
        sink.write(outputs(10, 30))
        sink.mark()
    expect(kafka_address, topic, list(range(30)))


def test_what_was_committed_after_the_mark_is_not_written_again(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    """As where a process dies between its transaction and its checkpoint, here twice."""
    topic = kafka_topic(3)
    with writing(kafka_address, topic, topic) as (sink, _):
        mark = sink.mark()
        sink.write(outputs(0, 20))
        sink.mark()
        sink.write(outputs(20, 30))
        sink.flush()
        with writing(kafka_address, topic, topic) as (heir, _):
            heir.rewind(mark)
            heir.write(outputs(0, 30))
            heir.mark()
            with writing(kafka_address, topic, topic) as (last, _):
                last.rewind(mark)
                last.write(outputs(0, 40))
                last.mark()
    expect(kafka_address, topic, list(range(40)))


def go_on(sink: KafkaSink, act: str) -> None:
    """Write and commit until that is refused: the brokers look at it when it has come to them."""
    for _ in range(100):
        if act != "mark":
            sink.write(outputs(20, 40))
            sink.flush()
        sink.mark()


@pytest.mark.parametrize("act", ["mark", "write", "begin"])
def test_one_that_was_replaced_writes_nothing_more(
    act: str, kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    with writing(kafka_address, topic, topic) as (sink, transactions):
        mark = sink.mark()
        if act != "begin":
            sink.write(outputs(0, 20))
            sink.flush()
        with writing(kafka_address, topic, topic) as (heir, _):
            heir.rewind(mark)
            heir.write(outputs(0, 5))
            heir.mark()
            with pytest.raises(ConnectorError, match=f"transactional identifier streamk-{topic}"):
                go_on(sink, act)
            with pytest.raises(ConnectorError, match=f"transactional identifier streamk-{topic}"):
                transactions.begin_as(topic)  # the heir goes on, undisturbed
            heir.write(outputs(5, 10))
            heir.mark()
            expect(kafka_address, topic, list(range(10)))
    expect(kafka_address, topic, list(range(10)))


def test_a_transaction_that_takes_too_long(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions_module, "_MARGIN", 0.4)
    topic = kafka_topic()
    short: Any = {"delivery_timeout": 1.0, "seconds": 0.1}
    with writing(kafka_address, topic, topic, **short) as (sink, _):
        mark = sink.mark()
        sink.write(outputs(0, 20))
        sink.flush()
        with closing(KafkaSource((kafka_address,), topic)) as reader:
            until(lambda: reader.end(f"{topic}:0") > 20)  # the brokers have aborted it
        with pytest.raises(ConnectorError, match=r"took longer than 1\.5 s"):
            sink.mark()
    with writing(kafka_address, topic, topic) as (again, _):
        again.rewind(mark)
        again.write(outputs(0, 20))
        again.mark()
    expect(kafka_address, topic, list(range(20)))


def test_a_new_producer_follows_an_answer_that_is_lost(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit came through and nobody knows: the next producer ends it, and the topic tells."""
    topic = kafka_topic()
    with writing(kafka_address, topic, topic) as (sink, transactions):
        mark = sink.mark()
        sink.write(outputs(0, 20))
        producer = transactions._producer
        commit = producer.commit

        def lost() -> None:
            commit()
            raise sink.link.client.error(_timed_out(sink))

        monkeypatch.setattr(producer, "commit", lost)
        with pytest.raises(ConnectorError, match="committing a transaction"):
            sink.mark()
        assert transactions.is_open
        transactions.begin_as(topic)
        assert transactions._producer is not producer
        sink.rewind(mark)
        sink.write(outputs(0, 30))
        sink.mark()
    expect(kafka_address, topic, list(range(30)))


def _timed_out(sink: KafkaSink) -> Any:
    """The argument of an error of the client."""
    if sink.link.client.error.__name__ != "KafkaException":
        return "no answer"
    from confluent_kafka import KafkaError

    return KafkaError(KafkaError._TIMED_OUT)


def test_a_new_producer_follows_a_slow_commit(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions_module, "_SURE", 0.0)
    topic = kafka_topic()
    with writing(kafka_address, topic, topic) as (sink, transactions):
        used = set()
        for part in range(3):
            sink.write(outputs(part, part + 1))
            used.add(transactions._producer)
            sink.mark()
        assert len(used) == 3
    expect(kafka_address, topic, [0, 1, 2])


def test_what_another_process_committed_while_a_commit_was_slow(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on from the same checkpoint: the one that was slow has been replaced, and ends."""
    topic = kafka_topic()
    with writing(kafka_address, topic, topic) as (sink, transactions):
        mark = sink.mark()
        monkeypatch.setattr(transactions_module, "_SURE", 0.0)
        sink.write(outputs(0, 10))
        sink.mark()  # nobody has come between
        sink.write(outputs(10, 20))
        commit = transactions._producer.commit

        def slow() -> None:
            commit()
            monkeypatch.setattr(transactions_module, "_SURE", 60.0)
            with writing(kafka_address, topic, topic) as (other, _):
                other.rewind(mark)
                other.write(outputs(0, 25))
                other.mark()
            monkeypatch.setattr(transactions_module, "_SURE", 0.0)

        monkeypatch.setattr(transactions._producer, "commit", slow)
        with pytest.raises(ConnectorError, match="another process had begun"):
            sink.mark()
        with pytest.raises(ConnectorError, match="another process had begun"):
            sink.write(outputs(20, 30))
    expect(kafka_address, topic, list(range(25)))


def test_outputs_of_another_process_are_in_no_mark_of_one_that_was_replaced(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    """It has nothing to write, so no broker tells it."""
    topic = kafka_topic()
    with writing(kafka_address, topic, topic) as (sink, _):
        sink.write(outputs(0, 10))
        mark = sink.mark()
        with writing(kafka_address, topic, topic) as (other, _):
            other.rewind(mark)
            other.write(outputs(10, 20))
            other.mark()
        late = sink.mark()
    with writing(kafka_address, topic, topic) as (last, _):
        last.rewind(late)
        last.write(outputs(10, 30))
        last.mark()
    expect(kafka_address, topic, list(range(30)))


def test_offsets_are_committed_with_what_was_written(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    events, topic = kafka_topic(), kafka_topic()
    name = f"{events}:0"
    with (
        closing(member(kafka_address, events)) as source,
        writing(kafka_address, topic, topic, source=source) as (sink, transactions),
    ):
        assert source.committed(name) is None
        sink.write(outputs(0, 10))
        sink.mark()
        assert inputs(kafka_address, topic) == []
        source.commit({name: 10}, {name: "ten"})
        expect(kafka_address, topic, list(range(10)))
        assert source.committed(name) == (10, "ten")
        source.commit({name: 11}, {name: "eleven"})  # nothing was written
        assert source.committed(name) == (11, "eleven")
        sink.write(outputs(10, 20))
        sink.mark()
        transactions.begin_as(topic)
        assert source.committed(name) == (11, "eleven")
    expect(kafka_address, topic, list(range(10)))


def test_a_member_that_lost_its_partitions_commits_nothing(
    kafka_address: str, kafka_topic: MakeTopic
) -> None:
    events, topic = kafka_topic(), kafka_topic()
    name = f"{events}:0"
    join = functools.partial(member, kafka_address, events, group_instance_id="a")
    with (
        closing(join()) as zombie,
        writing(kafka_address, topic, topic, source=zombie) as (sink, transactions),
    ):
        sink.write(outputs(0, 10))
        sink.mark()
        with closing(join()) as heir:
            with pytest.raises(Revoked):
                zombie.commit({name: 10}, {name: "zombie"})
            transactions.begin_as(topic)
            assert heir.committed(name) is None
    assert inputs(kafka_address, topic) == []


def test_offsets_in_an_open_transaction_are_waited_for(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process dies while it commits, and another has its partitions next."""
    monkeypatch.setattr(transactions_module, "_MARGIN", 0.4)
    events, topic = kafka_topic(), kafka_topic()
    name = f"{events}:0"
    short: Any = {"delivery_timeout": 1.0, "seconds": 0.1}
    with (
        closing(member(kafka_address, events)) as source,
        writing(kafka_address, topic, topic, source=source, **short) as (sink, transactions),
    ):
        source.commit({name: 10}, {name: "ten"})
        sink.write(outputs(10, 20))
        sink.mark()
        wanted = source._reader.for_transaction({0: (20, "twenty")})
        transactions._producer.add_offsets(*wanted)
        assert source.committed(name) == (10, "ten")
        # Once that is told, the brokers have aborted it, and with it what was written.
        with pytest.raises(ConnectorError, match=r"took longer than 1\.5 s"):
            source.commit({name: 20}, {name: "twenty"})
    assert inputs(kafka_address, topic) == []


def test_what_cannot_be_in_one_transaction(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka_topic()
    loose = {"group": "g", "isolation_level": "read_uncommitted"}

    def opened(**options: Any) -> KafkaSink:
        return KafkaSink((kafka_address,), topic, **options)

    with (
        closing(KafkaSource((kafka_address,), topic, **loose)) as source,
        closing(opened()) as sink,
        closing(opened(delivery_timeout=870.0)) as patient,
        closing(opened()) as other,
    ):
        with pytest.raises(BadURL, match="isolation_level=read_committed"):
            sink.transact(source, [], 1.0)
        with pytest.raises(BadURL, match=r"delivery_timeout=870 .* at most 869"):
            patient.transact(NO_GROUP, [], 1.0)
        bob = Security({"sasl_plain_username": "bob"})
        monkeypatch.setattr(
            other, "link", other.link._replace(cluster=replace(other.link.cluster, security=bob))
        )
        with pytest.raises(BadURL, match="one set of credentials"):
            sink.transact(NO_GROUP, [other], 1.0)
    pytest.importorskip("confluent_kafka")
    monkeypatch.undo()  # all clients again
    with (
        closing(opened(client="confluent")) as sink,
        closing(opened(client="kafka-python")) as other,
        pytest.raises(BadURL, match="one client"),
    ):
        sink.transact(NO_GROUP, [other], 1.0)
