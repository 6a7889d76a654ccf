"""Ray actors that are replaced when they die."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamk import backends
from streamk.errors import BackendUnavailable, InvalidInput, StreamkError, WorkerLost
from streamk.landmarks.selection import check_count
from streamk.learners.eigenpro.shards import Call, Shard, ShardedCenters

_ALL = "OMP_NUM_THREADS"
"""The libraries of linear algebra, and streamk itself, go by it where nothing of their own is set;
numba does not."""
_NUMBA = "NUMBA_NUM_THREADS"
_LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that limit a process to one thread, on top of an environment.

    Those that are set there are the user's choice and are left out; so are those of libraries where
    `OMP_NUM_THREADS` is set, by which they go then.

    Examples
    --------
    >>> one_thread_each({"OPENBLAS_NUM_THREADS": "4", "NUMBA_NUM_THREADS": "2"})
    {'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1'}
    >>> one_thread_each({"OMP_NUM_THREADS": "4"})
    {'NUMBA_NUM_THREADS': '1'}
    """
    of_libraries = () if _ALL in environment else (_ALL, *_LIBRARIES)
    names = (*of_libraries, _NUMBA)
    return {name: "1" for name in names if name not in environment}


def import_ray() -> Any:
    """Return the module ray; raise BackendUnavailable if it is not installed."""
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise BackendUnavailable(
            "work on several machines needs Ray: pip install 'streamk[ray]'"
        ) from None
    return ray


class Closing(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    """Base of the classes whose objects are closed at the end of a ``with`` statement."""

    def close(self) -> None:
        """Free the resources of the object."""
        raise NotImplementedError

    def __exit__(self, *raised: object) -> None:
        self.close()


class Actors(Closing):
    """One actor for each shard of some work.

    One that dies is replaced by another, anywhere in the cluster, which `_restore` tells all that
    the last one knew; so often, before it answers again, as `max_restarts` says. `restarts` counts
    the replaced ones. Raises `InvalidInput` if there are as many options as neither one nor the
    shards, and `BackendUnavailable` if Ray is not installed.

    Parameters
    ----------
    kind : type
        Of the actors.
    arguments : sequence of tuple
        Of the constructor, for each shard.
    options : mapping, or sequence of one for each shard
        Ray's options of the actors.
    """

    def __init__(
        self,
        kind: type,
        arguments: Sequence[tuple[Any, ...]],
        *,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        max_restarts: int,
    ) -> None:
        self._ray = import_ray()
        each = [options] * len(arguments) if isinstance(options, Mapping) else list(options)
        if len(each) != len(arguments):
            raise InvalidInput(
                f"options are {len(each)} mappings for {len(arguments)} shards; pass one for all, "
                "or one for each"
            )
        # Ray's own restarts would bring back a worker that knows nothing, unasked.
        actor = self._ray.remote(kind)
        self._kinds = [actor.options(**{**some, "max_restarts": 0}) for some in each]
        self._arguments = arguments
        self._deaths, self.restarts = [0] * len(arguments), 0
        self._max_restarts, self._is_closed = max_restarts, False
        self._workers = [self._start_worker(s) for s in range(len(arguments))]

    def __len__(self) -> int:
        return len(self._arguments)

    @property
    def is_open(self) -> bool:
        """True until `close`."""
        return not self._is_closed

    def ask(self, method: str, each: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all workers at once, each with its arguments. Raises `WorkerLost`."""
        pairs = zip(self._workers, each, strict=True)
        refs = [getattr(worker, method).remote(*call) for worker, call in pairs]
        return [self._get(s, ref, method, each[s]) for s, ref in enumerate(refs)]

    def ask_one(self, s: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of one worker. Raises `WorkerLost`."""
        return self._get(s, getattr(self._workers[s], method).remote(*arguments), method, arguments)

    def close(self) -> None:
        """Dismiss the workers and free their memory; calls that wait for them end with errors."""
        self._is_closed = True  # before a thread that waits for one finds it dead
        for worker in self._workers:
            self._stop_worker(worker)
        self._workers = []

    def _restore(self, s: int, worker: Any) -> None:
        """Tell a new worker of a shard all that the last one knew."""
        raise NotImplementedError

    def _start_worker(self, s: int) -> Any:
        return self._kinds[s].remote(*self._arguments[s])

    def _stop_worker(self, worker: Any) -> None:
        with contextlib.suppress(Exception):  # whatever is wrong with it, it is not needed any more
            self._ray.kill(worker)

    def _get(self, s: int, ref: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        """Wait for an answer; where the worker died before it came, ask its successor."""
        lost = self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError
        while True:
            try:
                if ref is None:
                    self._stop_worker(self._workers[s])
                    self._workers[s] = self._start_worker(s)
                    self._restore(s, self._workers[s])
                    ref = getattr(self._workers[s], method).remote(*arguments)
                found = self._ray.get(ref)
                self._deaths[s] = 0
                return found
            except lost as error:
                if self._is_closed:
                    raise InvalidInput("the actors are closed; start new ones") from None
                if self._deaths[s] == self._max_restarts:
                    raise WorkerLost(
                        f"the worker of shard {s} died and was replaced "
                        f"{self._max_restarts} times without an answer, as often as max_restarts "
                        f"allows; the last time: {error}"
                    ) from None
                self._deaths[s] += 1
                self.restarts += 1
                ref = None
            except self._ray.exceptions.RayTaskError as error:
                # As if it had been raised here, with its shard.
                cause = error.cause if isinstance(error.cause, Exception) else error
                if isinstance(cause, StreamkError):
                    raise type(cause)(f"shard {s}: {cause}") from None
                cause.add_note(f"in the worker of shard {s}")
                raise cause from None


LARGE = 100_000
"""Bytes from which on an array goes once into Ray's object store, for all workers."""


class CenterWorker:
    """A shard of the centers in a process of its own."""

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

    A number of actors gives the same bits always, and another one, or none, the same up to rounding
    in single precision. States do not tell where the centers were. Matrices of centers by centers
    stay on this machine.
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
        check_count("count", count)
        check_count("threads", threads)
        check_count("max_restarts", max_restarts, least=0)
        if backend not in backends.BACKENDS:
            raise InvalidInput(f"backend={backend!r} must be {' or '.join(backends.BACKENDS)}")
        self._numbers = itertools.count()
        self._functions: weakref.WeakValueDictionary[int, ShardedCenters] = (
            weakref.WeakValueDictionary()
        )
        super().__init__(
            CenterWorker, [(backend, threads)] * count, options=options, max_restarts=max_restarts
        )

    def enter(self, function: ShardedCenters) -> int:
        """Return a number for a function. Its parts are dropped when it is garbage."""
        number = next(self._numbers)
        self._functions[number] = function
        weakref.finalize(function, self._drop, number).atexit = False
        return number

    def ask(self, method: str, each: Sequence[Call]) -> list[Any]:
        """Call a method of all shards at once, as of `streamk.learners.eigenpro.shards.Shards`.

        Raises `InvalidInput` if the actors are dismissed, and `WorkerLost` if an actor dies more
        often than `max_restarts`.
        """
        if not self._workers:
            raise InvalidInput(
                "the actors that hold the model's centers are closed; open its state with new "
                "ones: from_state(model.state(), shards=...), or without shards= on this machine"
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
