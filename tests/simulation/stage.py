"""A small group whose steps a test directs one by one, instead of a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from streamk.engine import newest_checkpoint

from .checks import Problem
from .members import Worker
from .plan import Plan
from .runs import Run

_MOST_STEPS = 5_000


class Stage(Run):
    """Two workers, two partitions of 40 events, and no fault that is not asked for.

    `shared`: one checkpoint directory for both.
    `ordered`: see `Disk`.
    """

    def __init__(self, root: Path, *, shared: bool = True, ordered: bool = True) -> None:
        options = {"window": 8, "checkpoint_every": 8, "idle_timeout": 0.2}
        options["data_loss"] = "earliest"
        plan = Plan(shared=shared, ordered=ordered, options=options)
        super().__init__(plan, root)
        self.a, self.b = self.workers
        self._shares: Mapping[str, tuple[str, ...]] = {}
        self.broker.assign = self._given

    def share(self, a: tuple[str, ...], b: tuple[str, ...]) -> None:
        """How the next generations divide the partitions; a member alone gets all."""
        self._shares = {"a": a, "b": b}

    def _given(self, names: list[str]) -> dict[str, list[str]]:
        if len(names) == 1:
            return {names[0]: list(self.broker.logs)}
        return {name: list(self._shares[name[0]]) for name in names}

    def until(self, worker: Worker, reached: str | Callable[[], bool]) -> None:
        """Let one worker go on until it comes to a step of that name, or something holds."""
        process = worker.process
        for count in range(_MOST_STEPS):
            if callable(reached):
                if reached():
                    return
            elif count and process.at == reached:
                return
            self.world.now = max(self.world.now, process.wake)
            self._turn(process)
            if process.ended and not (callable(reached) and reached()):
                raise AssertionError(f"{process} ended before {reached}: {process.error!r}")
        raise AssertionError(f"{process} never came to {reached}, it stands at {process.at}")

    def together(self, reached: Callable[[], bool]) -> None:
        """Let all go on until something holds."""
        for _ in range(_MOST_STEPS):
            if reached():
                return
            process = self.world.next()
            self._turn(process)
        raise AssertionError("never reached")

    def wait(self, seconds: float) -> None:
        """Let time pass while nobody runs."""
        self.world.now += seconds
        self.broker.tick(None)

    def rebalance(self) -> None:
        """Have the group divide its partitions again."""
        self.broker.prepare()

    def delete(self, partition: str, events: int) -> None:
        """Retention: what comes next of a partition is gone, so many events of it."""
        self.broker.logs[partition].delete_before(self.done(partition) + events)

    def kill(self, worker: Worker) -> None:
        """End a worker's process where it stands."""
        self.world.kill(worker.process)

    def done(self, partition: str) -> int:
        """The offset that the group has committed."""
        return self.broker.committed.get(partition, (0, ""))[0]

    def all_done(self) -> int:
        """The smaller of the offsets that the group has committed."""
        return min(self.done("t:0"), self.done("t:1"))

    def is_shared(self) -> bool:
        """Whether each worker has the first partition of its share."""
        return self.owns(self.a, ("t:0",)) and self.owns(self.b, ("t:1",))

    def stands(self, worker: Worker, label: str) -> bool:
        """Whether a worker has come to a step and not done it."""
        return worker.process is not None and worker.process.at == label

    def absorbed(self, slot: str) -> bool:
        """Whether the newest checkpoint of a slot has taken over a model."""
        found = newest_checkpoint(self.workers[0].directory / slot)
        return found is not None and bool(found.body["absorbed"])

    def owns(self, worker: Worker, partitions: tuple[str, ...]) -> bool:
        """Whether the group has given these partitions to a worker."""
        seats = self.broker.seats
        mine = [seat for name, seat in seats.items() if name.startswith(worker.host)]
        return self.broker.preparing is None and any(s.partitions == partitions for s in mine)

    def finish(self) -> list[Problem]:
        """Stop all in order, let `a` learn the rest alone, and say what is wrong."""
        for worker in self.workers:
            worker.stop()
        self.go(lambda: any(worker.running for worker in self.workers))
        return self.drain(self.a)
