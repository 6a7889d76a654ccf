"""Tasks of a round that are divided among workers, wherever they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from streamk.distributed.actors import Closing
from streamk.distributed.messages import outcome, task_message
from streamk.learners.sharded.replicas import Outcome, Task


class Workers(Protocol):
    """Workers that each do a part of a task."""

    def __len__(self) -> int: ...

    def answer(self, messages: Sequence[bytes]) -> list[bytes]:
        """Return `streamk.distributed.messages.answered` of each message, one a worker."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class TaskDivision(Closing):
    """Workers that do a task together, each for some of its shards.

    Parameters
    ----------
    workers : Workers
        Such as `streamk.distributed.Processes` or `streamk.distributed.RayWorkers`; they are closed
        with this object.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def __len__(self) -> int:
        return len(self._workers)

    def work(self, task: Task) -> Outcome:
        """Do what `streamk.learners.sharded.replicas.work` does.

        Raises
        ------
        WorkerLost
            If a worker dies too often.
        InvalidInput
            If the events of a shard cannot be used, naming the shard.
        """
        first, stop = task.within
        count = len(self._workers)
        bounds = [first + (stop - first) * n // count for n in range(count + 1)]
        parts = [_part(task, *bound) for bound in itertools.pairwise(bounds)]
        found = Outcome()
        for message in self._workers.answer([task_message(part) for part in parts]):
            one = outcome(message)
            found.answers.update(one.answers)
            found.states.update(one.states)
        return found

    def close(self) -> None:
        """Free the workers."""
        self._workers.close()


def _part(task: Task, first: int, stop: int) -> Task:
    """Return a task of some of its shards."""
    own = {shard: batch for shard, batch in task.batches.items() if first <= shard < stop}
    begun = {shard: state for shard, state in task.begun.items() if first <= shard < stop}
    return replace(task, within=(first, stop), batches=own, begun=begun)
