"""The River adapter, one event at a time, beside ARF on the same events in the same process.

All contestants run in turn and repeatedly; tables give median and range. The engine, with files and
Kafka, is in `benchmarks.engine`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from river.forest import ARFClassifier
from river.linear_model import LogisticRegression
from river.preprocessing import StandardScaler

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import load
from streamk.adapters.river import KernelClassifier

NAME = "speed"
EVENTS = 10_000
OURS, PLAIN = "KernelClassifier()", "KernelClassifier(external_experts=())"
FOREST, LINEAR = "ARFClassifier(n_models=10)", "logistic regression"
MAKERS: dict[str, Callable[[], Any]] = {
    OURS: lambda: KernelClassifier(seed=1),
    PLAIN: lambda: KernelClassifier(seed=1, external_experts=()),
    FOREST: lambda: ARFClassifier(n_models=10, seed=1),
    LINEAR: lambda: StandardScaler() | LogisticRegression(),
}
GOAL = 10
"""Times ARF's rate, of `PLAIN`."""
_WARM = 1_300
"""Events after which all that a feature machine needs is compiled."""


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Events/s of predict_one and learn_one, and the ratio round by round."""
    data = load("elec2", options.data, quick=options.quick).first(EVENTS)
    events = list(data.events(0, EVENTS))

    def rate(make: Callable[[], Any]) -> Callable[[], float]:
        def once() -> float:
            model = make()
            return len(events) / common.timed(lambda: _run(model, events))

        return once

    for name in (OURS, PLAIN):
        _run(MAKERS[name](), events[:_WARM])  # compiles
    rounds = 1 if options.quick else options.rounds
    found = common.in_turn({name: rate(make) for name, make in MAKERS.items()}, rounds)
    ratios = {
        name: common.spread(
            ours / arf for ours, arf in zip(found[name], found[FOREST], strict=True)
        )
        for name in (OURS, PLAIN)
    }
    return {
        "events": len(events),
        "events_per_s": {name: common.spread(values) for name, values in found.items()},
        "ratio_to_arf": ratios,
        "goal": GOAL,
    }


def _run(model: Any, events: list[tuple[dict[str, float], Any]]) -> None:
    for x, label in events:
        model.predict_one(x)
        model.learn_one(x, label)


def render_river(found: Mapping[str, Any]) -> str:
    """The table of events/s and of their ratios."""
    rows = [[name, *common.ranged(figure)] for name, figure in found["events_per_s"].items()]
    for name, ratio in found["ratio_to_arf"].items():
        rows.append([f"{name} / ARF", *common.ranged(ratio, 1)])
    title = f"River, first {found['events']:,} events of elec2, events/s"
    return (
        common.table([title, "median", "range"], rows)
        + f"\nGoal {found['goal']} times ARF, without a feature machine."
    )


PARTS = {"river": Part(measure, render_river)}

render, run = common.topic(NAME, __doc__, PARTS, rounds=7)


if __name__ == "__main__":
    sys.exit(common.main(run))
