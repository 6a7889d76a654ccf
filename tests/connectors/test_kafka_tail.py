"""A sink that goes on after a crash: what stands in its topic is not written again."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest
from crash_kit import MakeTopic, read_all
from kafka_kit import admin, delete_before, inputs, producer, until

from connectors.base import Output
from connectors.errors import ConnectorError, Unavailable
from connectors.kafka import KafkaSink

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("kafka_client"),
]


def outputs(start: int, stop: int, value: str = "v", *, keyed: bool = False) -> list[Output]:
    return [
        Output("clicks:3", i, i, b"%d" % (i % 7) if keyed else None, {"prediction": f"{value}{i}"})
        for i in range(start, stop)
    ]


def sink(address: str, topic: str) -> Any:
    return closing(KafkaSink((address,), topic))


@pytest.mark.parametrize(("partitions", "keyed"), [(1, False), (3, True)])
def test_each_output_is_there_once(
    partitions: int, keyed: bool, kafka_address: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions)
    with sink(kafka_address, topic) as first:
        first.write(outputs(0, 100, keyed=keyed))
        mark = first.mark()
        first.write(outputs(100, 300, keyed=keyed))
    with sink(kafka_address, topic) as second:
        second.rewind(mark)
        second.write(outputs(100, 150, keyed=keyed))
        again = second.mark()
        assert again == mark  # where what is still to come again begins
        second.write(outputs(150, 310, keyed=keyed))
        assert sum(second.mark()["ends"].values()) == 310
    with sink(kafka_address, topic) as third:
        third.rewind(again)
        third.write(outputs(150, 320, keyed=keyed))
    assert inputs(kafka_address, topic) == list(range(320))


def test_the_end_is_asked_for_when_it_is_needed(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    with sink(kafka_address, kafka_topic()) as one:
        reader = one.link.client.reader
        monkeypatch.setattr(
            one.link.client, "reader", lambda *reading: asked.append(reading) or reader(*reading)
        )
        one.write(outputs(0, 5))
        one.flush()
        assert not asked
        one.mark()
        one.mark()
        assert len(asked) == 1


def test_other_writers_count_for_nothing(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    with sink(kafka_address, topic) as one, sink(kafka_address, topic) as other:
        mark = one.mark()
        other.write(outputs(0, 20))
        other.flush()
        with producer(kafka_address) as out:
            for i in range(20):
                out.send(topic, b"no JSON", headers=[("streamk-offset", b"%d" % i)])
                out.send(topic, None, key=b"k")
        one.write(outputs(0, 5))
        one.rewind(mark)
        one.write(outputs(0, 10))
        assert sum(one.mark()["ends"].values()) == 20 + 40 + 10


@pytest.mark.parametrize("late", [False, True])
def test_records_that_were_deleted_are_written_again(
    late: bool, kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`late`: they are deleted between asking for the start of the partition and reading there."""
    topic = kafka_topic()
    with sink(kafka_address, topic) as one:
        mark = one.mark()
        one.write(outputs(0, 20))
    delete_before(kafka_address, topic, 0, 15)
    with sink(kafka_address, topic) as again:
        if late:
            monkeypatch.setattr(again._tail._asking, "start", lambda _: 0)
        again.rewind(mark)
        again.write(outputs(0, 25))
    assert inputs(kafka_address, topic) == list(range(25))


def test_a_topic_that_was_made_anew(kafka_address: str, kafka_topic: MakeTopic) -> None:
    from kafka.admin import NewTopic

    topic = kafka_topic()
    with sink(kafka_address, topic) as one:
        one.write(outputs(0, 100))
        mark = one.mark()
    with admin(kafka_address) as client:
        client.delete_topics([topic])
        until(lambda: topic not in client.list_topics())
        client.create_topics([NewTopic(topic, 2, 1)])
    with sink(kafka_address, topic) as again:
        again.rewind(mark)
        again.write(outputs(100, 120))
        again.flush()
        again.rewind(mark)
        assert set(again.mark()["ends"].values()) == {0}
        again.write(outputs(100, 130))
    assert inputs(kafka_address, topic) == list(range(100, 130))


def test_a_mark_while_no_broker_answers(
    kafka_address: str, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of the last time that one did, behind which all that came later stands."""

    def silent() -> dict[int, int]:
        raise Unavailable("no broker answers")

    topic = kafka_topic()
    with sink(kafka_address, topic) as one:
        with monkeypatch.context() as patch:
            patch.setattr(one._tail, "ends", silent)
            with pytest.raises(Unavailable):
                one.mark()
        one.write(outputs(0, 10))
        before = one.mark()
        one.write(outputs(10, 20))
        monkeypatch.setattr(one._tail, "ends", silent)
        mark = one.mark()
        assert mark == before
        one.write(outputs(20, 30))
    with sink(kafka_address, topic) as again:
        again.rewind(mark)
        again.write(outputs(20, 40))
    assert inputs(kafka_address, topic) == list(range(40))


def test_partitions_that_came_later(kafka_address: str, kafka_topic: MakeTopic) -> None:
    from kafka.admin import NewPartitions

    topic = kafka_topic()
    with sink(kafka_address, topic) as one:
        one.write(outputs(0, 10))
        mark = one.mark()
    with admin(kafka_address) as client:
        client.create_partitions({topic: NewPartitions(4)})
    for _ in range(2):
        with sink(kafka_address, topic) as again:
            again.rewind(mark)
            again.write(outputs(10, 60))
            again.flush()
    assert inputs(kafka_address, topic) == list(range(60))


def test_only_what_was_committed_stands_there(kafka_address: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    with sink(kafka_address, topic) as one:
        mark = one.mark()
    headers = [
        ("streamk-writer", mark["writer"].encode()),
        ("streamk-topic", b"clicks"),
        ("streamk-partition", b"3"),
    ]
    with producer(kafka_address, transactional_id=f"x-{topic}") as out:
        out.init_transactions()
        for i, ending in enumerate([out.abort_transaction, out.commit_transaction]):
            out.begin_transaction()
            out.send(
                topic,
                b'{"prediction":"v%d"}' % i,
                headers=[*headers, ("streamk-offset", b"%d" % i)],
            )
            out.flush()
            if i == 0:
                ending()
        # The second one is open, and the sink waits for its end.
        asked = threading.Event()
        later = threading.Timer(1.0, lambda: (asked.set(), ending()))
        later.start()
        with sink(kafka_address, topic) as again:
            again.rewind(mark)
            assert asked.is_set()
            again.write(outputs(0, 3))
        later.join()
    found = sorted(one.value for one in read_all(kafka_address, topic))  # the aborted one, too
    assert found == [b'{"prediction":"v%d"}' % i for i in (0, 0, 1, 2)]


MARKS: list[Any] = [
    *(17, {}, {"writer": "x", "ends": {}}),
    *({"writer": "0" * 12, "ends": ends} for ends in ({"0": -1}, {"a": 1})),
    {"writer": "0" * 12, "ends": {}, "more": 1},
]


def test_marks_that_are_none(kafka_address: str, kafka_topic: MakeTopic) -> None:
    with sink(kafka_address, kafka_topic()) as one:
        for mark in MARKS:
            with pytest.raises(ConnectorError, match="not the mark of a topic"):
                one.rewind(mark)
