"""Late labels, stated plainly: lists that are searched from their beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Arrived:
    """A record with the clock of its partition."""

    clock: int
    partition: str
    offset: int
    value: Any


@dataclass
class Waiting:
    key: Any
    value: Any
    """The place of an event, or the label of a label."""
    clock: int


@dataclass
class Over:
    key: Any
    answered: bool
    label: Any
    clock: int
    place: Any = None
    """Of an event that was learned."""


def in_order(partitions: dict[str, Sequence[tuple[int, Any]]]) -> list[Arrived]:
    """Records (timestamp, value) of partitions in the order in which they are taken."""
    found = []
    for name, records in partitions.items():
        clock = None
        for offset, (time, value) in enumerate(records):
            clock = time if clock is None else max(clock, time)
            found.append(Arrived(clock, name, offset, value))
    return sorted(found, key=lambda one: (one.clock, one.partition, one.offset))


class NaiveJoin:
    """Steps are ("predict", place, held) and ("learn", place, label), fates are counted by name."""

    def __init__(
        self, timeout: int | None, most: int, default: Any, revisions: str = "ignore"
    ) -> None:
        self.timeout, self.most, self.default = timeout, most, default
        self.learns_again = revisions == "learn"
        self.held: list[Waiting] = []
        self.early: list[Waiting] = []
        self.over: list[Over] = []
        self.steps: list[tuple[str, int, Any]] = []
        self.fates: dict[str, int] = {}

    def count(self, fate: str) -> None:
        self.fates[fate] = self.fates.get(fate, 0) + 1

    def close(self, key: Any, answered: bool, label: Any, clock: int, place: Any = None) -> None:
        if len(self.over) == self.most:
            self.over.pop(0)
        self.over.append(Over(key, answered, label, clock, place))

    def expire(self, clock: int) -> None:
        if self.timeout is None:
            return
        for event in list(self.held):
            if clock - event.clock > self.timeout:
                self.held.remove(event)
                if self.learns_again and self.default is not None:
                    self.close(event.key, True, self.default, clock, event.value)
                else:
                    self.close(event.key, False, None, clock)
                self.count("missing" if self.default is None else "defaulted")
                if self.default is not None:
                    self.steps.append(("learn", event.value, self.default))
        for label in list(self.early):
            if clock - label.clock > self.timeout:
                self.early.remove(label)
                self.count("unmatched")
        self.over = [one for one in self.over if clock - one.clock <= self.timeout]

    def event(self, key: Any, place: int, clock: int) -> None:
        self.expire(clock)
        if any(one.key == key for one in [*self.held, *self.over]):
            self.count("duplicate_events")
            self.steps.append(("predict", place, False))
            return
        if len(self.held) == self.most:
            oldest = self.held.pop(0)
            self.count("overflow")
            self.close(oldest.key, False, None, clock)
        self.steps.append(("predict", place, True))
        self.held.append(Waiting(key, place, clock))
        for label in list(self.early):
            if label.key == key:
                self.early.remove(label)
                self.count("early")
                self.answer(self.held.pop(), label.value, clock)

    def label(self, key: Any, label: Any, clock: int) -> None:
        self.expire(clock)
        for event in list(self.held):
            if event.key == key:
                self.held.remove(event)
                self.answer(event, label, clock)
                return
        known = [one.label for one in self.over if one.key == key]
        known += [one.value for one in self.early if one.key == key]
        if any(one.key == key and not one.answered for one in self.over):
            self.count("too_late")
        elif known:
            again = [one for one in self.over if one.key == key and self.learns_again]
            if known == [label]:
                self.count("duplicates")
            elif again:
                self.count("revised")
                self.over.remove(again[0])
                self.close(key, True, label, clock, again[0].place)
                self.steps.append(("learn", again[0].place, label))
            else:
                self.count("conflicts")
        else:
            if len(self.early) == self.most:
                self.early.pop(0)
                self.count("unmatched")
            self.early.append(Waiting(key, label, clock))

    def answer(self, event: Waiting, label: Any, clock: int) -> None:
        self.count("joined")
        self.close(event.key, True, label, clock, event.value)
        self.steps.append(("learn", event.value, label))
