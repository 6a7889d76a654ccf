"""All benchmarks one after another, then the page of results."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import adult, common, first_light, page, scaling
from benchmarks.engine import __main__ as engine
from benchmarks.features import __main__ as features
from benchmarks.memory import __main__ as memory
from benchmarks.speed import __main__ as speed
from benchmarks.step import __main__ as step


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks", __doc__, out=False)
    options = parser.parse_args(argv)
    given = ["--data", options.data] if options.data else []
    given += ["--quick"] if options.quick else []
    # The short ones first: what is wrong with the machine or the data shows early.
    for benchmark in (scaling, features, step, memory, speed, adult, first_light, engine):
        benchmark.run(given)
    if not options.quick:
        page.main()


if __name__ == "__main__":
    sys.exit(common.main(run))
