"""Workers: programs that run an engine, die or fail, and are started again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connectors.errors import ConnectorError
from connectors.kafka import KafkaSource
from connectors.kafka.sink import KafkaSink
from streamk.engine import Engine, Report
from streamk.engine.options import FLAGS, grouped
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic, EntityMemory, Scaled

from .broker import Broker
from .client import Client
from .learner import CountingLearner, Mortal, in_shards
from .plan import Transacted
from .source import FileSink, GroupSource, LoneSource, TopicSink
from .transactions import Coordinator
from .world import Process, current, simulated


def real_learner(staleness: int | None = None, workers: Mortal | None = None) -> Any:
    """A learner that remembers entities, or one in shards where a staleness is given."""
    learner = DoublyStochastic(
        Gaussian(bandwidth=1.0),
        loss="logistic",
        max_features=64,
        block_size=32,
        seed=3,
        batch_size=8,
    )
    if staleness is None:
        return EntityMemory(Scaled(learner), entities=["c=x"])
    return in_shards(learner, staleness, workers)


@dataclass
class Job:
    """What all workers of a run have in common.

    `real`: learn with a real learner; else with one that counts.
    `staleness`: of a real learner in shards.
    `options`: of the engine.
    `transacted`: the source and the sinks are those of Kafka.
    `coordinator`: of these.
    """

    broker: Broker
    root: Path
    grouped: bool = False
    real: bool = False
    staleness: int | None = None
    sink: str | None = None
    most: int = 60
    options: dict[str, Any] = field(default_factory=dict)
    transacted: Transacted | None = None
    coordinator: Coordinator | None = None

    def engine(self, name: str, directory: Path, **more: Any) -> Engine:
        """An engine for a process of that name."""
        source: Any
        if self.transacted is not None:
            source, sinks = self._on_kafka(self.transacted)
        else:
            kind = GroupSource if self.grouped else LoneSource
            source = kind(self.broker, name, most=self.most, real=self.real)
            sinks = {"sink": self._sink(name)}
        options = {
            "label": "y",
            "ignore": ("id",) if self.real else (),
            "checkpoint": directory,
            **sinks,
            **self.options,
            **more,
        }
        sink = options.pop("sink", None)
        assert options.keys() <= FLAGS.keys()
        return Engine(source, self._learner(), sink=sink, **grouped(options))

    def client(self, _: str | None) -> Client:
        """The client of the process that asks for one."""
        return Client(self.coordinator, str(current()), most=self.most, real=self.real)

    def _on_kafka(self, transacted: Transacted) -> tuple[KafkaSource, dict[str, Any]]:
        """The source, and the sinks with the time of a transaction."""
        servers, timeout = ("simulated:9092",), transacted.delivery_timeout
        source = KafkaSource(servers, "t", group="g" if self.grouped else None)
        return source, {
            "sink": KafkaSink(servers, "scores", delivery_timeout=timeout),
            "dead_letters": KafkaSink(servers, "dead", delivery_timeout=timeout),
            "transactions": transacted.seconds,
        }

    def _sink(self, name: str) -> Any:
        if self.sink == "file":
            return FileSink(self.root / "out.ndjson", self.broker.world)
        return TopicSink(self.broker, name) if self.sink == "topic" else None

    def _learner(self) -> Any:
        if not self.real:
            return CountingLearner()
        if self.staleness is None:
            return real_learner()
        world = self.broker.world
        return real_learner(self.staleness, Mortal(world.seed, world.happened))


@dataclass
class Worker:
    """A place where a program is started again whenever it has ended, until it is told to stop.

    `lives`: times that it was started.
    `failures`: errors that the world had no part in.
    """

    job: Job
    host: str
    directory: Path
    lives: int = 0
    reports: list[Report] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    process: Process | None = None
    engine: Engine | None = None
    again_at: float = 0.0

    def start(self, **options: Any) -> Process:
        """Start the program."""
        self.lives += 1
        name, directory = f"{self.host}.{self.lives}", self.directory

        def program(process: Process) -> Report:
            engine = self.job.engine(name, directory, **options)
            if process is self.process:  # else another one was started while this one was frozen
                self.engine = engine
            return engine.run()

        self.engine = None
        self.process = self.job.broker.world.start(name, self.host, program)
        return self.process

    def settle(self, rng: random.Random) -> None:
        """Take note of how the program ended."""
        process, self.process, self.engine = self.process, None, None
        if isinstance(process.result, Report):
            self.reports.append(process.result)
        error = process.error
        # Of an answer that has not come, some errors that follow say only so in their text.
        harmed = process.harmed and isinstance(error, ConnectorError)
        if error is not None and not (harmed or simulated(error)):
            self.failures.append(error)
        self.again_at = self.job.broker.world.now + rng.uniform(0.0, 6.0)

    @property
    def running(self) -> bool:
        """Whether the program has not ended."""
        return self.process is not None and not self.process.ended

    def stop(self) -> None:
        """Ask the program to stop in order."""
        if self.engine is not None:
            self.engine.stop()
