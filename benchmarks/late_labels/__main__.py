"""The cost of holding events until their labels come.

rates      records a second, memory and checkpoints, by how many are held
length     the same with ten million
kills      a job that is killed again and again, beside one that is not

How each figure is taken is at the top of the modules in late_labels/.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.late_labels import kills, rates

NAME = "late_labels"
PARTS: dict[str, parts.Render] = {
    "rates": rates.render,
    "length": rates.render,
    "kills": kills.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures = {
        "rates": rates.measure,
        "length": partial(rates.measure, runs=rates.LONG),
        "kills": kills.measure,
    }
    parts.run(NAME, __doc__, measures, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
