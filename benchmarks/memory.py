"""Random features kept or made again: time of an event and of a batch of 256 by the share kept.

`cache_bytes` is that share of what all constants of the features take (frequencies and phases, or
signs, lengths and phases). Times are of `DoublyStochastic.decision_many`. Data are generated
normals; all contestants run in turn and repeatedly.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks import common, hot
from benchmarks.common import Part
from benchmarks.hot import SAMPLERS, Case, Clock

NAME = "memory"
EVENTS = 256
CASES = (Case(4096, 54, EVENTS), Case(65536, 784, EVENTS))
SHARES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)


def measure(clock: Clock, *, quick: bool) -> dict[str, Any]:
    """Microseconds by case, sampler, share, and one or many events."""
    rows = []
    for given in CASES:
        case = given.quick() if quick else given
        for sampler, name in SAMPLERS.items():
            common.note(f"budgets, {name}, {case}")
            rows.append({"case": f"{name} {case}", **_measure(clock, case, sampler)})
    return {"rows": rows}


def _measure(clock: Clock, case: Case, sampler: str) -> dict[str, Any]:
    X = hot.numbers(case).X
    kept, nothing = (
        hot.model(sampler, case, cache_bytes=cache_bytes).nbytes for cache_bytes in (1 << 30, 0)
    )
    works: dict[str, hot.Work] = {}
    for share in SHARES:
        model = hot.model(sampler, case, cache_bytes=int(share * (kept - nothing)))
        works[f"{share:g}: one event"] = partial(model.decision_many, X[:1])
        works[f"{share:g}: a batch"] = partial(model.decision_many, X)
    return {"bytes": kept - nothing, "us": hot.spreads(clock.race(works))}


def render_budget(found: Mapping[str, Any]) -> str:
    """The table."""
    lines = []
    for row in found["rows"]:
        for what in ("one event", "a batch"):
            figures = [row["us"][f"{share:g}: {what}"]["median"] for share in SHARES]
            size = f"{row['bytes'] / 1e6:,.1f} MB"
            lines.append([f"{row['case']}, {what}", size, *map(hot.short, figures)])
    shares = [f"{share:.3g}" for share in SHARES]
    header = [f"µs by share kept; a batch: {EVENTS}", "all kept", *shares]
    return common.table(header, lines)


PARTS = {"budget": Part(lambda o: measure(hot.clock_of(o), quick=o.quick), render_budget)}

render, run = common.topic(NAME, __doc__, PARTS, settings=hot.settings, rounds=5)


if __name__ == "__main__":
    sys.exit(common.main(run))
