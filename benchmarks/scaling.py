"""Growth from 2^10 to 2^17 features: time an event in batches of 256, and its exponent.

"predict" is `DoublyStochastic.decision_many`; "learn" is `learn_many` of a model that has grown by
blocks of 1,024 features, so it predicts with all of them and moves 1,024. The exponent is the slope
of a straight line through the logarithms of the times, fitted to each round by itself. It is below
1 where small models pay for what an event costs by itself (784 columns checked and laid out), or
are not worth a second thread.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.hot import SAMPLERS, Case

EVENTS = 256
BLOCK = 1024
POWERS = range(10, 18)
LINES = (("hadamard", 784), ("hadamard", 54), ("iid", 54))
"""Samplers and columns."""
THREADS = (1, 2)
EXPONENT = (0.9, 1.1)


def measure(clock: hot.Clock, *, quick: bool) -> dict[str, Any]:
    """Times an event, exponents and goals."""
    block, powers = (128, range(7, 10)) if quick else (BLOCK, POWERS)
    lines = []
    works: dict[str, hot.Work] = {}
    for sampler, columns in LINES:
        case = Case(block, min(columns, 64) if quick else columns, EVENTS)
        X, y = hot.numbers(case)[:2]
        for threads in THREADS:
            lines.append((SAMPLERS[sampler], f"{SAMPLERS[sampler]} d={columns}, {_cores(threads)}"))
            for power in powers:
                model = _grown(sampler, case.columns, threads, block, 2**power, X, y)
                works |= {
                    f"{lines[-1][1]}: predict {power}": lambda model=model, X=X: (
                        model.decision_many(X)
                    ),
                    f"{lines[-1][1]}: learn {power}": lambda model=model, X=X, y=y: (
                        model.learn_many(X, y)
                    ),
                }
    times = clock.race(works)
    found: dict[str, Any] = {"powers": list(powers), "lines": [], "goals": []}
    for name, line in lines:
        for what in ("predict", "learn"):
            seconds = [times[f"{line}: {what} {power}"] for power in powers]
            exponents = _exponents(powers, seconds)
            title = f"{line}: {what}"
            found["lines"].append(
                {
                    "case": title,
                    "us_an_event": [common.spread(1e6 * t / EVENTS for t in s) for s in seconds],
                    "exponent": common.spread(exponents),
                }
            )
            if name == "Hadamard" and what == "predict":
                least, most = EXPONENT
                found["goals"].append(
                    hot.goal(f"{title}, exponent", exponents, least=least, most=most)
                )
    return found


def _cores(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _grown(
    sampler: str, columns: int, threads: int, block: int, features: int, X: Any, y: Any
) -> Any:
    """A model that has all of its features, a block for each of the first events."""
    model = hot.model(
        sampler,
        Case(features, columns),
        block_size=block,
        batch_size=EVENTS,
        threads=threads,
    )
    while model.n_features < features:
        model.learn_many(X[:1], y[:1])
    return model


def _exponents(powers: Sequence[int], seconds: Sequence[Sequence[float]]) -> list[float]:
    """The slope of each round."""
    return [
        float(np.polyfit([power * np.log(2) for power in powers], np.log(times), 1)[0])
        for times in zip(*seconds, strict=True)
    ]


def render(document: Mapping[str, Any]) -> str:
    """The tables: a line a sampler and number of threads."""
    found = document["results"]
    lines = found["lines"]
    times = common.table(
        ["µs an event (medians)", *(f"2^{power}" for power in found["powers"])],
        [
            [line["case"], *(hot.short(figure["median"]) for figure in line["us_an_event"])]
            for line in lines
        ],
    )
    exponents = common.table(
        ["exponent", "median", "range"],
        [[line["case"], *common.ranged(line["exponent"], 2)] for line in lines],
    )
    goals = hot.goals_table(found["goals"])
    return "\n\n".join([times, exponents, goals, common.origin(document)])


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.scaling", __doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args(argv)
    clock = hot.clock(options)
    results = measure(clock, quick=options.quick)
    common.finish("scaling", options, hot.settings(clock), results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
