"""The engine from memory on elec2: 1,024 features, mini-batches of 256, predicting and learning.

As in `benchmarks.speed.memory`, which has more ways to do it, their work counted, and scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import common, hot
from benchmarks.data import Dataset
from benchmarks.hot import SAMPLERS
from benchmarks.speed.model import through_engine

GOAL = 250_000
"""Events/s."""


def measure(data: Dataset, rounds: int) -> dict[str, Any]:
    """Events/s and the goal."""

    def rate(sampler: str) -> Callable[[], float]:
        through_engine(data, sampler=sampler)  # compiles
        return lambda: len(data) / common.timed(lambda: through_engine(data, sampler=sampler))

    rates = common.in_turn({f"engine, {SAMPLERS[s]}": rate(s) for s in SAMPLERS}, rounds)
    title = "engine, elec2, dense, events/s"
    return {
        "events": len(data),
        "events_per_s": {name: common.spread(values) for name, values in rates.items()},
        "goals": [hot.goal(title, rates["engine, dense"], least=GOAL)],
    }


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    rows = [[name, *common.ranged(figure)] for name, figure in found["events_per_s"].items()]
    title = f"elec2 from memory, {found['events']:,} events, events/s"
    return common.table([title, "median", "range"], rows)
