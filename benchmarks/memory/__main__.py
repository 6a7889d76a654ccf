"""Random features kept or made again: time, memory, and where to switch.

regenerated  nothing kept against everything kept, 65,536 features of 784 columns
budget       time by the share kept, an event and a batch of 256
state        bytes of a model's state a feature and output

How each figure is taken is at the top of the module of its name in memory/. Data are generated
normals. All contestants run in turn and repeatedly; tables give median and range.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common, hot
from benchmarks.memory import budget, regenerated, state

PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "regenerated": regenerated.render,
    "budget": budget.render,
    "state": state.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    return hot.document(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.memory", __doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args(argv)
    clock = hot.clock(options)
    measures: dict[str, Callable[[], Any]] = {
        "regenerated": lambda: regenerated.measure(clock, quick=options.quick),
        "budget": lambda: budget.measure(clock, quick=options.quick),
        "state": lambda: state.measure(quick=options.quick),
    }
    results = {name: measures[name]() for name in PARTS if name in options.parts}
    common.finish("memory", options, hot.settings(clock), results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
