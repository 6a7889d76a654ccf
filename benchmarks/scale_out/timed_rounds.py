"""Rounds of `streamk.learners.Sharded` that are measured from outside, worker by worker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.distributed import Processes, TaskDivision
from streamk.distributed.rounds import Message
from streamk.learners import Sharded
from streamk.state import State

Events: TypeAlias = tuple[NDArray[Any], list[Any]]
_STARTED = 2500
"""Events with which workers start, before anything is measured."""


@dataclass
class Round:
    """What was measured in a round.

    Attributes
    ----------
    each : int
        Events of a shard.
    seconds : float
    driver : float
        Processor seconds of the driver.
    workers, waited : list of float
        Of each worker, its processor seconds, and those until its outcome was there.
    sent, received : float
        Bytes of a message to a worker, and of one back; the mean of all workers.
    """

    each: int
    seconds: float = 0.0
    driver: float = 0.0
    workers: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    sent: float = 0.0
    received: float = 0.0


class TimedWorkers:
    """Processes that are timed, one for each part of a task.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        self._workers = [Processes(1) for _ in range(count)]
        self._measured = np.zeros((count, 4))
        """Of the last part that each did: processor seconds, all seconds, bytes to it and back."""

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def last(self) -> Round:
        """The round that was answered last."""
        busy, waited, sent, received = self._measured.T
        found = Round(0, workers=busy.tolist(), waited=waited.tolist())
        found.sent, found.received = float(sent.mean()), float(received.mean())
        return found

    def answer(self, place: int, message: bytes) -> Message:
        """Return what a process makes of a message."""
        answer, busy, waited = _timed(self._workers[place], message)
        self._measured[place] = busy, waited, len(message), len(answer)
        return answer

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()


def _timed(worker: Processes, message: bytes) -> tuple[Message, float, float]:
    (pid,) = worker.pids
    before, began = _processor_seconds(pid), time.perf_counter()
    answer = worker.answer(0, message)
    return answer, _processor_seconds(pid) - before, time.perf_counter() - began


def _processor_seconds(pid: int) -> float:
    """Return for how long the first thread of a process has run, as Linux tells it."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def fastest_rounds(
    begin: State, events: Events, workers: TimedWorkers | Processes, times: int
) -> list[Round]:
    """Return the rounds that the events make, of the fastest of several times."""
    with TaskDivision(workers) as division:
        found = []
        for n in range(times + 1):
            model = Sharded.from_state(begin, learner={"threads": 1}, workers=division)
            some = events if n else (events[0][:_STARTED], events[1][:_STARTED])
            found.append(_followed(model, some, workers))
        return min(found[1:], key=total)


def _followed(model: Sharded, events: Events, workers: TimedWorkers | Processes) -> list[Round]:
    X, y = events
    found: list[Round] = []
    first = 0
    while first + model.events_left <= len(y):
        length = model.events_left
        part = slice(first, first + length)
        began, before = time.perf_counter(), time.process_time()
        model.predict_then_learn_many(X[part], y[part])
        one = workers.last if isinstance(workers, TimedWorkers) else Round(0)
        one.seconds, one.driver = time.perf_counter() - began, time.process_time() - before
        one.each = length // model.shards
        found.append(one)
        first = part.stop
    return found


def total(rounds: Sequence[Round]) -> float:
    """Return the seconds of all rounds."""
    return sum(one.seconds for one in rounds)
