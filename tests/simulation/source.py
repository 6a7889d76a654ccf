"""The `Source` that a simulated process reads: alone, or as a member of the group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from connectors.base import AssignedCallback, Chunk, Output, RevokedCallback, Rows, SourceBase
from connectors.errors import OffsetOutOfRange, Revoked
from connectors.files.sinks import NDJSONSink

from .broker import Broker, NotAnswered
from .world import World


class LoneSource(SourceBase):
    """Reads all partitions, by polls of any size.

    `name`: the process.
    `most`: events that a poll brings at most.
    `real`: events for a real learner: dicts of two numbers, a text and a label.
    """

    group: str | None = None

    def __init__(self, broker: Broker, name: str, *, most: int = 60, real: bool = False) -> None:
        self.broker, self.world, self.name = broker, broker.world, name
        self.encoding = "dict" if real else "rows"
        self.fields: tuple[str, ...] | None = None if real else ("id",)
        self._most = most
        self._mine = self._born()
        self._next = {name: log.first for name, log in broker.logs.items()}
        self._held: frozenset[str] = frozenset()

    def _born(self) -> tuple[str, ...]:
        """The partitions that are there by now."""
        now = self.world.now
        return tuple(name for name, log in self.broker.logs.items() if log.born <= now)

    def partitions(self) -> tuple[str, ...]:
        return self._mine

    def every(self) -> tuple[str, ...]:
        return tuple(self.broker.logs)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        world, rng = self.world, self.world.random
        world.step("poll")
        if self.group is None:
            if len(self._mine) < len(self.broker.logs) and rng.random() < 0.2:
                self._mine = self._born()
            self.broker.begun.update(self._mine)
        chunks: list[Chunk] = []
        left = min(max_events, rng.randint(1, self._most))
        for name in self._mine:
            self._check(name)
        for name in self._mine:
            if name in self._held or rng.random() < 0.4:
                continue
            chunk = self._read(name, left)
            if chunk is not None:
                chunks.append(chunk)
                left -= len(chunk)
        if not chunks:
            world.wait("idle", pause(timeout, rng.random()))
        return chunks

    def _read(self, name: str, n: int) -> Chunk | None:
        log, at = self.broker.logs[name], self._next[name]
        found = log.read(at, n, self.world.now)
        offsets, ids = log.offsets[found], log.ids[found]
        if not offsets:
            if log.read(at, 1, float("inf")).start == len(log.offsets):
                self._next[name] = max(at, log.end(self.world.now))  # past the gap
            return None
        self._next[name] = offsets[-1] + 1
        return Chunk(
            name,
            np.array(offsets, np.int64),
            np.array(log.times[found], np.int64),
            self._values(ids),
        )

    def _check(self, name: str) -> None:
        log, at = self.broker.logs[name], self._next[name]
        if not log.first <= at <= log.end(self.world.now):
            raise OffsetOutOfRange(
                f"{name} has no offset {at} (simulated)", partition=name, offset=at
            )

    def _values(self, ids: list[int]) -> Rows | list[dict[str, object]]:
        if self.encoding == "rows":
            return Rows(np.array(ids, np.float64).reshape(-1, 1), np.zeros(len(ids)))
        return [event_of(number) for number in ids]

    def seek(self, partition: str, offset: int) -> None:
        self._owned(partition)
        self._next[partition] = offset

    def hold(self, partitions: Collection[str]) -> None:
        self._held = frozenset(partitions)

    def position(self, partition: str) -> int:
        self._owned(partition)
        return self._next[partition]

    def start(self, partition: str) -> int:
        self.world.step("start")
        return self.broker.logs[partition].first

    def end(self, partition: str) -> int | None:
        self.world.step("end")
        return self.broker.logs[partition].end(self.world.now)

    def finished(self) -> bool:
        return False

    def set_rebalance(self, on_revoked: RevokedCallback, on_assigned: AssignedCallback) -> None:
        self._on_revoked, self._on_assigned = on_revoked, on_assigned

    def _owned(self, partition: str) -> None:
        if partition not in self._mine:
            raise Revoked(f"{partition} does not belong to {self.name} (simulated)")


class _GiveUp(Protocol):
    """Gives up all partitions; they are another one's already if they are lost."""

    def __call__(self, *, lost: bool) -> None: ...


