"""The short benchmarks one after another, then the pages of results."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import adult, common, engine, features, memory, page, speed


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks", __doc__, out=False)
    options = parser.parse_args(argv)
    given = ["--data", options.data] if options.data else []
    given += ["--quick"] if options.quick else []
    # The short ones first: what is wrong with the machine or the data shows early.
    for benchmark in (features, memory, speed, adult, engine):
        benchmark.run(given)
    if not options.quick:
        page.main()


if __name__ == "__main__":
    sys.exit(common.main(run))
