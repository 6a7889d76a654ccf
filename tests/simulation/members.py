"""Workers: programs that run an engine, die or fail, and are started again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamk.engine import Engine, Report
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

from .broker import Broker
from .learner import CountingLearner
from .sinks import FileSink, TopicSink
from .source import GroupSource, LoneSource
from .workers import Mortal, in_shards
from .world import Process, simulated

__all__ = ["Failure", "Job", "Worker", "real_learner"]


class Failure(Exception):
    """A program ended in an error that is not of the world's making."""


def real_learner(staleness: int | None = None, workers: Mortal | None = None) -> Any:
    """A learner; in shards where a staleness is given."""
    learner = DoublyStochastic(
        Gaussian(bandwidth=1.0),
        loss="logistic",
        max_features=64,
        block_size=32,
        seed=3,
        batch_size=8,
    )
    return learner if staleness is None else in_shards(learner, staleness, workers)


@dataclass
class Job:
    """What all workers of a run have in common.

    Attributes
    ----------
    grouped : bool
    real : bool
        Learn with a real learner; else with one that counts.
    staleness : int, optional
        Of a real learner in shards.
    sink : "file", "topic" or None
    options : dict
        Of the engine.
    """

    broker: Broker
    root: Path
    grouped: bool = False
    real: bool = False
    staleness: int | None = None
    sink: str | None = None
    most: int = 60
    options: dict[str, Any] = field(default_factory=dict)

    def engine(self, name: str, directory: Path, **more: Any) -> Engine:
        """An engine for a process of that name."""
        kind = GroupSource if self.grouped else LoneSource
        sink: Any = None
        if self.sink == "file":
            sink = FileSink(self.root / "out.ndjson", self.broker.world)
        elif self.sink == "topic":
            sink = TopicSink(self.broker, name)
        return Engine(
            kind(self.broker, name, most=self.most, real=self.real),
            self._learner(),
            **{
                "label": "y",
                "ignore": ("id",) if self.real else (),
                "checkpoint": directory,
                "sink": sink,
                **self.options,
                **more,
            },
        )

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

    Attributes
    ----------
    lives : int
        Times that it was started.
    reports : list of Report
    failures : list of Exception
        Errors that the world had no part in.
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
        name = f"{self.host}.{self.lives}"

        def program(_: Process) -> Report:
            self.engine = None
            self.engine = self.job.engine(name, self.directory, **options)
            return self.engine.run()

        self.process = self.job.broker.world.start(name, self.host, program)
        return self.process

    def settle(self, rng: random.Random) -> None:
        """Take note of how the program ended."""
        process, self.process, self.engine = self.process, None, None
        assert process is not None
        if isinstance(process.result, Report):
            self.reports.append(process.result)
        if process.error is not None and not simulated(process.error):
            self.failures.append(process.error)
        self.again_at = self.job.broker.world.now + rng.uniform(0.0, 6.0)

    @property
    def running(self) -> bool:
        """Whether the program has not ended."""
        return self.process is not None and not self.process.ended

    def stop(self) -> None:
        """Ask the program to stop in order."""
        if self.engine is not None:
            self.engine.stop()
