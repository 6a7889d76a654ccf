"""Held events in segments of few rows, as if there were many, and workers that count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from streamk.distributed.replicas import Outcome, Task, work
from streamk.engine import Checkpoint
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.late import join, segments
from streamk.late.held import HeldRecords, record_type, unpacked
from streamk.packing import unpack

EVENTS = 400


class Counting:
    """Workers in this process, which count the shards that they are given at once."""

    def __init__(self) -> None:
        self.shards = list[int]()

    def begin(self, task: Task) -> Callable[[], Outcome]:
        self.shards.append(len(task.batches))
        return partial(work, task)


@contextmanager
def small_segments(rows: int) -> Iterator[None]:
    """Segments of so many rows, and no more than those in memory; 1 << 15 is as ever."""
    memory = join.MEMORY if rows == segments.SEGMENT_ROWS else 0
    with (
        mock.patch.object(join, "MEMORY", memory),
        mock.patch.object(join, "SEGMENT_ROWS", rows),
        mock.patch.object(segments, "SEGMENT_ROWS", rows),
    ):
        yield


def waiting(found: Checkpoint) -> dict[str, list[Any]]:
    """What waits in a checkpoint, read plainly, wherever it lies: entries, and events as bytes."""
    assert found.held is not None
    arrays, header = found.held.arrays, found.held.header
    files = SegmentFiles(found.path.parent / "held")  # type: ignore[arg-type]
    lists: dict[str, list[Any]] = {}
    events = list[str]()
    young = unpacked(dict(arrays), "held events")
    columns, classes = young.dtype["X"].shape[0], young.dtype["P"].shape[0]

    def add(records: HeldRecords) -> None:
        for one in records:
            x = one["X"].tolist() + [0.0] * (columns - len(one["X"]))
            p = one["P"].tolist() + [float("nan")] * (classes - len(one["P"]))
            rest = [one[each].item() for each in ("said", "width", "number", "threshold")]
            events.append(repr([x, p, rest]))

    for name in ("held", "early", "over"):
        bits, rows = np.unpackbits(arrays[f"{name}_live"]).tolist(), []
        for file in header["segments"][name]:  # type: ignore[index, call-overload]
            data = unpack(files.read(file), file)
            starts, text = data["starts"].tolist(), data["rows"].tobytes()
            layout = data["layout"].tolist()
            kind = None if -1 in layout else record_type(*layout)
            for first, last in pairwise(starts):
                if not bits.pop(0):
                    continue
                end = last - (0 if kind is None else kind.itemsize)
                rows.append(msgspec.json.decode(text[first:end]))
                if kind is not None:
                    add(np.frombuffer(text[end:last], kind))
        lists[name] = rows + msgspec.json.decode(arrays[name].tobytes())
    add(young)
    return {**lists, "events": events}


def streams(task: str) -> tuple[list[Any], list[Any]]:
    """Events and labels as (time, value); the labels in an order of their own.

    A field and a class come late, some labels before their events, some events twice, and some
    labels never.
    """
    rng = np.random.default_rng(3)
    events, labels = [], []
    for n in range(EVENTS):
        x: dict[str, Any] = {"id": str(n), "a": float(rng.normal()), "b": float(rng.normal())}
        if n >= EVENTS // 2:
            x["c"] = float(rng.normal())
        x["part"] = "uv"[n % 2]
        events.append((10 * n, x))
        if n % 37 == 5:
            events.append((10 * n + 1, x))
        y: Any = np.sin(2.0 * x["a"]) + 0.3 * rng.normal()
        if task == "classification":
            y = "high" if y > 0.5 else "low" if y < -0.3 or n < 120 else "between"
        if n % 29:
            late = int(rng.integers(0, 300)) if n % 11 else -5
            labels.append((10 * n + late, {"id": str(n), "y": y}))
    return events, sorted(labels, key=lambda one: one[0])
