"""Coverage of intervals and prediction sets, and alarms: how far they can be relied on.

coverage   intervals and prediction sets of 90% on all streams of the river battery
alarms     alarms about errors that rise, and about covariate drift: their delay, and false ones
jobs       alarms of whole jobs: false ones by kind and model, and delays on data sets

How each figure is taken is at the top of the modules in signals/. With --only the other parts stay
in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common, parts
from benchmarks.signals import alarms, coverage, jobs

NAME = "signals"
PARTS: dict[str, parts.Render] = {
    "coverage": coverage.render,
    "alarms": alarms.render,
    "jobs": jobs.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures = {
        "coverage": coverage.measure,
        "alarms": alarms.measure,
        "jobs": jobs.measure,
    }
    parts.run(NAME, __doc__, measures, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
