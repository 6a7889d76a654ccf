"""The interface of Kafka clients (`connectors.kafka.client`) to simulated brokers.

What is said to brokers is a step of the process, which may die before or after it. A request may
be lost, come late, or be answered late after it was sent twice; its answer may be lost, and all
brokers may be away for some time.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from connectors.kafka.client import (
    REQUEST_TIMEOUT,
    STABLE_TIMEOUT,
    Failures,
    Gone,
    Listener,
    Reading,
    Records,
    Transacting,
    Writing,
)
from connectors.kafka.cluster import Cluster, Description, Fault

from .broker import Broker, Log
from .source import Membership, event_of, pause
from .transactions import OFFSETS, Concurrent, Coordinator, Record, Refused, Target
from .world import Simulated, current

_T = TypeVar("_T")
_AGAIN_SECONDS = 1.0
"""Time without an answer after which a client asks again, so that brokers may be asked twice."""


class ClientError(Simulated, Exception):
    """The error of the library: "silent" where no answer came, else the kind of a refusal."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text} (simulated)")
        self.kind = kind
        process = current()
        if process is not None:
            process.harmed = True


def is_bad(number: int) -> bool:
    """Whether an event cannot be used."""
    return number % 17 == 5


class Client:
    """A library, as one process has it.

    `name`: the process.
    `most`: events that a poll brings at most.
    `real`: events for a real learner.
    """

    error: type[Exception] = ClientError

    def __init__(self, coordinator: Coordinator, name: str, *, most: int, real: bool) -> None:
        self.coordinator, self.name = coordinator, name
        self.broker, self.world = coordinator.broker, coordinator.world
        self.most, self.real = most, real

    def fault(self, error: Any) -> Fault:
        return {"silent": Fault.SILENT, "moved on": Fault.MOVED_ON}.get(error.kind, Fault.OTHER)

    def is_fenced(self, error: Any) -> bool:
        return error.kind == "fenced"

    def reader(self, cluster: Cluster, reading: Reading) -> Any:
        kind = InputReader if reading.topic == "t" else OutputReader
        return kind(self, reading)

    def writer(self, cluster: Cluster, writing: Writing) -> Writer:
        return Writer(self, writing, None)

    def producer(self, cluster: Cluster, transacting: Transacting) -> Producer:
        return Producer(self, transacting)

    def ask(
        self,
        label: str,
        request: Callable[[], _T],
        patience: float = REQUEST_TIMEOUT,
        *,
        faulty: bool = True,
    ) -> _T:
        """The answer to a request, asked again while brokers are away or another one is served."""
        world, coordinator, rng = self.world, self.coordinator, self.world.random
        world.step(label)
        deadline = world.now + patience
        if faulty:
            self._disturb(label, request, patience)
        found = self._answer(label, request, deadline)
        if faulty and self._chance("lost answer"):
            return self._unanswered(label, patience)
        if label == "commit:end" and self._chance("slow answer"):
            seconds = rng.uniform(0.0, 3.0)
            if seconds > _AGAIN_SECONDS:
                coordinator.later(rng.uniform(0.0, 5.0), lambda: _ignored(request))
            if seconds > patience:
                return self._unanswered(label, patience)
            world.wait(f"{label}:slow", seconds)
        world.step(f"{label}:answered")
        return found

    def _disturb(self, label: str, request: Callable[[], object], patience: float) -> None:
        """Let brokers go away, or the request come late or never."""
        coordinator, rng = self.coordinator, self.world.random
        if self._chance("brokers away"):
            coordinator.restart(rng.uniform(0.5, 8.0))
        if self._chance("lost request"):
            self._unanswered(label, patience)
        if self._chance("late request"):
            coordinator.later(rng.uniform(0.1, 2.0) * patience, lambda: _ignored(request))
            self._unanswered(label, patience)

    def _answer(self, label: str, request: Callable[[], _T], deadline: float) -> _T:
        """The answer of brokers that are there, and not at work for this producer."""
        world = self.world
        while True:
            self.tick()
            try:
                if world.now >= self.coordinator.away_until:
                    return request()
            except Concurrent:
                pass
            except Refused as refused:
                raise ClientError(refused.kind, str(refused)) from None
            if world.now >= deadline:
                raise ClientError("silent", f"{label}: no answer in time")
            world.wait(label, world.random.uniform(0.01, 0.1))

    def tick(self) -> None:
        """Let the brokers do what has come due."""
        self.coordinator.tick()

    def _chance(self, kind: str) -> bool:
        found = self.world.faults.chance(kind, self.world.random)
        if found:
            self.world.note(current(), kind)
        return found

    def _unanswered(self, label: str, patience: float) -> Any:
        self.world.wait(f"{label}:unanswered", patience)
        raise ClientError("silent", f"{label}: no answer in {patience:g} s")


