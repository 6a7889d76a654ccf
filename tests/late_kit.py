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

from streamk.engine import Checkpoint
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.waiting import queue, segment_log
from streamk.engine.waiting.held import record_type
from streamk.learners.registry import from_state
from streamk.learners.sharded.replicas import Outcome, Task, work
from streamk.packing import unpack


class Counting:
    """Workers in this process, which count the shards that they are given at once."""

    def __init__(self) -> None:
        self.shards = list[int]()

    def begin(self, task: Task) -> Callable[[], Outcome]:
        self.shards.append(len(task.batches))
        return partial(work, task, from_state)


@contextmanager
def small_segments(rows: int) -> Iterator[None]:
    """Segments of so many rows, and no more than those in memory; 1 << 15 is as ever."""
    memory = queue.MEMORY if rows == segment_log.SEGMENT_ROWS else 0
    with (
        mock.patch.object(queue, "MEMORY", memory),
        mock.patch.object(queue, "SEGMENT_ROWS", rows),
        mock.patch.object(segment_log, "SEGMENT_ROWS", rows),
    ):
        yield


def waiting(found: Checkpoint) -> dict[str, list[Any]]:
    """What waits in a checkpoint, read plainly, wherever it lies: entries, and events as bytes."""
    assert found.held is not None
    arrays, header = found.held.arrays, found.held.header
    files = SegmentFiles(found.path.parent / "held")  # type: ignore[arg-type]
    lists: dict[str, list[Any]] = {}
    events = []
    columns, classes = arrays["X"].shape[1], arrays["P"].shape[1]
    for name in ("held", "early", "over"):
        bits, rows = np.unpackbits(arrays[f"{name}_live"]).tolist(), []
        for file in header["segments"][name]:  # type: ignore[index, call-overload]
            data = unpack(files.read(file), file)
            starts, text = data["starts"].tolist(), data["entries"].tobytes()
            kind = record_type(*data["layout"].tolist())
            for i, (first, last) in enumerate(pairwise(starts)):
                if not bits.pop(0):
                    continue
                rows.append(msgspec.json.decode(text[first:last]))
                if data["records"].shape[1]:
                    one = data["records"][i].view(kind)[0]
                    x = one["X"].tolist() + [0.0] * (columns - len(one["X"]))
                    p = one["P"].tolist() + [float("nan")] * (classes - len(one["P"]))
                    rest = [one[each].item() for each in ("said", "width", "number", "threshold")]
                    events.append(repr([x, p, rest]))
        lists[name] = rows + msgspec.json.decode(arrays[name].tobytes())
    for i in range(len(arrays["X"])):
        rest = [arrays[each][i].item() for each in ("said", "width", "number", "threshold")]
        events.append(repr([arrays["X"][i].tolist(), arrays["P"][i].tolist(), rest]))
    return {**lists, "events": events}
