"""The centers of EigenPro on several machines."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamk import backends
from streamk.distributed.actors import Actors
from streamk.errors import InvalidInput
from streamk.landmarks.checks import check_count
from streamk.learners.eigenpro.shards import Call, Divided, Shard

LARGE = 100_000
"""Bytes from which on an array goes once into Ray's object store, for all workers."""


class CenterWorker:
    """A shard of the centers in a process of its own.

    Parameters
    ----------
    backend : str
    threads : int
    """

    def __init__(self, backend: str, threads: int) -> None:
        self._backend, self._threads = backend, threads
        self._shard: Shard | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the shard, and wait for its answer."""
        if self._shard is None:  # an error of a constructor would look like a worker's death
            self._shard = Shard(backends.select(self._backend), threads=self._threads)
        found = getattr(self._shard, method)(*arguments)
        return found() if callable(found) else found


class ActorShards(Actors):
    """Ray actors that hold the centers of `streamk.learners.EigenPro` among them.

    Each evaluates the kernels with its own centers; events go to all of them, and their outputs are
    added here in a fixed order. An actor that dies, with its machine or alone, is replaced by
    another, which is sent its centers and coefficients again: the results are the same. Several
    models may use the same actors. They live until `close`, or the end of a ``with`` statement; a
    model's state can be had after that, too.

    Parameters
    ----------
    count : int
        Actors.
    backend : {"auto", "cupy"}, default "auto"
        Of each. "cupy" takes the first GPU that Ray gives the actor: ``options={"num_gpus": 1}``.
    threads : int, default 1
        Of each, where it has no GPU; results do not depend on it.
    max_restarts : int, default 3
        Times that each actor is replaced before it answers again.
    options : mapping, or sequence of one for each actor
        Ray's options of the actors, such as ``{"num_cpus": 4}``.

    Raises
    ------
    InvalidInput
        If an argument cannot be used, naming it.
    BackendUnavailable
        If Ray is not installed; from a model's methods also if an actor's backend is not.
    WorkerLost
        From a model's methods, if an actor dies more often than `max_restarts`. The model is
        unusable then: open its last state with other shards.

    Notes
    -----
    Ray is used as it is connected; where it is not, Ray starts itself on this machine. A batch of m
    events with d columns is sent to each actor as ``4 m d`` bytes, and ``8 m`` bytes come back from
    each for every output.
    """

    def __init__(
        self,
        count: int,
        *,
        backend: str = "auto",
        threads: int = 1,
        max_restarts: int = 3,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any]] = {},
    ) -> None:
        for name, value, least in (
            ("count", count, 1),
            ("threads", threads, 1),
            ("max_restarts", max_restarts, 0),
        ):
            check_count(name, value, least)
        if backend not in backends.BACKENDS:
            raise InvalidInput(f"backend={backend!r} must be {' or '.join(backends.BACKENDS)}")
        self._numbers = itertools.count()
        self._functions: weakref.WeakValueDictionary[int, Divided] = weakref.WeakValueDictionary()
        super().__init__(
            CenterWorker, [(backend, threads)] * count, options=options, max_restarts=max_restarts
        )

    def enter(self, function: Divided) -> int:
        """Return a number for a function. Its parts are dropped when it is garbage."""
        number = next(self._numbers)
        self._functions[number] = function
        weakref.finalize(function, self._drop, number).atexit = False
        return number

    def ask(self, method: str, each: Sequence[Call]) -> list[Any]:
        """Call a method of all shards at once, as of `streamk.learners.eigenpro.shards.Shards`.

        Raises
        ------
        InvalidInput
            If the actors are dismissed.
        WorkerLost
            If an actor dies more often than `max_restarts`.
        """
        if not self._workers:
            raise InvalidInput(
                "the actors that hold the model's centers are closed; open its state with others: "
                "from_state(model.state(), shards=...), or without shards= on this machine"
            )
        sent: dict[int, Any] = {}
        calls = [(method, *(self._sent(argument, sent) for argument in call)) for call in each]
        return super().ask("call", calls)

    def _sent(self, argument: Any, sent: dict[int, Any]) -> Any:
        """Return a large array's place in Ray's object store, which one array has once."""
        if not isinstance(argument, np.ndarray) or argument.nbytes < LARGE:
            return argument
        if id(argument) not in sent:
            sent[id(argument)] = self._ray.put(argument)
        return sent[id(argument)]

    def _restore(self, s: int, worker: Any) -> None:
        """Send a worker its parts of all functions."""
        for function in list(self._functions.values()):
            self._ray.get(worker.call.remote("write", *function.part(s)))

    def _drop(self, number: int) -> None:
        for worker in self._workers:
            with contextlib.suppress(Exception):  # of one that is dead, the next call will tell
                worker.call.remote("drop", number)
