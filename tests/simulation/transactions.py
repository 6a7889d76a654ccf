"""What brokers of Kafka know of transactions: topics with markers, and their coordinator.

An epoch belongs to a producer, not to a transaction, as before Kafka 4.0: a request to commit that
comes late ends whatever the producer has open by then. The markers of an end are written one by one
after it was decided, so that outputs and offsets become visible at different moments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .broker import Broker
from .world import World

Target = tuple[str, int]
"""A topic and the number of a partition."""
OFFSETS: Target = ("__consumer_offsets", 0)
"""Where offsets of the group are written."""


class Refused(Exception):
    """A request that the brokers refuse: "fenced", "moved on", or "state" for one out of turn."""

    def __init__(self, kind: Literal["fenced", "moved on", "state"], text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Concurrent(Exception):
    """A transaction of this producer comes to its end just now: ask again."""


class Record(NamedTuple):
    """What a producer writes."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


class Entry(NamedTuple):
    """A record in a partition, or a marker; `producer` is a number that no other one has."""

    offset: int
    producer: int
    record: Record | None
    committed: bool = False


@dataclass
class Topic:
    """The partitions of a topic of outputs."""

    partitions: list[list[Entry]]
    open: list[dict[int, int]] = field(default_factory=list)
    """Of each partition the first offsets of open transactions, by producer."""
    aborted: list[list[tuple[int, int, int]]] = field(default_factory=list)
    """Of each partition the producers, first offsets and markers of what was aborted."""

    @classmethod
    def of(cls, n: int) -> Topic:
        """A topic of so many partitions."""
        return cls(*([kind() for _ in range(n)] for kind in (list, dict, list)))

    def append(self, number: int, producer: int, record: Record) -> None:
        """Write a record of a transaction."""
        partition = self.partitions[number]
        self.open[number].setdefault(producer, len(partition))
        partition.append(Entry(len(partition), producer, record))

    def mark(self, number: int, producer: int, *, commit: bool) -> None:
        """Write the marker that ends a transaction in a partition."""
        partition = self.partitions[number]
        first = self.open[number].pop(producer, None)
        if first is not None and not commit:
            self.aborted[number].append((producer, first, len(partition)))
        partition.append(Entry(len(partition), producer, None, commit))

    def end(self, number: int, *, committed: bool) -> int:
        """One past the last offset that can be read."""
        end = len(self.partitions[number])
        return min([*self.open[number].values(), end]) if committed else end

    def read(self, number: int, start: int, stop: int) -> Iterator[tuple[int, Record]]:
        """The committed records among some offsets, below the end of what is committed."""
        for entry in self.partitions[number][start:stop]:
            if entry.record is None:
                continue
            if not any(
                producer == entry.producer and first <= entry.offset < last
                for producer, first, last in self.aborted[number]
            ):
                yield entry.offset, entry.record


@dataclass
class Identity:
    """What the coordinator knows of a transactional identifier."""

    producer: int
    epoch: int = 0
    timeout: float = 0.0
    state: Literal["empty", "open", "ending"] = "empty"
    since: float = 0.0
    targets: set[Target] = field(default_factory=set)
    offsets: dict[str, tuple[int, str]] = field(default_factory=dict)
    commits: bool | None = None
    """Whether the transaction at its end, or the last one, was committed."""


class Held(NamedTuple):
    """The name and epoch that a producer believes to be its own."""

    name: str
    epoch: int


