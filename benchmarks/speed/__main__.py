"""How fast, against what else could be done on the same machine in the same run.

memory   engine from memory on elec2, 1,024 features, steps of 256 events: at least 60,000 events/s
river    the River adapter, one event at a time, no metric: at least 10 times ARF's rate
state    4 bytes a feature and output plus a constant; `import streamk` under 0.5 s

All contestants run in turn and repeatedly; tables give median and range. Files and Kafka are in
`benchmarks.engine`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common
from benchmarks.data import load
from benchmarks.speed import memory, model, river, state

PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "memory": memory.render,
    "river": river.render,
    "state": state.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    parts = [PARTS[name](found) for name, found in document["results"].items()]
    return "\n\n".join([*parts, common.origin(document)])


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.speed", __doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    options = parser.parse_args(argv)
    data = load("elec2", options.data, quick=options.quick)
    rounds = 1 if options.quick else options.rounds
    measures: dict[str, Callable[[], Any]] = {
        "memory": lambda: memory.measure(data, rounds),
        "river": lambda: river.measure(data, rounds),
        "state": lambda: state.measure(rounds, quick=options.quick),
    }
    results = {}
    for name, measure in measures.items():
        if name in options.parts:
            common.note(name)
            results[name] = measure()
    settings = {"features": model.FEATURES, "batch": model.BATCH, "rounds": rounds}
    common.finish("speed", options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
