"""A log of partitions, and the coordinator of the group that reads it.

Events become visible in bursts, partitions later than others, offsets have gaps, and old events
are deleted in some runs. The coordinator works as Kafka's with eager rebalances: whoever joins,
leaves or is not heard of for longer than the session begins a new generation, in which all members
give up their partitions and get others. A commit of an old generation is refused.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.errors import ConnectorError, Revoked

from .world import Simulated, World


class NotAnswered(Simulated, ConnectorError):
    """The broker's answer was lost, or it never got the question."""


@dataclass
class Log:
    """One partition.

    `arrivals`: when each event can be read, ascending.
    `gap`: offsets after the last event that hold none.
    `first`: the first offset that is not deleted.
    `born`: when the partition is there.
    """

    offsets: list[int]
    times: list[int]
    ids: list[int]
    arrivals: list[float]
    gap: int = 0
    first: int = 0
    born: float = 0.0

    def visible(self, now: float) -> int:
        """How many events there are by now."""
        return bisect_right(self.arrivals, now)

    def end(self, now: float) -> int:
        """One past the last offset there is."""
        n = self.visible(now)
        if not n:
            return 0
        return self.offsets[n - 1] + 1 + (self.gap if n == len(self.offsets) else 0)

    def read(self, offset: int, n: int, now: float) -> slice:
        """Where the next `n` events at or after an offset stand."""
        start = bisect_left(self.offsets, offset)
        return slice(start, max(start, min(start + n, self.visible(now))))

    def delete_before(self, offset: int) -> None:
        """Retention: forget all before an offset."""
        self.first = max(self.first, offset)


def make_logs(
    rng: random.Random, n: int, parts: int, *, begin: float, span: float, gaps: bool
) -> dict[str, Log]:
    """Logs with `n` events in all, of unequal length, that arrive within `span` seconds."""
    weights = [rng.uniform(0.2, 1.0) for _ in range(parts)]
    logs = {
        f"t:{k}": Log([], [], [], [], rng.choice((0, 0, 2)) if gaps else 0) for k in range(parts)
    }
    jumps = (1, 1, 1, 1, 2, 4) if gaps else (1,)
    delays = {name: rng.choice((0.0, 0.0, rng.uniform(0.0, span / 3))) for name in logs}
    clock = 0
    for _ in range(n):
        name = rng.choices(list(logs), weights)[0]
        log = logs[name]
        clock += rng.choice((0, 5, 10, 20))
        log.offsets.append(log.offsets[-1] + rng.choice(jumps) if log.offsets else 0)
        log.times.append(clock - rng.choice((0, 0, 30, 90)))
        log.ids.append(1_000_000 * int(name[2:]) + log.offsets[-1])
    for name, log in logs.items():
        bursts = sorted(begin + delays[name] + rng.uniform(0.0, span) for _ in log.offsets)
        size = rng.choice((1, 10, 40))
        # Of a burst all events come with its last one.
        last = len(bursts) - 1
        log.arrivals = [bursts[min(last, i - i % size + size - 1)] for i in range(len(bursts))]
    return logs


def bear_late(rng: random.Random, logs: Mapping[str, Log], *, begin: float, span: float) -> None:
    """Have some partitions come later than the others, with all their events after that."""
    first = rng.randint(1, len(logs))
    born = sorted(begin + rng.uniform(0.0, span) for _ in range(first, len(logs)))
    for log, at in zip(list(logs.values())[first:], born, strict=True):
        log.born = at
        log.arrivals = [max(at, arrival) for arrival in log.arrivals]


@dataclass
class Seat:
    """A member as the coordinator knows it."""

    heard: float
    generation: int = 0
    joined: bool = True
    partitions: tuple[str, ...] = ()


@dataclass
class Broker:
    """The logs and the group.

    `accepted`: every commit that was taken: (partition, offset, metadata).
    `written`: outputs of all members, in the order in which they arrived.
    `begun`: partitions on which a place is on record: nothing was deleted of them before that.
    """

    world: World
    logs: dict[str, Log]
    session: float = 3.0
    committed: dict[str, tuple[int, str]] = field(default_factory=dict)
    accepted: list[tuple[str, int, str]] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    generation: int = 0
    preparing: float | None = None
    seats: dict[str, Seat] = field(default_factory=dict)
    assign: Any = None

    # --- membership -------------------------------------------------------------------------

    def tick(self, member: str | None) -> None:
        """Hear of a member, give up those not heard of, and complete a rebalance that can be."""
        now = self.world.now
        if member in self.seats:
            self.seats[member].heard = now
        for name, seat in list(self.seats.items()):
            if now - seat.heard > self.session:
                self.world.note(None, "expelled", name)
                self.leave(name)
        if self.preparing is None or not self.seats:
            return
        if now >= self.preparing:
            for name in [name for name, seat in self.seats.items() if not seat.joined]:
                self.world.note(None, "expelled", name)
                del self.seats[name]
        if all(seat.joined for seat in self.seats.values()) and self.seats:
            self._complete()

    def join(self, member: str) -> None:
        """A member comes, or comes back in the course of a rebalance."""
        seat = self.seats.get(member)
        if seat is None:
            self.seats[member] = Seat(self.world.now)
            self.prepare()
        seat = self.seats[member]
        seat.joined, seat.partitions = True, ()
        self.tick(member)

    def leave(self, member: str) -> None:
        """A member goes."""
        if self.seats.pop(member, None) is not None:
            self.prepare()

    def prepare(self) -> None:
        """Begin a rebalance, if none is under way."""
        if self.preparing is None:
            self.world.happened["rebalance"] += 1
            self.preparing = self.world.now + self.session
            for seat in self.seats.values():
                seat.joined = seat.generation == 0

    def _complete(self) -> None:
        self.generation += 1
        self.preparing = None
        names = list(self.seats)
        shares = (self.assign or self._random_shares)(names)
        for name, seat in self.seats.items():
            seat.generation, seat.partitions = self.generation, tuple(sorted(shares[name]))
            seat.joined = False
        if self.world.trace:
            self.world.trace(f"{'':10} generation {self.generation}: {shares}")

    def _random_shares(self, names: list[str]) -> dict[str, list[str]]:
        """Give every member about as many partitions, or as chance wants it."""
        rng = self.world.random
        parts, shares = list(self.logs), {name: [] for name in names}  # type: ignore[var-annotated]
        rng.shuffle(parts)
        rng.shuffle(names)
        evenly = rng.random() < 0.7
        for i, part in enumerate(parts):
            shares[names[i % len(names)] if evenly else rng.choice(names)].append(part)
        return shares

    # --- offsets ----------------------------------------------------------------------------

    def commit(
        self, member: str, generation: int, offsets: Mapping[str, int], metadata: Any
    ) -> None:
        """Take a commit of the present generation. Raises `Revoked` for another one."""
        if not self.admits(member, generation):
            self.world.note(None, "fenced", member)
            raise Revoked(f"the group has moved on from generation {generation} (simulated)")
        for name, offset in offsets.items():
            self.take(name, offset, metadata if isinstance(metadata, str) else metadata[name])

    def admits(self, member: str, generation: int) -> bool:
        """Whether a member may commit, as one of a generation."""
        self.tick(member)
        seat = self.seats.get(member)
        return seat is not None and seat.generation == generation == self.generation

    def take(self, partition: str, offset: int, metadata: str) -> None:
        """Put a commit on record."""
        self.committed[partition] = (offset, metadata)
        self.accepted.append((partition, offset, metadata))
        self.begun.add(partition)
