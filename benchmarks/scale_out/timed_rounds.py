"""Rounds of `streamk.learners.Sharded` that are measured from outside, worker by worker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.scale_out.cost_model import Link
from streamk.distributed import Processes, TaskDivision
from streamk.distributed.messages import Message
from streamk.learners import Sharded
from streamk.state import State

Events: TypeAlias = tuple[NDArray[Any], list[Any]]
_STARTED = 2500
"""Events with which workers start, before anything is measured."""
_SENT, _TURNS = 16 << 20, 20


@dataclass
class Round:
    """What was measured in a round.

    Attributes
    ----------
    each : int
        Events of a shard.
    seconds : float
    workers : list of float
        Seconds from sending a task to the outcome, of each worker.
    sent, received : float
        Bytes of a message to a worker, and of one back; the mean of all workers.
    """

    each: int
    seconds: float = 0.0
    workers: list[float] = field(default_factory=list)
    sent: float = 0.0
    received: float = 0.0


class TimedWorkers:
    """Processes each of which is asked by a thread of its own, and timed.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        self._workers = [Processes(1) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count)
        self.last = Round(0)
        """The round that was answered last."""

    def __len__(self) -> int:
        return len(self._workers)

    def answer(self, messages: Sequence[bytes]) -> list[Message]:
        """Return what each process makes of its message."""
        found = list(self._threads.map(_timed, self._workers, messages))
        answers = [answer for answer, _ in found]
        self.last = Round(
            0,
            workers=[seconds for _, seconds in found],
            sent=float(np.mean([len(message) for message in messages])),
            received=float(np.mean([len(answer) for answer in answers])),
        )
        return answers

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown()
        for worker in self._workers:
            worker.close()


def _timed(worker: Processes, message: bytes) -> tuple[Message, float]:
    began = time.perf_counter()
    (answer,) = worker.answer([message])
    return answer, time.perf_counter() - began


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
        began = time.perf_counter()
        model.predict_then_learn_many(X[part], y[part])
        one = workers.last if isinstance(workers, TimedWorkers) else Round(0)
        one.each, one.seconds = length // model.shards, time.perf_counter() - began
        found.append(one)
        first = part.stop
    return found


def total(rounds: Sequence[Round]) -> float:
    """Return the seconds of all rounds."""
    return sum(one.seconds for one in rounds)


def measured_link() -> Link:
    """Measure what carries messages to a process: it answers that they are no tasks."""
    with Processes(1) as worker:
        small, large = (_seconds_there(worker, bytes(size)) for size in (8, _SENT))
    return Link(bandwidth=_SENT / (large - small), latency=small / 2)


def _seconds_there(worker: Processes, message: bytes) -> float:
    """Return the median seconds until a process has answered a message."""
    seconds = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        worker.answer([message])
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[1:]))
