"""Ray actors that are replaced when they die."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

from streamk.errors import BackendUnavailable, InvalidInput, StreamkError, WorkerLost


def import_ray() -> Any:
    """Return the module ray.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise BackendUnavailable(
            "work on several machines needs Ray: pip install 'streamk[ray]'"
        ) from None
    return ray


class Closing:
    """Base of the classes whose objects are closed at the end of a ``with`` statement."""

    def close(self) -> None:
        """Free what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class Actors(Closing):
    """One actor for each shard of some work.

    One that dies is replaced by another, anywhere in the cluster, which `_restore` tells all that
    the last one knew.

    Parameters
    ----------
    kind : type
        Of the actors.
    arguments : sequence of tuple
        Of the constructor, for each shard.
    options : mapping, or sequence of one for each shard
        Ray's options of the actors.
    max_restarts : int
        Times that the actor of one shard is replaced before it answers again.

    Raises
    ------
    InvalidInput
        If there are as many options as neither one nor the shards.
    BackendUnavailable
        If Ray is not installed.

    Attributes
    ----------
    restarts : int
        Workers that were replaced so far.
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

    def ask(self, method: str, each: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all workers at once, each with its arguments.

        Raises
        ------
        WorkerLost
            If a worker dies more often than `max_restarts`.
        """
        pairs = zip(self._workers, each, strict=True)
        refs = [getattr(worker, method).remote(*call) for worker, call in pairs]
        return [self._get(s, ref, method, each[s]) for s, ref in enumerate(refs)]

    def ask_one(self, s: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of one worker.

        Raises
        ------
        WorkerLost
            If the worker dies more often than `max_restarts`.
        """
        ref = getattr(self._workers[s], method).remote(*arguments)
        return self._get(s, ref, method, arguments)

    def close(self) -> None:
        """Dismiss the workers and free what they hold; calls that wait for them end with errors."""
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
                    raise InvalidInput("the actors are closed; start others") from None
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
                raise _raised_by(s, error) from None


def _raised_by(s: int, error: Any) -> Exception:
    """Return an error of a worker as if it had been raised here, with its shard."""
    cause = error.cause if isinstance(error.cause, Exception) else error
    if isinstance(cause, StreamkError):
        return type(cause)(f"shard {s}: {cause}")
    cause.add_note(f"in the worker of shard {s}")
    return cause
