"""A topic is known by its identifier, whatever brokers say for a moment."""

from __future__ import annotations

import time
from typing import Any

import pytest

from connectors.errors import ConnectorError
from connectors.kafka import KafkaSource
from connectors.kafka.client import Gone
from connectors.kafka.cluster import Description, TopicWatch


class Topic:
    """A topic, asked by a clock of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: str | None = "one"
        self.numbers: tuple[int, ...] = ()
        self._now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self._now)
        self.watch = TopicWatch("clicks", lambda: Description(self.said, self.numbers))

    def look(self, *said: str | None, seconds: float = 1.0) -> None:
        for self.said in said:
            self.watch.look()
            self.watch.check()
            self._now += seconds


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    return Topic(monkeypatch)


def test_the_same_topic_and_brokers_that_say_nothing_are_no_fault(topic: Topic) -> None:
    topic.look("one", None, "one", None, None, "one", seconds=60.0)
    assert topic.watch.identity() == "one"


def test_another_identifier_is_another_topic(topic: Topic) -> None:
    topic.look("one")
    with pytest.raises(ConnectorError, match="topic 'clicks' was deleted and made anew while"):
        topic.look("two")
    with pytest.raises(ConnectorError):  # that it is there again changes nothing
        topic.look("one")
    assert topic.watch.identity() == "one"


def test_a_topic_that_is_unknown_for_a_moment_is_there(topic: Topic) -> None:
    """As to a broker that has just started."""
    topic.look("one", "", "", "", "one", "", "", "", "one")


def test_a_topic_that_stays_unknown_is_gone(topic: Topic) -> None:
    topic.look("one", "", "", "", "", "")
    with pytest.raises(ConnectorError, match="topic 'clicks' was deleted while it was read"):
        topic.look("")


@pytest.mark.parametrize("said", ["one", None])
def test_partitions_are_seen(topic: Topic, said: str | None) -> None:
    for topic.numbers in ((0, 1), (0, 1, 2), ()):
        topic.look(said)
    assert topic.watch.numbers == {0, 1, 2}


def test_partitions_of_another_topic_are_not(topic: Topic) -> None:
    topic.look("one")
    topic.numbers = (0, 1, 2)
    with pytest.raises(ConnectorError):
        topic.look("two")
    assert not topic.watch.numbers


def test_brokers_without_identifiers_are_never_a_fault(topic: Topic) -> None:
    topic.look(None, None, "", "", seconds=60.0)
    assert topic.watch.identity() is None


class _Reader:
    """A reader of a topic that was made anew, of which an answer under way does not know yet."""

    def __init__(self) -> None:
        self.said = ["one", "one", "two"]

    def numbers(self) -> tuple[int, ...]:
        return (0,)

    def describe(self) -> Description:
        return Description(self.said.pop(0) if len(self.said) > 1 else self.said[0])

    def read(self, max_events: int, timeout: float) -> list[Any]:
        raise Gone(0, 100)

    def start(self, number: int) -> int:
        return 0

    def ends(self, numbers: Any) -> dict[int, int]:
        return {0: 30}

    def _nothing(self, *_: Any) -> None:
        pass

    take = place = close = _nothing


class _Client:
    error = OSError

    def reader(self, *_: Any) -> _Reader:
        return _Reader()


def test_an_offset_that_another_topic_lacks_is_not_one_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.kafka.client.choose", lambda _: _Client())
    source = KafkaSource(("localhost:1",), "clicks")
    assert source.identity("clicks:0", 0) == "one"
    with pytest.raises(ConnectorError, match="was deleted and made anew while it was read"):
        source.poll(10, 0.0)
