"""Models that predict in microseconds: DC-Pred++ and what it is made of.

classes        Table 1 and Figure 2: accuracy by the time of a prediction, four data sets
kddcup         the same of kdd99_10pct
numbers        Figure 3: errors of regressions by the cost of a prediction
approximation  Figure 1: errors of approximate kernels by the cost of a prediction
ablation       what each part of the method does

How each figure is taken is at the top of the modules in fast_prediction/. With --only the other
parts stay in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.fast_prediction import ablation, approximation, classes, numbers

NAME = "fast_prediction"
PARTS: dict[str, parts.Render] = {
    "classes": classes.render,
    "kddcup": classes.render,
    "numbers": numbers.render,
    "approximation": approximation.render,
    "ablation": ablation.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures = {
        "classes": classes.measure,
        "kddcup": partial(classes.measure, sets=classes.LARGE),
        "numbers": numbers.measure,
        "approximation": approximation.measure,
        "ablation": ablation.measure,
    }
    parts.run(NAME, __doc__, measures, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
