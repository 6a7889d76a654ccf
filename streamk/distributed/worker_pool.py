"""Workers on Ray, one a shard, that are replaced when they die."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamk.distributed.shards import Shard, Size, Worker
from streamk.errors import BackendUnavailable, InvalidInput, StreamkError, WorkerLost
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers


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


class WorkerPool:
    """One worker for each shard.

    What a worker knows is its shard and the landmarks, so one that dies is replaced by another,
    anywhere in the cluster, that reads the shard again and is told all landmarks at once.

    Parameters
    ----------
    shards : sequence of Shard
    kernel : Kernel
    dtype : float32 or float64
    threads : int
        Of each worker.
    options : mapping, or sequence of one for each shard
        Ray's options of the actors.
    max_restarts : int
        Times that the worker of one shard is replaced.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        kernel: Kernel,
        *,
        dtype: np.dtype[Any],
        threads: int,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        max_restarts: int,
    ) -> None:
        self._ray = ray = import_ray()
        # An array goes once into Ray's object store, from where every worker of its shard has it.
        self._shards = [ray.put(s) if isinstance(s, np.ndarray) else s for s in shards]
        each = [options] * len(shards) if isinstance(options, Mapping) else list(options)
        if len(each) != len(shards):
            raise InvalidInput(
                f"options are {len(each)} mappings for {len(shards)} shards; pass one for all, or "
                "one for each"
            )
        # Ray's own restarts would bring back a worker that knows nothing, unasked.
        actor = ray.remote(Worker)
        self._kinds = [actor.options(**{**some, "max_restarts": 0}) for some in each]
        self._worker_options = (kernel, dtype, threads)
        self._left = [max_restarts] * len(shards)
        self._max_restarts, self._capacity = max_restarts, 0
        self._landmarks: list[tuple[Numbers, list[list[int | None]]]] = []
        self._workers = [self._start_worker(s) for s in range(len(shards))]
        self.sizes: list[Size] = []

    def __len__(self) -> int:
        return len(self._shards)

    @property
    def restarts(self) -> int:
        """Workers that were replaced so far."""
        return sum(self._max_restarts - left for left in self._left)

    def load(self) -> None:
        """Have every worker read its shard."""
        self.sizes = self.ask("load")

    def begin(self, capacity: int) -> None:
        """Have every worker make room for so many landmarks."""
        self.ask("begin", [(capacity,)] * len(self))
        self._capacity = capacity

    def points(self, rows: list[list[int]]) -> list[Numbers]:
        """Return points of each shard, by their rows in it."""
        asked = [s for s, some in enumerate(rows) if some]
        found = [np.empty((0, self.sizes[0].columns))] * len(self)
        refs = {s: self._workers[s].points.remote(rows[s]) for s in asked}
        for s in asked:
            found[s] = self._get(s, refs[s], "points", (rows[s],))
        return found

    def extend(
        self, points: Numbers, rows: list[list[int | None]], count: int
    ) -> list[list[tuple[float, int]]]:
        """Append landmarks; return what each worker names, see `Worker.extend`."""
        named = self.ask("extend", [(points, own, count) for own in rows])
        self._landmarks.append((points, rows))
        return named

    def ask(self, method: str, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a method of all workers at once, each with its arguments."""
        calls = [()] * len(self) if each is None else each
        pairs = zip(self._workers, calls, strict=True)
        refs = [getattr(worker, method).remote(*call) for worker, call in pairs]
        return [self._get(s, ref, method, calls[s]) for s, ref in enumerate(refs)]

    def one(self, s: int, method: str) -> Any:
        """Call a method of one worker.

        Raises
        ------
        InvalidInput
            If the workers are dismissed.
        """
        if not self._workers:
            raise InvalidInput(
                f"the {method} of shard {s} is gone with its worker; fetch it before close(), or "
                "inside the with statement"
            )
        return self._get(s, getattr(self._workers[s], method).remote(), method, ())

    def close(self) -> None:
        """Dismiss the workers and free what they hold."""
        for worker in self._workers:
            self._stop_workers(worker)
        self._workers = []

    def _start_worker(self, s: int) -> Any:
        kernel, dtype, threads = self._worker_options
        return self._kinds[s].remote(self._shards[s], kernel, dtype, threads)

    def _stop_workers(self, worker: Any) -> None:
        with contextlib.suppress(Exception):  # whatever is wrong with it, it is not needed any more
            self._ray.kill(worker)

    def _get(self, s: int, ref: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        """Wait for an answer; where the worker died before it came, ask its successor."""
        lost = self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError
        while True:
            try:
                if ref is None:
                    self._replace(s)
                    ref = getattr(self._workers[s], method).remote(*arguments)
                return self._ray.get(ref)
            except lost as error:
                if not self._left[s]:
                    raise WorkerLost(
                        f"the worker of shard {s} died and was replaced {self._max_restarts} "
                        f"times, as often as max_restarts allows; the last time: {error}"
                    ) from None
                self._left[s] -= 1
                ref = None
            except self._ray.exceptions.RayTaskError as error:
                raise _raised_by(s, error) from None

    def _replace(self, s: int) -> None:
        """Have another worker at the shard, which knows all that the last one knew."""
        self._stop_workers(self._workers[s])
        self._workers[s] = worker = self._start_worker(s)
        if not self.sizes:
            return
        size = self._ray.get(worker.load.remote())
        if size != self.sizes[s]:
            raise InvalidInput(
                f"shard {s} is not what it was: {size} instead of {self.sizes[s]}; a shard must "
                "read the same every time"
            )
        if not self._capacity:
            return
        worker.begin.remote(self._capacity)
        known = np.concatenate(
            [np.empty((0, size.columns)), *(points for points, _ in self._landmarks)]
        )
        own = [row for _, rows in self._landmarks for row in rows[s]]
        self._ray.get(worker.extend.remote(known, own, 1))


def _raised_by(s: int, error: Any) -> Exception:
    """Return an error of a worker as if it had been raised here, with its shard."""
    cause = error.cause if isinstance(error.cause, Exception) else error
    if isinstance(cause, StreamkError):
        return type(cause)(f"shard {s}: {cause}")
    cause.add_note(f"in the worker of shard {s}")
    return cause
