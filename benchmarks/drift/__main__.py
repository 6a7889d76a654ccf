"""MMDDrift beside River's drift detectors: how late they find changes, and false alarms.

delays     generated streams with one change of known place: delay, misses, alarms before it
nulls      generated streams without a change, up to a million events: alarms, p-values
events     events with texts, lists, late fields: how small p-values are, and delays
blocks     elec2, rialto and covtype, shuffled in blocks: only blocks of one event are a null
retraining elec2, rialto and covtype in order: a model that begins anew where drift is detected

How each figure is taken is at the top of the modules in drift/. With --only the other parts stay in
the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common, parts
from benchmarks.drift import blocks, delays, events, nulls, retraining

NAME = "drift"
PARTS: dict[str, parts.Render] = {
    "delays": delays.render,
    "nulls": nulls.render,
    "events": events.render,
    "blocks": blocks.render,
    "retraining": retraining.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures = {
        "delays": delays.measure,
        "nulls": nulls.measure,
        "events": events.measure,
        "blocks": blocks.measure,
        "retraining": retraining.measure,
    }
    parts.run(NAME, __doc__, measures, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
