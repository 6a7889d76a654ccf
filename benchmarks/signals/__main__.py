"""What a job tells about itself, and how far it can be relied on.

coverage   intervals and prediction sets of 90% on all streams of the river battery

How each figure is taken is at the top of the modules in signals/. With --only the other parts stay
in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common, parts
from benchmarks.signals import coverage

NAME = "signals"
PARTS: dict[str, parts.Render] = {"coverage": coverage.render}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parts.run(NAME, __doc__, {"coverage": coverage.measure}, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
