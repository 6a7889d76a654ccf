"""A topic is known by its identifier, whatever brokers say for a moment."""

from __future__ import annotations

import time

import pytest

from connectors.errors import ConnectorError
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