class Membership:
    """The part of a process in the group.

    `generation`: that of the partitions that it has.
    """

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker, self._name = broker, name
        self.generation = 0

    def turn(self, give_up: _GiveUp, take: Callable[[tuple[str, ...]], None]) -> None:
        """Do what the group wants of the process by now."""
        broker = self._broker
        broker.tick(self._name)
        seat = broker.seats.get(self._name)
        if seat is None:
            give_up(lost=True)
            broker.join(self._name)
        elif broker.preparing is not None:
            if not seat.joined:
                give_up(lost=False)
                broker.join(self._name)
        elif seat.generation != self.generation:
            give_up(lost=True)
            self.generation = seat.generation
            take(seat.partitions)


class GroupSource(LoneSource):
    """Reads what the group gives it; the rebalances come during `poll`."""

    group = "g"

    def __init__(self, broker: Broker, name: str, *, most: int = 60, real: bool = False) -> None:
        super().__init__(broker, name, most=most, real=real)
        self._mine = ()
        self._member = Membership(broker, name)
        self._lost = False

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        self.world.step("group")
        self._member.turn(self._give_up, self._take)
        if not self._mine:
            self.world.wait("idle", pause(timeout, self.world.random.random()))
            return []
        return super().poll(max_events, timeout)

    def _give_up(self, *, lost: bool) -> None:
        """Tell the engine that all partitions go, as `KafkaSource` does."""
        if not self._mine:
            return
        self.world.step("revoked")
        self._lost = lost
        try:
            self._on_revoked(self._mine)
        finally:
            self._mine, self._lost = (), False

    def _take(self, partitions: tuple[str, ...]) -> None:
        self._mine = partitions
        self._held = frozenset()
        for name in partitions:
            committed = self.broker.committed.get(name)
            self._next[name] = committed[0] if committed else self.broker.logs[name].first
        self.world.step("assigned")
        self._on_assigned(partitions)

    def committed(self, partition: str) -> tuple[int, str] | None:
        self.world.step("committed")
        if self.world.faults.chance("no answer", self.world.random):
            self.world.note(None, "no answer", self.name)
            raise NotAnswered("asking for a committed offset: no answer (simulated)")
        return self.broker.committed.get(partition)

    def commit(self, offsets: Mapping[str, int], metadata: object) -> None:
        if not offsets:
            return
        world = self.world
        world.step("commit")
        if self._lost:
            raise Revoked("the group has given the partitions away (simulated)")
        for name in offsets:
            self._owned(name)
        if world.faults.chance("lost commit", world.random):
            world.note(None, "lost commit", self.name)
            raise NotAnswered("committing: no answer (simulated)")
        self.broker.commit(self.name, self._member.generation, offsets, metadata)
        if world.faults.chance("lost acknowledgement", world.random):
            world.note(None, "lost acknowledgement", self.name)
            raise NotAnswered("committing: no answer (simulated)")
        world.step("commit:taken")

    def close(self) -> None:
        if not self.world.gone():
            self.broker.leave(self.name)


def pause(timeout: float, share: float) -> float:
    """Seconds that a poll without events takes: sometimes much longer than it was asked to."""
    return 0.01 if timeout == 0.0 else 0.1 + 1.1 * share


def event_of(number: int) -> dict[str, object]:
    """The event of an identifier, for a real learner."""
    a, b = (number * 7919 % 4001) / 1000 - 2, (number * 104729 % 3989) / 1000 - 2
    return {
        "a": a,
        "b": b,
        "c": "xyz"[number % 3],
        "id": number,
        "y": "up" if a * b > 0 else "down",
    }


class FileSink(NDJSONSink):
    """The real sink for files, with steps at which its process may die."""

    def __init__(self, path: Path, world: World) -> None:
        self._world = world
        try:
            super().__init__(path)
        except BaseException:
            if hasattr(self, "_file"):
                self._file.close()  # as the system does
            raise

    def write(self, outputs: Sequence[Output]) -> None:
        self._world.step("write")
        super().write(outputs)

    def mark(self) -> int:
        self._world.step("mark")
        return super().mark()


class TopicSink:
    """A sink that delivers what was written at the latest when it is flushed.

    A process that dies has delivered some of the rest, or nothing.
    """

    address = "topic:out"

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker, self._world, self._name = broker, broker.world, name
        self._waiting: list[Output] = []

    def write(self, outputs: Sequence[Output]) -> None:
        self._world.step("write")
        self._waiting += outputs
        self._deliver(self._world.random.randint(0, len(self._waiting)))

    def flush(self) -> None:
        self._world.step("mark")
        self._deliver(len(self._waiting))

    def mark(self) -> None:
        self.flush()

    def rewind(self, mark: object) -> None:
        pass

    def close(self) -> None:
        if not self._world.gone():
            self._deliver(len(self._waiting))

    def _deliver(self, n: int) -> None:
        self._broker.written += [(self._name, output) for output in self._waiting[:n]]
        del self._waiting[:n]