class Coordinator:
    """Topics of outputs, and the coordinator of the transactions in which they are written.

    `broker`: has the group, whose offsets are in them.
    """

    def __init__(self, broker: Broker, topics: Mapping[str, Topic]) -> None:
        self.broker, self.topics = broker, topics
        self.world: World = broker.world
        self.away_until = 0.0
        """No broker answers until then."""
        self._identities: dict[str, Identity] = {}
        self._pending: defaultdict[str, set[str]] = defaultdict(set)
        """The transactional identifiers whose transactions have an offset, by partition."""
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    # --- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what has come due, in the order of time."""
        now = self.world.now
        if now < self.away_until:
            return
        while True:
            ends = [
                (one.since + one.timeout, 0, one)
                for one in self._identities.values()
                if one.state == "open"
            ]
            overdue = min(ends, default=None, key=lambda end: end[0])
            if self._later and (overdue is None or self._later[0][0] <= overdue[0]):
                if self._later[0][0] > now:
                    return
                self._later.pop(0)[2]()
            elif overdue is not None and overdue[0] <= now:
                self.world.note(None, "transaction timed out")
                self._fence(overdue[2])
            else:
                return

    def later(self, seconds: float, happen: Callable[[], None]) -> None:
        """Have something happen at another time."""
        self._count += 1
        due = self.world.now + seconds, self._count, happen
        self._later.insert(bisect_left(self._later, due[:2], key=lambda one: one[:2]), due)

    def settle(self) -> None:
        """Let time pass until every transaction has ended."""
        while self._later or any(one.state != "empty" for one in self._identities.values()):
            self.world.now += 1.0
            self.tick()

    def restart(self, seconds: float) -> None:
        """The brokers are away for some time; sessions begin anew after it."""
        self.away_until = self.world.now + seconds
        for seat in self.broker.seats.values():
            seat.heard = max(seat.heard, self.away_until)
        if self.broker.preparing is not None:
            self.broker.preparing = max(
                self.broker.preparing, self.away_until + self.broker.session
            )

    # --- requests of producers --------------------------------------------------------------------

    def begin_as(self, name: str, timeout: float) -> Held:
        """Begin with an identifier, with an epoch that nobody has had."""
        identity = self._identities.setdefault(name, Identity(len(self._identities)))
        if identity.state == "open":
            self._fence(identity)
        if identity.state == "ending":
            raise Concurrent
        identity.epoch += 1
        identity.timeout = timeout
        identity.commits = None
        return Held(name, identity.epoch)

    def add(self, held: Held, target: Target) -> None:
        """Have a partition in the transaction, which begins with the first one."""
        identity = self._of(held)
        if identity.state == "ending":
            raise Concurrent
        if identity.state == "empty":
            identity.state, identity.since = "open", self.world.now
        identity.targets.add(target)

    def append(self, held: Held, target: Target, record: Record) -> None:
        """Write a record, if its transaction is open."""
        identity = self._of(held)
        if identity.state != "open" or target not in identity.targets:
            raise Refused("fenced", "the transaction of this record was ended")
        self.topics[target[0]].append(target[1], identity.producer, record)

    def add_offsets(
        self, held: Held, offsets: Mapping[str, tuple[int, str]], member: str, generation: int
    ) -> None:
        """Have offsets of a member in the transaction, in its present generation."""
        identity = self._of(held)
        if identity.state != "open" or OFFSETS not in identity.targets:
            raise Refused("fenced", "the transaction of these offsets was ended")
        if not self.broker.admits(member, generation):
            self.world.note(None, "fenced", member)
            raise Refused("moved on", f"generation {generation} is not the present one")
        identity.offsets.update(offsets)
        for partition in offsets:
            self._pending[partition].add(held.name)

    def end(self, held: Held, *, commit: bool) -> None:
        """Decide how the transaction ends; asked for again, it answers the same."""
        identity = self._of(held)
        if identity.state == "open":
            self._end(identity, commit=commit)
        elif identity.commits is not commit:
            raise Refused("state", "there is no transaction to be ended so")
        elif identity.state == "ending":
            raise Concurrent

    def unstable(self, partition: str) -> bool:
        """Whether a transaction that has not ended has an offset of a partition."""
        return bool(self._pending[partition])

    def _of(self, held: Held) -> Identity:
        identity = self._identities[held.name]
        if identity.epoch != held.epoch:
            self.world.note(None, "producer fenced", held.name[:16])
            raise Refused("fenced", f"epoch {held.epoch}, the last one is {identity.epoch}")
        return identity

    # --- ends -------------------------------------------------------------------------------------

    def _fence(self, identity: Identity) -> None:
        identity.epoch += 1
        self._end(identity, commit=False)

    def _end(self, identity: Identity, *, commit: bool) -> None:
        """Decide, and have the markers written one after the other."""
        identity.state, identity.commits = "ending", commit
        rng = self.world.random
        targets = rng.sample(sorted(identity.targets), len(identity.targets))
        delay = 0.0
        for target in targets:
            delay += rng.choice((0.0, 0.002, 0.2))
            self.later(delay, lambda target=target: self._mark(identity, target))  # type: ignore[misc]

    def _mark(self, identity: Identity, target: Target) -> None:
        commit = bool(identity.commits)
        if target == OFFSETS:
            for partition, (offset, metadata) in identity.offsets.items():
                if commit:
                    self.broker.take(partition, offset, metadata)
            for names in self._pending.values():
                names -= {name for name, one in self._identities.items() if one is identity}
            identity.offsets.clear()
        else:
            self.topics[target[0]].mark(target[1], identity.producer, commit=commit)
        identity.targets.discard(target)
        if not identity.targets:
            identity.state = "empty"
