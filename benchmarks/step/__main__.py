"""Predicting and learning: one event, 256 events, the engine, and a fresh process's first event.

one     one event: a step against a prediction, compiled and public
batch   batches of 256 against scikit-learn's partial_fit, single events against River
engine  the engine from memory on elec2
start   import, warm_up() and the first event in a fresh process

How each figure is taken is at the top of the module of its name in step/. Data are generated
normals but for the engine's. All contestants run in turn and repeatedly; ratios are taken round by
round, and tables give their median and range.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common, hot
from benchmarks.data import load
from benchmarks.step import batch, engine, one, start

PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "one": one.render,
    "batch": batch.render,
    "engine": engine.render,
    "start": start.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    return hot.document(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.step", __doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    options = parser.parse_args(argv)
    clock = hot.clock(options)

    def through_engine() -> Any:
        return engine.measure(load("elec2", options.data, quick=options.quick), clock.rounds)

    measures: dict[str, Callable[[], Any]] = {
        "one": lambda: one.measure(clock, quick=options.quick),
        "batch": lambda: batch.measure(clock, quick=options.quick),
        "engine": through_engine,
        "start": lambda: start.measure(clock.rounds, quick=options.quick),
    }
    results = {name: measures[name]() for name in PARTS if name in options.parts}
    common.finish("step", options, hot.settings(clock), results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
