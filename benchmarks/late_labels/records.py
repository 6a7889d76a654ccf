"""Events and labels whose labels are so many events late, as batches of the sequence."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from connectors.memory import MemorySource
from streamk.encoding import Schema
from streamk.engine.late import LateLabels
from streamk.engine.late.source import JoinedSource
from streamk.engine.late.trainer import LateTrainer
from streamk.engine.order.batch import Batch
from streamk.learners.base import Learner

COLUMNS = tuple("abcdefgh")
"""Of each event, numbers."""
BATCH = 1024
NAMES = ("labels/0", "stream/0")
_NUMBERS = [f"{i / 997:.4f}" for i in range(997)]
_EVENT = '{"id": %d, ' + ", ".join(f'"{name}": %s' for name in COLUMNS) + "}"


def trainer(model: Learner, held: int) -> LateTrainer:
    """A trainer of such records that may hold so many events."""
    labels = MemorySource([b'{"id": 0, "y": true}'])
    late = LateLabels(labels, key="id", held_events=held + BATCH)
    events = MemorySource([b'{"id": 0}'])
    return LateTrainer(
        model,
        JoinedSource(events, labels),
        Schema(label="y"),
        late=late,
        sink=None,
        dead_letters=None,
        on_error="skip",
        max_bad_share=1.0,
        window=1000,
    )


def event(n: int) -> bytes:
    """The JSON of event n."""
    return (_EVENT % (n, *(_NUMBERS[n * (i + 3) % 997] for i in range(len(COLUMNS))))).encode()


def label(n: int) -> bytes:
    """The JSON of the label of event n."""
    return f'{{"id": {n}, "y": {"true" if n * 3 % 997 > 498 else "false"}}}'.encode()


def filling(held: int) -> Iterator[Batch]:
    """Events alone."""
    for first in range(0, held, BATCH):
        yield _batch([(1, n) for n in range(first, min(held, first + BATCH))])


def steady(held: int, events: int, run: int, *, shuffled: bool = False) -> Iterator[Batch]:
    """Events, and as many labels of those that are held, in runs of so many.

    They are of the events that came `held` before, or of any, in random order.
    """
    of = random.Random(0).sample(range(held), events) if shuffled else range(events)
    for first in range(0, events, BATCH // 2):
        records: list[tuple[int, int]] = []
        for start in range(first, min(events, first + BATCH // 2), run):
            some = range(start, min(events, start + run))
            records += [(0, of[n]) for n in some]
            records += [(1, held + n) for n in some]
        yield _batch(records)


def _batch(records: list[tuple[int, int]]) -> Batch:
    numbers = np.array([n for _, n in records], np.int64)
    values = [event(n) if kind else label(n) for kind, n in records]
    codes = np.array([kind for kind, _ in records], np.intp)
    times = np.full(len(records), records[-1][1], np.int64)
    return Batch(NAMES, codes, numbers, times, times, values)
