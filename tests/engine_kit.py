"""What the engine's tests share: a small model, a stream, and a source that polls at whim."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from connectors.base import Chunk, Output
from connectors.memory import MemorySink, MemorySource
from streamk.engine import Engine, Report
from streamk.engine.options import FLAGS, grouped
from streamk.kernels import Gaussian
from streamk.late import LateLabels
from streamk.learners import DoublyStochastic, MultiKernel
from streamk.packing import canonical, fingerprint
from streamk.serving.observing import Observer

BATCH = 16


def learner(**options: Any) -> DoublyStochastic:
    options = {"loss": "logistic", "max_features": 128, "block_size": 32, **options}
    return DoublyStochastic(Gaussian(bandwidth=1.0), seed=3, batch_size=8, **options)


def attached(
    source: Any, model: Any, *, sink: Any = None, labels: Any = None, fixed: Any = None, **more: Any
) -> Engine:
    """An engine whose options have their names in commands."""
    assert more.keys() <= FLAGS.keys()
    return Engine(source, model, sink=sink, labels=labels, fixed=fixed, **grouped(more))


def run(source: Any, model: Any = None, **options: Any) -> Report:
    """Run a job of a source, or of events in memory, that ignores the field id."""
    source = MemorySource(source) if isinstance(source, list) else source
    options = {"label": "y", "ignore": ("id",), **options}
    return attached(source, model or learner(), **options).run()


def learned(
    directory: Any, stream: list[Any], model: Any = None, seed: int = 0, **more: Any
) -> Report:
    """Have a job of a model, many kernels by default, leave its checkpoint in a directory."""
    return run(stream, model or MultiKernel(seed=seed), checkpoint=directory, **more)


def events(n: int, *, seed: int = 0, first: int = 0) -> list[dict[str, Any]]:
    """Events with two numbers, a text and a label; their names know their place."""
    rng = random.Random(seed)
    made = []
    for i in range(first, first + n):
        a, b = rng.uniform(-2, 2), rng.uniform(-2, 2)
        made.append(
            {"a": a, "b": b, "c": rng.choice("xyz"), "id": i, "y": "up" if a * b > 0 else "down"}
        )
    return made


def apart(stream: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events without their labels, and the labels, which the field id joins."""
    events = [{name: value for name, value in one.items() if name != "y"} for one in stream]
    return events, [{"id": one["id"], "y": one["y"]} for one in stream]


def job(
    stream: list[dict[str, Any]],
    model: Any,
    *,
    late: int | Sequence[int] | None = None,
    whim: int | None = None,
    **options: Any,
) -> Engine:
    """An engine on events that come every 10 ms.

    If `late` is given, each label comes so many events after its event, from a source of its own.
    """

    def source(records: list[Any], times: Sequence[int]) -> MemorySource:
        of_time: dict[str, Any] = {"timestamps": {"p": times}}
        if whim is None:
            return MemorySource({"p": records}, **of_time)
        return WhimsicalSource({"p": records}, whim=whim, **of_time)

    times = range(0, 10 * len(stream), 10)
    options = {"label": "y", "max_skew": float("inf"), **options}
    if late is None:
        return attached(source(stream, times), model, **{"ignore": ("id",), **options})
    events, labels = apart(stream)
    delays = [late] * len(stream) if isinstance(late, int) else late
    due = sorted((times[n] + 10 * delay + 5, n) for n, delay in enumerate(delays))
    of_labels = source([labels[n] for _, n in due], [at for at, _ in due])
    joined = LateLabels(of_labels, key="id")
    return attached(source(events, times), model, labels=joined, **options)


class Crash(Exception):
    pass


class CrashingSink(MemorySink):
    """Fails after a number of writes, like a process that is killed."""

    left = 10**9

    def write(self, outputs: Sequence[Output]) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash
        super().write(outputs)


class WhimsicalSource(MemorySource):
    """Polls give any number of events, none included, from any of the partitions."""

    def __init__(self, data: Any, *, whim: int, **options: Any) -> None:
        super().__init__(data, **options)
        self._whim = random.Random(whim)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        at = dict(self._next)
        chunks = super().poll(self._whim.randint(1, min(max_events, 60)), timeout)
        kept = [chunk for chunk in chunks if self._whim.random() < 0.6]
        for chunk in chunks:
            if all(chunk is not other for other in kept):
                self._next[chunk.partition] = at[chunk.partition]
        return kept


class CrashingSource(WhimsicalSource):
    """Fails in a poll or in a commit."""

    left = 10**9

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        self._count()
        return super().poll(max_events, timeout)

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        self._count()
        super().commit(offsets, metadata)
        self._count()


class HoldingSource(WhimsicalSource):
    """One that can be told to leave partitions alone."""

    held: frozenset[str] = frozenset()

    def hold(self, partitions: Collection[str]) -> None:
        self.held = frozenset(partitions)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        at = dict(self._next)
        chunks = super().poll(max_events, timeout)
        for chunk in chunks:
            if chunk.partition in self.held:
                self._next[chunk.partition] = at[chunk.partition]
        return [chunk for chunk in chunks if chunk.partition not in self.held]


class Always(Observer):
    """Explains the first event of every batch, and shows it."""

    ROW_SECONDS = 0.0
    due = True  # type: ignore[assignment]


def reseal(checkpoint: Path, **changes: Any) -> None:
    """Change its manifest, without what is None, and make its digest fit again, as anybody can."""
    path = checkpoint / "manifest.json"
    manifest = {**json.loads(path.read_bytes()), **changes}
    manifest = {name: part for name, part in manifest.items() if part is not None}
    manifest.pop("sha256")
    manifest["sha256"] = hashlib.sha256(canonical(manifest)).hexdigest()
    path.write_bytes(canonical(manifest))


def same_model(a: Any, b: Any) -> bool:
    return fingerprint(a.state()) == fingerprint(b.state())


def split(n: int, parts: int, *, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stream in partitions of unequal rates, with timestamps that sometimes go back."""
    rng = np.random.default_rng(seed)
    names = rng.choice(parts, size=n, p=np.arange(1, parts + 1) / sum(range(1, parts + 1)))
    data: dict[str, Any] = {f"t:{k}": [] for k in range(parts)}
    times: dict[str, Any] = {f"t:{k}": [] for k in range(parts)}
    for i, event in enumerate(events(n, seed=seed)):
        data[f"t:{names[i]}"].append(event)
        times[f"t:{names[i]}"].append(10 * i - int(rng.integers(0, 60)))
    return data, times