def _ignored(request: Callable[[], object]) -> None:
    """Have brokers serve a request whose answer nobody hears."""
    with contextlib.suppress(Refused, Concurrent):
        request()


class _Reader:
    """What readers of inputs and of outputs have in common."""

    def __init__(self, client: Client, reading: Reading) -> None:
        self._client, self._reading = client, reading
        self._positions: dict[int, int] = {}

    def topics(self) -> set[str]:
        return {"t", *self._client.coordinator.topics}

    def take(self, numbers: Iterable[int]) -> None:
        self._positions |= {number: self.start(number) for number in numbers}

    def place(self, number: int, offset: int | None) -> None:
        self._positions[number] = self.start(number) if offset is None else offset

    def position(self, number: int) -> int:
        return self._positions[number]

    def start(self, number: int) -> int:
        raise NotImplementedError

    def cluster_id(self) -> str:
        return "simulated"

    def describe(self) -> Description:
        return Description(f"id of {self._reading.topic}", self.numbers())

    def numbers(self) -> Collection[int]:
        raise NotImplementedError

    def connected(self) -> bool:
        return True

    def close(self) -> None:
        pass


class OutputReader(_Reader):
    """Reads a topic of outputs."""

    def numbers(self) -> Collection[int]:
        return range(len(self._topic.partitions))

    def ends(self, numbers: Collection[int]) -> Mapping[int, int]:
        committed = self._reading.isolation_level == "read_committed"

        def found() -> dict[int, int]:
            return {number: self._topic.end(number, committed=committed) for number in numbers}

        return self._client.ask("ends", found, faulty=False)

    def start(self, number: int) -> int:
        return 0

    def read(self, max_events: int, timeout: float) -> list[Records]:
        client, found = self._client, []
        client.tick()
        for number, start in self._positions.items():
            stop = min(self._topic.end(number, committed=True), start + max_events)
            some = list(self._topic.read(number, start, stop))
            self._positions[number] = max(start, stop)
            if some:
                records = [record for _, record in some]
                found.append(
                    Records(
                        number,
                        [offset for offset, _ in some],
                        [0] * len(some),
                        [record.key for record in records],
                        [record.value for record in records],
                        [record.headers for record in records],
                    )
                )
        if not found:
            client.world.wait("tail", timeout)
        return found

    @property
    def _topic(self) -> Any:
        return self._client.coordinator.topics[self._reading.topic]


class InputReader(_Reader):
    """Reads the logs, whole or as a member of the group."""

    def __init__(self, client: Client, reading: Reading) -> None:
        super().__init__(client, reading)
        self._broker: Broker = client.broker
        self._member = Membership(client.broker, client.name)
        self._listener: Listener | None = None
        self._held: set[int] = set()

    def numbers(self) -> Collection[int]:
        now = self._client.world.now
        return range(sum(log.born <= now for log in self._broker.logs.values()))

    def start(self, number: int) -> int:
        return self._log(number).first

    def ends(self, numbers: Collection[int]) -> Mapping[int, int]:
        now = self._client.world.now
        return {number: self._log(number).end(now) for number in numbers}

    def highwater(self, number: int) -> int | None:
        return None

    def join(self, listener: Listener) -> None:
        self._listener = listener

    def hold(self, numbers: Collection[int]) -> None:
        self._held |= set(numbers)

    def unhold(self, numbers: Collection[int]) -> None:
        self._held -= set(numbers)

    def read(self, max_events: int, timeout: float) -> list[Records]:
        client, world, rng = self._client, self._client.world, self._client.world.random
        world.step("poll")
        client.tick()
        if world.now < client.coordinator.away_until:
            world.wait("idle", pause(timeout, rng.random()))
            return []
        if self._listener is not None:
            self._member.turn(self._give_up, self._take)
        else:
            self._broker.begun.update(f"t:{number}" for number in self._positions)
        left, found = min(max_events, rng.randint(1, client.most)), []
        for number in sorted(self._positions):
            self._check(number)
        for number in sorted(self._positions):
            if number not in self._held and rng.random() < 0.6:
                found += self._fetch(number, left)
                left -= len(found[-1].offsets) if found and found[-1].number == number else 0
        if not found:
            world.wait("idle", pause(timeout, rng.random()))
        return found

    def _give_up(self, *, lost: bool) -> None:
        numbers = set(self._positions)
        if not numbers:
            return
        self._client.world.step("revoked")
        (self._listener.lost if lost else self._listener.revoked)(numbers)
        self._positions = {}

    def _take(self, partitions: Sequence[str]) -> None:
        numbers = {int(name[2:]) for name in partitions}
        self._positions, self._held = dict.fromkeys(numbers, 0), set()
        self._client.world.step("assigned")
        self._listener.assigned(numbers)

    def _check(self, number: int) -> None:
        log, at = self._log(number), self._positions[number]
        if not log.first <= at <= log.end(self._client.world.now):
            raise Gone(number, at)

    def _fetch(self, number: int, n: int) -> list[Records]:
        log, at, now = self._log(number), self._positions[number], self._client.world.now
        found = log.read(at, n, now)
        offsets = log.offsets[found]
        if not offsets:
            if n and log.read(at, 1, float("inf")).start == len(log.offsets):
                self._positions[number] = max(at, log.end(now))  # past the gap
            return []
        self._positions[number] = offsets[-1] + 1
        values = [self._value(one) for one in log.ids[found]]
        return [Records(number, offsets, log.times[found], [None] * len(offsets), values)]

    def _value(self, number: int) -> bytes:
        if is_bad(number):
            return b"{"
        event = event_of(number) if self._client.real else {"id": number, "y": 0}
        return json.dumps(event).encode()

    def _log(self, number: int) -> Log:
        return self._broker.logs[f"t:{number}"]

    def committed(self, number: int) -> tuple[int, str] | None:
        name = f"t:{number}"

        def found() -> tuple[int, str] | None:
            if self._client.coordinator.unstable(name):
                raise Concurrent
            return self._broker.committed.get(name)

        return self._client.ask("committed", found, STABLE_TIMEOUT, faulty=False)

    def for_transaction(self, offsets: Mapping[int, tuple[int, str]]) -> tuple[Any, Any]:
        named = {f"t:{number}": commit for number, commit in offsets.items()}
        return named, (self._client.name, self._member.generation)

    def close(self) -> None:
        if not self._client.world.gone():
            self._broker.leave(self._client.name)


