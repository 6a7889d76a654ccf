"""What it costs to learn in rounds of shards: accuracy, seconds and bytes, a part for each model.

"sharded" is of `Sharded`, whose rounds grow; the others are of `Rounds` of a fixed size. How the
figures are taken is at the top of costs.py and growing.py. With --only the other parts stay in the
results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.scale_out import costs, growing

NAME = "scale_out"
PARTS: dict[str, parts.Render] = {
    name: partial(costs.render, name=name) for name in costs.MOST_ROUNDS
} | {"sharded": growing.render}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures: dict[str, Callable[..., dict[str, Any]]] = {
        name: partial(costs.measure, name=name) for name in costs.MOST_ROUNDS
    }
    measures["sharded"] = growing.measure
    parts.run(NAME, __doc__, measures, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
