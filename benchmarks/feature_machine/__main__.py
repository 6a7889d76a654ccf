"""Recursive feature machines (Radhakrishnan et al. 2024), in batch and on streams.

rivals     beside plain kernel ridge regression, LightGBM, a forest and the authors' package
families   each distance and kind of metric by itself, round after round
stream     the learner of streams, by itself and among the experts of the default model
ablation   the learner of streams without its metric or its second order, and what the metric finds
latency    what one event waits while a new function is being made, and otherwise

How each figure is taken is at the top of the modules in feature_machine/. With --only the other
parts stay in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common, parts
from benchmarks.feature_machine import ablation, families, latency, rivals, stream

NAME = "feature_machine"
PARTS: dict[str, parts.Render] = {
    "rivals": rivals.render,
    "families": families.render,
    "stream": stream.render,
    "ablation": ablation.render,
    "latency": latency.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures = {
        "rivals": rivals.measure,
        "families": families.measure,
        "stream": stream.measure,
        "ablation": ablation.measure,
        "latency": latency.measure,
    }
    parts.run(NAME, __doc__, measures, render, argv, {"seeds": rivals.SEEDS})


if __name__ == "__main__":
    sys.exit(common.main(run))
