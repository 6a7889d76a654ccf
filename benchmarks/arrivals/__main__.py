"""What really arrives, and what becomes of it.

messy  airlines as it might arrive, by the command, beside the clean file
fuzz   1.8 million random records, from memory: all are counted, and memory stays as it is

How each figure is taken is at the top of the module of its name in arrivals/. With --only the other
parts stay in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.arrivals import fuzz, messy

NAME = "arrivals"
PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "messy": messy.render,
    "fuzz": fuzz.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.arrivals", __doc__)
    parts.add_only(parser, list(PARTS))
    options = parser.parse_args(argv)
    measures = {
        "messy": partial(messy.measure, options.data, quick=options.quick),
        "fuzz": partial(fuzz.measure, quick=options.quick),
    }
    results = parts.measured(NAME, options, measures)
    settings = {"seed": {"messy": messy.SEED, "fuzz": fuzz.SEED}}
    common.finish(NAME, options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
