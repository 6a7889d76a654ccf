"""What the multi-kernel learner's parts are good for, its calibration, and how it lasts.

ablation     the learner less each of its parts, on 23 of the river battery's streams
calibration  probabilities and intervals, labels at once and 48 events late
losses       numbers learned by squared errors, Huber's loss and the pinball loss
imbalance    decisions with and without class weights, where some classes are rare
endurance    5,000,000 generated events with stretches of trouble, in a process of its own

How each figure is taken is at the top of the module of its name in multi_kernel/. With --only the
other parts stay in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.multi_kernel import ablation, calibration, direct, endurance, imbalance, losses
from benchmarks.multi_kernel.trouble import FULL, QUICK
from benchmarks.river_battery.contestant import SEED
from benchmarks.river_battery.streams import Stream

NAME = "multi_kernel"
PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "ablation": ablation.render,
    "calibration": calibration.render,
    "losses": losses.render,
    "imbalance": imbalance.render,
    "endurance": endurance.render,
}
_MEASURES: dict[str, Callable[[Sequence[Stream]], dict[str, Any]]] = {
    "ablation": ablation.measure,
    "calibration": calibration.measure,
    "losses": losses.measure,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.multi_kernel", __doc__)
    parts.add_only(parser, list(PARTS))
    options = parser.parse_args(argv)
    quick = options.quick
    results = parts.measured(
        NAME,
        options,
        {name: partial(_measure, name, options.data, quick=quick) for name in PARTS},
    )
    settings = {
        "seed": SEED,
        "events": direct.EVENTS,
        "delay": direct.LATE,
        "bins": calibration.BINS,
        "endurance": asdict(QUICK if quick else FULL),
    }
    common.finish(NAME, options, settings, results, render)


def _measure(name: str, data: str | None, *, quick: bool) -> dict[str, Any]:
    if name == "endurance":
        return endurance.measure(quick=quick)
    if name == "imbalance":
        return imbalance.measure(imbalance.streams(data, quick=quick))
    return _MEASURES[name](direct.streams(data, quick=quick))


if __name__ == "__main__":
    sys.exit(common.main(run))
