"""`MultiKernel` itself in the river battery's loop, and the streams it is asked about.

It has no external experts: what is measured are the parts of the pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.river_battery import loop
from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.loop import Outcome
from benchmarks.river_battery.streams import NUMBERS, STREAMS, Event, Stream, load
from streamk.learners import MultiKernel

EVENTS = 20_000
LATE = 48
"""Events after which late labels come."""
CLASSES = tuple(n for n in STREAMS if n not in (*NUMBERS, "kdd99_10pct", "spam_sparse"))
"""kdd99 is one class for thousands of events on end, and each of spam's words a column."""
_QUICK = {"elec2": 150, "Waveform": 150, "ChickWeights": 150}

Make = Callable[..., MultiKernel]


def streams(directory: str | None, *, quick: bool) -> list[Stream]:
    """The first events of each stream."""
    events = _QUICK if quick else dict.fromkeys((*CLASSES, *NUMBERS), EVENTS)
    return [load(name, directory, quick=quick, events=n) for name, n in events.items()]


class Direct:
    """A learner that takes events as dicts of all columns; it says nothing before a label came."""

    def __init__(self, stream: Stream, make: Make = MultiKernel) -> None:
        task = "regression" if stream.task == "regression" else "classification"
        self.model = make(
            task=task, seed=SEED, columns=stream.columns, threads=1, external_experts=()
        )

    def learn_one(self, x: Event, y: Any) -> None:
        self.model.learn_one(_row(x), y)

    def predict_proba_one(self, x: Event) -> Mapping[Any, float] | None:
        return self.model.predict_proba_one(_row(x)) if self.model.n_events else None

    def predict_one(self, x: Event) -> float | None:
        return float(self.model.predict_one(_row(x))) if self.model.n_events else None


def run(direct: Direct, stream: Stream, delay: int) -> Outcome:
    """What the learner answers to all events, one by one."""
    contestant = Contestant("", lambda _: direct, "streamk", "", none=True)
    outcome = loop.run(contestant, stream, delay, math.inf)
    if outcome.ended:
        raise RuntimeError(f"{stream.name}: {outcome.ended}")
    return outcome


def _row(x: Event) -> NDArray[np.float64]:
    return np.array(list(x.values()), dtype=np.float64)  # None is NaN
