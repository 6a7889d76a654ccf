"""The River adapter, one event at a time, against ARF on the same events in the same process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from river.forest import ARFClassifier
from river.linear_model import LogisticRegression
from river.preprocessing import StandardScaler

from benchmarks import common
from benchmarks.data import Dataset
from streamk.adapters.river import KernelClassifier

EVENTS = 10_000
GOAL = 10
"""Times ARF's rate, of `PLAIN`."""
OURS, PLAIN = "KernelClassifier()", "KernelClassifier(external_experts=())"
FOREST, LINEAR = "ARFClassifier(n_models=10)", "logistic regression"
_WARM = 1_300
"""Events after which all that a feature machine needs is compiled."""


def measure(data: Dataset, rounds: int) -> dict[str, Any]:
    """Events/s of predict_one and learn_one, and the ratio round by round."""
    events = list(data.first(EVENTS).events(0, EVENTS))
    makers: dict[str, Callable[[], Any]] = {
        OURS: lambda: KernelClassifier(seed=1),
        PLAIN: lambda: KernelClassifier(seed=1, external_experts=()),
        FOREST: lambda: ARFClassifier(n_models=10, seed=1),
        LINEAR: lambda: StandardScaler() | LogisticRegression(),
    }

    def rate(make: Callable[[], Any]) -> Callable[[], float]:
        def once() -> float:
            model = make()
            return len(events) / common.timed(lambda: _run(model, events))

        return once

    for name in (OURS, PLAIN):
        _run(makers[name](), events[:_WARM])  # compiles
    found = common.in_turn({name: rate(make) for name, make in makers.items()}, rounds)
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


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    rows = [[name, *common.ranged(figure)] for name, figure in found["events_per_s"].items()]
    for name, ratio in found["ratio_to_arf"].items():
        rows.append([f"{name} / ARF", *common.ranged(ratio, 1)])
    title = f"River, first {found['events']:,} events of elec2, events/s"
    return (
        common.table([title, "median", "range"], rows)
        + f"\nGoal {found['goal']} times ARF, without a feature machine."
    )
