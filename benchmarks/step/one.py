"""One event: predicting and learning against predicting alone.

"compiled" is what the backend's `single` prepared, on prepared arrays; a step predicts the event
and moves all features. "public" are `decision_one` and `learn_one` of `DoublyStochastic`; what
`learn_one` predicts before it learns it does not return, so who wants to know it calls both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks import common, hot
from benchmarks.hot import SAMPLERS, Case, Clock, Compiled

CASE = Case(4096, 54)
GOAL = 1.3
"""The time of a step over that of a prediction."""


def measure(clock: Clock, *, quick: bool) -> dict[str, Any]:
    """Times, ratios and goals."""
    case = CASE.quick() if quick else CASE
    common.note(f"one event, {case}")
    X, y = hot.numbers(case)[:2]
    works: dict[str, hot.Work] = {}
    for sampler, name in SAMPLERS.items():
        model = hot.model(sampler, case)
        compiled = Compiled(sampler, case, model)
        works |= {
            f"{name}, compiled: predict": compiled.predict(),
            f"{name}, compiled: predict + learn": compiled.step(),
            f"{name}, public: predict": partial(model.decision_one, X[0]),
            f"{name}, public: learn": partial(model.learn_one, X[0], float(y[0])),
        }
    times = clock.race(works)
    ratios, goals = {}, []
    for name in SAMPLERS.values():
        step = f"{name}, compiled: predict + learn"
        found = hot.ratio(times, step, f"{name}, compiled: predict")
        title = f"one event {case}: step / predict, {name}"
        goals.append(hot.goal(title, found, "x", most=GOAL))
        learn = hot.ratio(times, f"{name}, public: learn", f"{name}, public: predict")
        ratios[f"{name}, public: learn / predict"] = common.spread(learn)
    return {"case": str(case), "us": hot.spreads(times), "ratios": ratios, "goals": goals}


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    rows = [[name, *common.ranged(figure, 2)] for name, figure in found["us"].items()]
    rows += [[name, *common.ranged(figure, 2)] for name, figure in found["ratios"].items()]
    return common.table([f"one event {found['case']}, µs", "median", "range"], rows)
