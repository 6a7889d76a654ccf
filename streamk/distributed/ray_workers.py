"""Workers of a round that are Ray actors, on any machine of a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from streamk.distributed.actors import Actors
from streamk.distributed.messages import answered
from streamk.distributed.thread_limits import one_thread_each
from streamk.errors import InvalidInput


class RayWorkers(Actors):
    """Ray actors that each do one task of a round.

    An actor knows nothing but the task that it is sent. One that dies, as with its machine, is
    replaced by another anywhere in the cluster, which is sent the task again, so the result is the
    same. `ray.init` comes before. They live until `close`, or the end of a ``with`` statement. Each
    takes one thread, unless `OMP_NUM_THREADS` or a variable of one library, such as
    `NUMBA_NUM_THREADS`, is set here, or among the ``env_vars`` of Ray's option `runtime_env`.

    Parameters
    ----------
    count : int
        Actors.
    options : mapping, optional
        Ray's options of the actors, ``{"num_cpus": 1}`` by default; ``{"num_gpus": 1}`` where the
        model computes on a GPU.
    max_restarts : int, default 3
        Times that each of them is replaced before it answers again.

    Raises
    ------
    InvalidInput
        If there are none.
    BackendUnavailable
        If Ray is not installed.
    """

    def __init__(
        self, count: int, *, options: Mapping[str, Any] | None = None, max_restarts: int = 3
    ) -> None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidInput(f"count={count!r} must be an int of at least 1")
        chosen: Mapping[str, Any] = {"num_cpus": 1} if options is None else options
        given = chosen.get("runtime_env", {})
        variables = given.get("env_vars", {})
        variables = {**one_thread_each({**os.environ, **variables}), **variables}
        limited = {**chosen, "runtime_env": {**given, "env_vars": variables}}
        super().__init__(_Worker, [()] * count, options=limited, max_restarts=max_restarts)

    def answer(self, place: int, message: bytes) -> bytes:
        """Return what an actor makes of a message; threads may wait for several at once.

        Raises
        ------
        WorkerLost
            If the actor dies more often than `max_restarts`.
        InvalidInput
            If the actors are closed.
        """
        if self._is_closed:
            raise InvalidInput("the actors are closed; start others")
        found: bytes = self.ask_one(place, "answer", (message,))
        return found

    def _restore(self, s: int, worker: Any) -> None:
        """Tell a new worker nothing: a task has all that it needs."""


class _Worker:
    def answer(self, message: bytes) -> bytes:
        return answered(message)
