"""Workers on Ray, one a shard of points, that are replaced when they die."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamk.distributed.actors import Actors, import_ray
from streamk.distributed.shards import Shard, Size, Worker
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers


class WorkerPool(Actors):
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
        Times that the worker of one shard is replaced before it answers again.
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
        ray = import_ray()
        # An array goes once into Ray's object store, from where every worker of its shard has it.
        sent = [ray.put(s) if isinstance(s, np.ndarray) else s for s in shards]
        self._capacity = 0
        self._landmarks: list[tuple[Numbers, list[list[int | None]]]] = []
        super().__init__(
            Worker,
            [(shard, kernel, dtype, threads) for shard in sent],
            options=options,
            max_restarts=max_restarts,
        )
        self.sizes: list[Size] = []

    def load(self) -> None:
        """Have every worker read its shard."""
        self.sizes = self.ask("load", [()] * len(self))

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
        return self.ask_one(s, method, ())

    def _restore(self, s: int, worker: Any) -> None:
        """Have a worker read the shard again, and tell it all landmarks."""
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