class Producer:
    """A transactional producer."""

    def __init__(self, client: Client, transacting: Transacting) -> None:
        self._client, self._patience = client, transacting.delivery_timeout
        self._coordinator: Coordinator = client.coordinator
        self._held = client.ask(
            "mark:begin_as",
            lambda: self._coordinator.begin_as(transacting.name, transacting.timeout),
            self._patience,
        )
        self._targets: set[Target] = set()
        self.state: Literal["ready", "failed"] = "ready"

    def writer(self, writing: Writing) -> Writer:
        return Writer(self._client, writing, self)

    def begin(self) -> None:
        self._targets = set()

    def add(self, target: Target) -> None:
        """Have a partition in the transaction before the first record is sent to it."""
        if target not in self._targets:
            self._ask("add", lambda: self._coordinator.add(self._held, target))
            self._targets.add(target)

    def deliver(self, target: Target, records: list[Record]) -> None:
        """Send records to a partition."""
        self.add(target)
        left = list(records)

        def append() -> None:  # brokers take each record once, however often it is sent
            while left:
                self._coordinator.append(self._held, target, left[0])
                del left[0]

        self._ask("produce", append)

    def add_offsets(self, offsets: Any, group: Any) -> None:
        self.add(OFFSETS)
        self._ask(
            "commit:offsets", lambda: self._coordinator.add_offsets(self._held, offsets, *group)
        )

    def commit(self) -> None:
        self._end(commit=True)

    def abort(self) -> None:
        self._end(commit=False)

    def close(self) -> None:
        pass

    def _end(self, *, commit: bool) -> None:
        if self._targets:
            label = "commit:end" if commit else "abort"
            self._ask(label, lambda: self._coordinator.end(self._held, commit=commit))

    def _ask(self, label: str, request: Callable[[], None]) -> None:
        self._client.ask(label, request, self._patience)


class Writer:
    """Writes to a topic of outputs by a producer.

    A process that dies has delivered some of what it was given.
    """

    def __init__(self, client: Client, writing: Writing, producer: Producer | None) -> None:
        self._client, self._topic, self._producer = client, writing.topic, producer
        self._waiting: list[Record] = []
        self._failures = Failures()
        self.failures = self._failures.take

    def find(self) -> bool:
        return self._topic in self._client.coordinator.topics

    def connected(self) -> bool:
        return True

    def send(self, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        self._waiting.append(Record(key, value, headers))

    def settle(self) -> None:
        self._deliver(self._client.world.random.randint(0, len(self._waiting)))

    def flush(self) -> None:
        self._client.world.step("mark")
        self._deliver(len(self._waiting))

    def close(self) -> None:
        pass

    def _deliver(self, n: int) -> None:
        by_partition: dict[int, list[Record]] = {}
        for record in self._waiting[:n]:
            many = len(self._client.coordinator.topics[self._topic].partitions)
            by_partition.setdefault(zlib.crc32(record.value) % many, []).append(record)
        del self._waiting[:n]
        for number, records in by_partition.items():
            try:
                self._producer.deliver((self._topic, number), records)
            except ClientError as error:
                for _ in records:
                    self._failures.add(error)
