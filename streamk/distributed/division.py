"""Tasks of a round that are divided among workers, wherever they are."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Protocol

from streamk.distributed.actors import Closing
from streamk.distributed.messages import Message, outcome, task_message
from streamk.errors import InvalidInput
from streamk.learners.sharded.replicas import Outcome, Task


class MessageWorkers(Protocol):
    """Workers that each do a part of a task."""

    def __len__(self) -> int: ...

    def answer(self, place: int, message: bytes) -> Message:
        """Have one worker make `streamk.distributed.messages.answered` of a message.

        Another thread may wait for another worker meanwhile.
        """
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class TaskDivision(Closing):
    """Workers that do a task together, each for some of its shards.

    Parameters
    ----------
    workers : MessageWorkers
        Such as `streamk.distributed.Processes` or `streamk.distributed.RayWorkers`; they are closed
        with this object.
    """

    def __init__(self, workers: MessageWorkers) -> None:
        self._workers = workers
        self._lock, self._is_closed = threading.Lock(), False
        # One thread for each: who is done with its part of a task begins with the next one's.
        self._threads = [ThreadPoolExecutor(1) for _ in range(len(workers))]

    def __len__(self) -> int:
        return len(self._workers)

    def begin(self, task: Task) -> Callable[[], Outcome]:
        """Have the workers begin a task, after those that were begun before.

        Returns
        -------
        callable
            It waits for the task and returns what `streamk.learners.sharded.replicas.work` does.

        Raises
        ------
        InvalidInput
            If the workers are closed; from the callable, if they are closed before the task is
            done, or if the events of a shard cannot be used, naming the shard.
        WorkerLost
            From the callable, if a worker dies too often.
        """
        first, stop = task.within
        count = len(self._workers)
        bounds = [first + (stop - first) * n // count for n in range(count + 1)]
        parts = [_part(task, *bound) for bound in itertools.pairwise(bounds)]
        with self._lock:  # all parts are begun, or none
            self._check_open()
            waiting = [
                thread.submit(self._done, place, part)
                for place, (thread, part) in enumerate(zip(self._threads, parts, strict=True))
            ]

        def whole() -> Outcome:
            wait(waiting)  # so that after an error no worker is at this task any more
            found = Outcome()
            for one in waiting:
                found.answers.update(one.result().answers)
                found.states.update(one.result().states)
            return found

        return whole

    def work(self, task: Task) -> Outcome:
        """Do a task: begin it and wait."""
        return self.begin(task)()

    def close(self) -> None:
        """Free the workers; tasks that are not done end with an error."""
        with self._lock:
            self._is_closed = True
        self._workers.close()
        for thread in self._threads:
            thread.shutdown()  # `wait` would wait forever for what is cancelled in a queue

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidInput("the workers are closed; start others")

    def _done(self, place: int, part: Task) -> Outcome:
        self._check_open()
        return outcome(self._workers.answer(place, task_message(part)))


def _part(task: Task, first: int, stop: int) -> Task:
    """Return a task of some of its shards."""
    own = {shard: batch for shard, batch in task.batches.items() if first <= shard < stop}
    begun = {shard: state for shard, state in task.begun.items() if first <= shard < stop}
    return replace(task, within=(first, stop), batches=own, begun=begun)
