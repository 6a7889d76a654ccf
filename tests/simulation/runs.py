"""One run from its seed to its verdict."""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from connectors.base import Chunk
from connectors.kafka import KafkaSource
from streamk.engine import newest_checkpoint
from streamk.errors import StateError

from .broker import Broker, Log, bear_late, make_logs
from .checks import Problem, judge_group, judge_single, usable
from .learner import registered
from .machine import Disk, simulated_time
from .members import Job, Worker
from .plan import Plan
from .transactions import Coordinator, Topic
from .world import Process, World, current

_MOST_STEPS = 60_000
"""Steps after which a run counts as one that never ends."""


@dataclass
class Verdict:
    """How a run ended.

    `faults`: faults met, by kind.
    `plan`: what kind of world it was.
    """

    seed: int
    problems: list[Problem] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    plan: str = ""

    def __str__(self) -> str:
        found = "; ".join(f"{one.kind}: {one.text}" for one in self.problems) or "nothing wrong"
        return f"seed {self.seed} ({self.plan}): {found}"


def simulate(
    seed: int, root: Path, *, trace: Callable[[str], None] | None = None, transactions: bool = False
) -> Verdict:
    """Run the world of a seed below an empty directory.

    `transactions`: whether its jobs write in transactions.
    `trace`: called with a line for each step.
    """
    run = Run(Plan.transacting(seed) if transactions else Plan.of(seed), root, trace)
    return Verdict(seed, run.verdict(), run.world.happened, run.world.steps, run.plan.short)


