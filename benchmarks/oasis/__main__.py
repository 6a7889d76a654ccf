"""oASIS: errors, time and memory beside the paper's, and landmarks of streams.

table1       the paper's Table I: Two Moons, Abalone, BORG, two kernels, 450 landmarks, all methods
speed        Abalone: against the paper's update by BLAS in place and a plain NumPy factorization
memory       peaks of fresh processes, up to 1,000,000 points
table2       Table II: MNIST, 50,000 points, 4,000 landmarks
table3       Table III: 1,000,000 Two Moons, 1,000 landmarks, in one process and in two
curves       Figures 5 to 7, as PNG files
incremental  landmarks kept over elec2 and covtype against oASIS on the whole prefix

How each figure is taken is at the top of the modules in oasis/. With --only the other parts stay in
the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common, hot, parts
from benchmarks.oasis import curves, explicit, implicit, memory, million, plots, speed, streams
from benchmarks.oasis.problems import NOISE, SEED, VARIANCE

NAME = "oasis"
PARTS: dict[str, parts.Render] = {
    "table1": explicit.render,
    "speed": speed.render,
    "memory": memory.render,
    "table2": implicit.render,
    "table3": million.render,
    "curves": curves.render,
    "incremental": streams.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.oasis", __doc__)
    parts.add_only(parser, list(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="of speed; default: %(default)s")
    parser.add_argument(
        "--figures",
        metavar="DIR",
        type=Path,
        help="where the figures go (default: docs/figures/; nowhere with --quick)",
    )
    options = parser.parse_args(argv)
    data, quick, clock = options.data, options.quick, hot.clock(options)
    directory = options.figures or (None if quick else plots.DIRECTORY)
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "table1": lambda: explicit.measure(data, quick=quick),
        "speed": lambda: speed.measure(data, clock, quick=quick),
        "memory": lambda: memory.measure(quick=quick),
        "table2": lambda: implicit.measure(data, quick=quick),
        "table3": lambda: million.measure(quick=quick),
        "curves": lambda: curves.measure(data, directory, quick=quick),
        "incremental": lambda: streams.measure(data, quick=quick),
    }
    results = parts.measured(NAME, options, measures)
    settings = {**hot.settings(clock), "seed": SEED, "noise": NOISE, "variance": VARIANCE}
    common.finish(NAME, options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
