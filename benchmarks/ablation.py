"""What each part of the search for a metric brings and takes: the default model without it.

Each run is one of `benchmarks.cost`: a process of its own, events predicted, then learned, in
batches of 512, and seconds of the processor. A part is taken out by a change of what the search
compares or decides; the model is otherwise the default. Streams are a half of those of the river
battery and of StreamArena, their first 20,000 events.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common, cost
from benchmarks.streams import load
from streamk.learners.multi_kernel import external_experts
from streamk.learners.rfm import feature_machine, schedule, search, solving
from streamk.learners.rfm.metric import PRODUCTS
from streamk.learners.rfm.search import Family

NAME = "ablation"
STREAMS = (
    "elec2",
    "covtype_subset93k",
    "letter",
    "RandomRBFDrift",
    "Agrawal",
    "Phishing",
    "ImageSegments",
    "cadata_california_housing",
    "house_16H",
    "cpusmall",
    "beijing_pm25",
    "TrumpApproval",
    "arena_fried",
    "arena_adult",
)
EVENTS = 20_000
WHOLE = "the default"


def _only(wanted: Callable[[Family], bool]) -> Callable[[], None]:
    """Return a change that keeps the families that are wanted, or all if none is."""
    every = solving.MetricRecipe.families

    def families(self: solving.MetricRecipe, d: int) -> list[Family]:
        found = every(self, d)
        return [one for one in found if wanted(one)] or found

    return lambda: setattr(solving.MetricRecipe, "families", families)


def _set(*modules: Any, **values: Any) -> Callable[[], None]:
    """Return a change of constants, in each of the modules that have them."""

    def change() -> None:
        for module in modules:
            vars(module).update(values)

    return change


def _rounds(most: int) -> Callable[[], None]:
    """Return a change that bounds the rounds of a search."""
    make = feature_machine.FeatureMachine

    def machine(**options: Any) -> feature_machine.FeatureMachine:
        return make(rounds=most, **options)

    return _set(external_experts, FeatureMachine=machine)


PARTS: dict[str, Callable[[], None]] = {
    WHOLE: lambda: None,
    "no products": _only(lambda one: not isinstance(one.kernel, PRODUCTS)),
    "products alone": _only(lambda one: isinstance(one.kernel, PRODUCTS)),
    "no full metrics": _only(lambda one: one.diagonal),
    "no ranks but products'": _only(
        lambda one: one.scale == "standard" or isinstance(one.kernel, PRODUCTS)
    ),
    "no rounds from the identity": _set(solving, _ANEW=0.0),
    "no rounds": _rounds(0),
    "one round": _rounds(1),
    "one regularization": _set(search, RIDGES=search.RIDGES[4:5]),
    "compared by 2,048": _set(feature_machine, schedule, solving, MOST_COMPARED=2_048),
    "families by 256": _set(schedule, solving, FEW_EVENTS=256),
    "all events pay": _set(solving, _PAYS=math.inf, _MISLEADS=math.inf),
}
"""Ways to take a part out, by what is said of it."""


def measure(part: str, name: str, data: str | None, quick: bool, events: int) -> dict[str, Any]:
    """Scores and seconds of the default model without a part, on the first events of a stream."""
    PARTS[part]()
    stream = load(name, data, quick=quick, events=events)
    start = min(cost.START, len(stream) // 2)
    clock = cost.StartClock(start)
    outcome = cost.ours(stream, 1.0, clock, start)
    return cost.scores(outcome, stream) | {"cpu_s": round(outcome.cpu_seconds - clock.first, 3)}


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments(f"benchmarks.{NAME}", __doc__)
    parser.add_argument("--streams", metavar="A,B", help="default: fourteen")
    options: argparse.Namespace = parser.parse_args(argv)
    default = ("elec2", "cpusmall") if options.quick else STREAMS
    streams = options.streams.split(",") if options.streams else default
    results: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    results |= common.earlier(common.written(NAME, options))
    settings = {"seed": cost.SEED, "events": EVENTS}
    for name in streams:
        for part, found in results.items():
            if name not in found:
                order = {"part": part, "name": name, "data": options.data, "quick": options.quick}
                found[name] = common.fresh(measure, order | {"events": EVENTS}, cost.ONE_THREAD)
                common.note(f"  {name}: {part}: {found[name]}")
                common.write(NAME, options, settings, results)
    common.finish(NAME, options, settings, results, render)


def render(document: Mapping[str, Any]) -> str:
    """Means of each part's errors, losses and seconds, relative to those of the default."""
    results = document["results"]
    whole, rows = results[WHOLE], []
    for part, runs in results.items():
        ratios = {
            key: {name: one[key] / whole[name][key] for name, one in runs.items()}
            for key in ("error", "loss", "cpu_s")
        }
        most, worst = max((ratio, name) for name, ratio in ratios["loss"].items())
        means = [f"{statistics.geometric_mean(each.values()):.3f}" for each in ratios.values()]
        rows.append([part, *means, f"{worst} {most:.3f}"])
    header = ["relative to the default", "error", "log loss, RMSE", "CPU s", "worst log loss, RMSE"]
    streams = textwrap.fill(f"Streams: {', '.join(whole)}.", 100)
    return f"{common.table(header, rows)}\n\n{streams}\n{common.origin(document)}"


if __name__ == "__main__":
    sys.exit(common.main(run))
