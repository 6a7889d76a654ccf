"""What it costs to learn in rounds of shards: accuracy, seconds and bytes, a part for each model.

"sharded" and "averaging" are of `Sharded`, whose rounds grow, "reduction", "cost" and "simulation"
of what its rounds take; the others are of `Rounds` of a fixed size. How the figures are taken is at
the top of the modules. With --only the other parts stay in the results as they were, with the
machine and the date of their own run; "simulation" goes by the costs of this run or of an earlier.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.data import Directory
from benchmarks.scale_out import averaging, costs, fitting, growing, reduction, simulation

NAME = "scale_out"
PARTS: dict[str, parts.Render] = {
    "sharded": growing.render,
    "averaging": averaging.render,
    "reduction": reduction.render,
    "cost": fitting.render,
    "simulation": simulation.render,
} | {name: partial(costs.render, name=name) for name in costs.MOST_ROUNDS}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures: dict[str, Callable[..., dict[str, Any]]] = {
        name: partial(costs.measure, name=name) for name in costs.MOST_ROUNDS
    }
    fitted: dict[str, Any] = {}

    def cost(data: Directory, *, quick: bool) -> dict[str, Any]:
        fitted.update(fitting.measure(data, quick=quick))
        return fitted

    def simulated(data: Directory, *, quick: bool) -> dict[str, Any]:
        earlier = {} if quick else parts.kept(common.RESULTS / f"{NAME}.json").get("cost", {})
        earlier.pop("origin", None)
        known = fitted or earlier or cost(data, quick=quick)
        return simulation.measure(known, quick=quick)

    measures["sharded"] = growing.measure
    measures["averaging"] = averaging.measure
    measures["reduction"] = reduction.measure
    measures["cost"] = cost
    measures["simulation"] = simulated
    parts.run(NAME, __doc__, measures, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
