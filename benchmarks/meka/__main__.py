"""MEKA and block kernels: errors, time and memory beside the paper's.

table7    errors of MEKA and of the paper's six rivals at equal memory
table5    the seconds of MEKA's steps
table3    ranks of the blocks between clusters
headline  covtype to 10% error: time and memory against Nyström; 581,012 rows
table2    BKA-SVM against LIBSVM and low-rank kernels
table8    kernel ridge regression
matvec    products with vectors against NumPy and the speed of memory
streaming progressive errors on streams, and pauses while it is factorized anew
curves    Figures 1c, 2 to 10 and 13, as PNG files

How each figure is taken is at the top of the modules in meka/. With --only the other parts stay in
the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common, hot, parts
from benchmarks.meka import (
    curves,
    errors,
    headline,
    machines,
    pauses,
    plots,
    problems,
    ranks,
    ridge,
    stages,
    streaming,
    vectors,
)

NAME = "meka"
PARTS: dict[str, parts.Render] = {
    "table7": errors.render,
    "table5": stages.render,
    "table3": ranks.render,
    "headline": headline.render,
    "table2": machines.render,
    "table8": ridge.render,
    "matvec": vectors.render,
    "streaming": streaming.render,
    "pauses": pauses.render,
    "curves": curves.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.meka", __doc__)
    parts.add_only(parser, list(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="of what takes turns; %(default)s")
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
        "table7": lambda: errors.measure(data, quick=quick),
        "table5": lambda: stages.measure(data, quick=quick),
        "table3": lambda: ranks.measure(data, quick=quick),
        "headline": lambda: headline.measure(data, clock, quick=quick),
        "table2": lambda: machines.measure(data, quick=quick),
        "table8": lambda: ridge.measure(data, quick=quick),
        "matvec": lambda: vectors.measure(data, clock, quick=quick),
        "streaming": lambda: streaming.measure(data, quick=quick),
        "pauses": lambda: pauses.measure(data, quick=quick),
        "curves": lambda: curves.measure(data, directory, quick=quick),
    }
    results = parts.measured(NAME, options, measures)
    settings = {**hot.settings(clock), "seeds": problems.SEEDS, "rows": problems.ROWS}
    common.finish(NAME, options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
