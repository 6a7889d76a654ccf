"""Workers that follow the shards of a `streamk.learners.Sharded` at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from streamk.distributed.actors import Closing
from streamk.distributed.messages import outcome, task_message
from streamk.distributed.processes import Processes
from streamk.distributed.replicas import Batch, Task
from streamk.features.columns import Column
from streamk.learners.sharded import Followed
from streamk.state import State


class ShardWorkers(Closing):
    """Processes of this machine that each follow one shard at a time.

    Parameters
    ----------
    count : int
        Processes. One that dies is replaced and does its shard again.
    """

    def __init__(self, count: int) -> None:
        self._workers = Processes(count)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return self._workers.pids

    def follow(
        self,
        state: State,
        placing: Mapping[str, Any],
        columns: Sequence[Column],
        batches: Sequence[tuple[NDArray[Any], list[Any]]],
    ) -> list[Followed]:
        """Return what a replica of the state makes of each batch.

        Raises
        ------
        WorkerLost
            If a process dies too often.
        InvalidInput
            If the events of a batch cannot be used.
        """
        messages = [
            task_message(Task(state, placing, 1, (0, 1), {0: Batch(X, y, columns)}))
            for X, y in batches
        ]
        found, count = [], len(self._workers)
        for first in range(0, len(messages), count):
            for message in self._workers.answer(messages[first : first + count]):
                part = outcome(message)
                answer = part.answers[0]
                found.append(Followed(answer.prequential, answer.classes, part.states[0, 1]))
        return found

    def close(self) -> None:
        """End the processes."""
        self._workers.close()