class Run:
    """The world of a plan, and the workers in it.

    `root`: directory of everything that the run writes; removed at the end.
    """

    def __init__(self, plan: Plan, root: Path, trace: Callable[[str], None] | None = None) -> None:
        self.plan, self.root = plan, root
        root.mkdir(parents=True, exist_ok=True)
        self.world = world = World(plan.seed, plan.faults(), trace)
        world.switching = plan.switching
        begin = world.now
        logs = make_logs(
            world.random, plan.events, plan.partitions, begin=begin, span=plan.span, gaps=plan.gaps
        )
        if plan.late:
            late = random.Random(f"born {plan.seed}")
            bear_late(late, logs, begin=begin, span=plan.span)
        self.disk = Disk(world, root, ordered=plan.ordered)
        self.broker = Broker(world, logs)
        self.calm_at = begin + plan.calm
        transacted = plan.transacted
        self.coordinator = None
        if transacted is not None:
            topics = {"scores": Topic.of(transacted.partitions), "dead": Topic.of(1)}
            self.coordinator = Coordinator(self.broker, topics)
        self.job = Job(
            self.broker,
            root,
            grouped=plan.kind == "group",
            real=plan.real,
            staleness=plan.staleness,
            sink=plan.sink,
            most=plan.most,
            options=dict(plan.options),
            transacted=transacted,
            coordinator=self.coordinator,
        )
        self.workers = [self._worker(k) for k in range(plan.workers)]
        self.strays: list[Process] = []
        self._deleted_at = begin + plan.span / 2

    def _worker(self, number: int) -> Worker:
        directory = "shared" if self.plan.shared else f"own-{number}"
        return Worker(self.job, "abcdef"[number], self.root / directory)

    def verdict(self) -> list[Problem]:
        """Run the world to its end and say what is wrong."""
        try:
            with told(self.world), self.inside():
                if self.plan.kind == "single":
                    return self._single()
                return self._group()
        except Stuck as stuck:
            return [Problem("stuck", str(stuck)), *self._failures()]
        finally:
            self.end()
            shutil.rmtree(self.root, ignore_errors=True)

    @contextlib.contextmanager
    def inside(self) -> Any:
        """Let the library see the simulated clock and disk."""
        self.world.after_death = self._ended
        with registered(), simulated_time(self.world), self._kafka(), self.disk.mounted():
            yield self

    @contextlib.contextmanager
    def _kafka(self) -> Iterator[None]:
        """Let sources and sinks of Kafka have the simulated client, and no thread of their own."""
        if self.plan.transacted is None:
            yield
            return
        plain = KafkaSource.poll

        def poll(source: KafkaSource, max_events: int, timeout: float) -> list[Chunk]:
            source._watch.look()  # as the thread does that asks for trouble
            return plain(source, max_events, timeout)

        with (
            mock.patch.object(KafkaSource, "poll", poll),
            mock.patch("connectors.kafka.client.choose", self.job.client),
            mock.patch("connectors.kafka.transaction._MARGIN", self.plan.transacted.margin),
            mock.patch("streamk.engine.display.Troubled", ()),
        ):
            yield

    @property
    def usable(self) -> Mapping[str, Log]:
        """The logs, without events that cannot be used where there are such."""
        return self.broker.logs if self.coordinator is None else usable(self.broker.logs)

    # --- parts of a run ---------------------------------------------------------------------

    def _single(self) -> list[Problem]:
        (worker,) = self.workers
        options = {"until_end": True} if self.plan.until_end else {}
        if self.plan.until_end:
            self._all_arrived()  # its end is where the log ends when it begins
            self.calm_at = self.world.now + self.plan.calm
        self._disturbed(options, done=lambda: bool(worker.reports) and self.plan.until_end)
        self.world.faults.end()
        self._all_arrived()
        if not self.plan.until_end:
            self._live_out(worker)
        elif not worker.reports:
            self.go(lambda: worker.running)  # one that failed before the calm came
            self._until_reported(worker, options)
        until = self.world.now + 20.0
        self.go(lambda: self._strays_live and self.world.now < until)
        return self._failures() or judge_single(self, worker)

    def _move(self, worker: Worker) -> None:
        """Go on elsewhere from a copy of the checkpoints; the process that runs goes on too."""
        slot, copy = worker.directory / "member-0", self.root / f"moved-{len(self.strays)}"
        try:
            found = newest_checkpoint(slot)
        except (OSError, StateError):
            found = None
        if found is None or not worker.running:
            return
        self.world.note(worker.process, "moved", str(found.path.name))
        shutil.copytree(worker.directory, copy, ignore=shutil.ignore_patterns("lock", ".*"))
        self.strays.append(worker.process)
        worker.directory, worker.process, worker.engine = copy, None, None

    @property
    def _strays_live(self) -> bool:
        """Whether a process lives that goes on beside its worker."""
        return any(not process.ended for process in self.strays)

    def _live_out(self, worker: Worker) -> None:
        """Let a live job learn all there is, then stop it."""
        waited = self.world.now + 15.0 + 0.3 * self.plan.events
        while not worker.failures:
            if not worker.running:
                worker.start()
            self.go(lambda: worker.running and self.world.now < waited)
            if worker.running:  # else a request of before the calm has come late
                break
        worker.stop()
        self.go(lambda: worker.running)

    def _until_reported(self, worker: Worker, options: dict[str, Any]) -> None:
        """Have a job come to its end, also where requests of before the calm come late."""
        for _ in range(1 if self.coordinator is None else 5):
            if worker.reports or worker.failures:
                return
            worker.start(**options)
            self.go(lambda: worker.running)

    def _group(self) -> list[Problem]:
        self._disturbed({})
        self.world.faults.end()
        self._all_arrived()
        self._stop_all()
        if self.plan.return_all:
            for worker in self.workers:
                worker.start()
            until = self.world.now + 10.0
            self.go(lambda: self.world.now < until and any(w.running for w in self.workers))
            self._stop_all()
        return self.drain(self.workers[self.world.random.randrange(len(self.workers))])

    def drain(self, last: Worker) -> list[Problem]:
        """Let one worker learn all that is left, alone, and judge what it knows."""
        last.reports, reports = [], last.reports
        self.world.now += 2 * self.broker.session
        self.broker.tick(None)  # the dead are no members any more
        self._until_reported(last, {"until_end": True})
        if not last.reports and not last.failures:
            return [Problem("unfinished", f"{last.host} has no report")]
        last.reports = [*reports, *last.reports]
        return self._failures() or judge_group(self, last)

    def _disturbed(self, options: dict[str, Any], done: Callable[[], bool] = lambda: False) -> None:
        """Let the workers live and die until there is calm."""
        world = self.world
        while world.now < self.calm_at and not done():
            for worker in self.workers:
                if not worker.running and world.now >= worker.again_at and not worker.failures:
                    worker.start(**options)
            process = world.next()
            if process is None:
                waiting = [worker.again_at for worker in self.workers]
                world.now = max(world.now + 0.001, min(waiting))
                if any(worker.failures for worker in self.workers):
                    return
                continue
            self._turn(process)
            self._retain()
            if world.faults.chance("moved", world.random):
                self._move(self.workers[0])

    def _stop_all(self) -> None:
        """Stop the workers in order, one after the other; some have been killed by then."""
        rng = self.world.random
        for worker in rng.sample(self.workers, len(self.workers)):
            if worker.running and rng.random() < 0.3:
                self.world.note(worker.process, "kill", "at the end")
                self.world.kill(worker.process)
            worker.stop()
            until = self.world.now + rng.choice((0.0, 6.0))
            self.go(lambda worker=worker, until=until: worker.running or self.world.now < until)  # type: ignore[misc]
        for worker in self.workers:
            worker.stop()
        self.go(lambda: any(worker.running for worker in self.workers))

    def go(self, condition: Callable[[], bool]) -> None:
        """Let the processes run while a condition holds and one lives."""
        while condition():
            process = self.world.next()
            if process is None:
                return
            self._turn(process)

    def _turn(self, process: Process) -> None:
        if self.world.steps > _MOST_STEPS:
            raise Stuck(f"{process} does not end, at {process.at}")
        self.world.run(process)
        if self.world.dark:
            self.world.dark = False
            for other in self.world.processes:
                if not other.ended:
                    self.world.run(other)
            self.disk.after_power_loss()

    def _ended(self, process: Process) -> None:
        self.disk.after_kill(process)
        for worker in self.workers:
            if worker.process is process:
                worker.settle(self.world.random)

    def _all_arrived(self) -> None:
        latest = max(
            (log.arrivals[-1] for log in self.broker.logs.values() if log.arrivals), default=0
        )
        self.world.now = max(self.world.now, latest)

    def _retain(self) -> None:
        """Delete the beginning of a partition, where the plan has it and the time has come."""
        world = self.world
        if not self.plan.retention or world.now < self._deleted_at:
            return
        self._deleted_at = world.now + world.random.uniform(2.0, 10.0)
        name = world.random.choice(list(self.broker.logs))
        log = self.broker.logs[name]
        n = log.visible(world.now)
        if n and name in self.broker.begun:
            log.delete_before(log.offsets[world.random.randrange(n)])
            world.note(None, "retention", f"{name} before {log.first}")

    def _failures(self) -> list[Problem]:
        return [
            Problem("failure", f"{worker.host}: {type(error).__name__}: {error}")
            for worker in self.workers
            for error in worker.failures
        ]

    def end(self) -> None:
        """Leave no thread behind."""
        self.world.after_death = None
        for process in self.world.processes:
            if not process.ended:
                process.dead = True
                process.resume()


@contextlib.contextmanager
def told(world: World) -> Iterator[None]:
    """Let what the engine logs go into the trace, if there is one, and nowhere else."""
    log, handler = logging.getLogger("streamk"), logging.Handler()
    before = log.level, log.propagate

    def emit(record: logging.LogRecord) -> None:
        world.trace(f"{world.now:10.3f} {current()!s:6} {record.getMessage()}")  # type: ignore[misc]

    handler.emit = emit  # type: ignore[method-assign]
    log.propagate = False
    log.setLevel(logging.CRITICAL if world.trace is None else logging.INFO)
    if world.trace is not None:
        log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])  # the attribute alone would leave children silent: they cache it
        log.propagate = before[1]


class Stuck(Exception):
    """A run that does not come to its end."""
