"""A method on a problem: its errors by passes and seconds; and the choice of its options."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

from benchmarks.doubly_stochastic.methods import Machine, Method
from benchmarks.doubly_stochastic.problems import Problem

STEP = 512
"""Events between two looks at the clock."""
STOPS = (1 / 8, 1 / 2)
"""Parts of a pass after which there is a test, beside the ends."""
TUNED = 10_000
"""Training events on which options are chosen, at most; a fifth of them is held out."""


def run(machine: Machine, problem: Problem, budget: float, *, most: int = 1000) -> dict[str, Any]:
    """Learn until a pass is over and the seconds of the budget are, too.

    Returns
    -------
    dict
        "curve": events, seconds of learning and test error, in per cent, at the stops. "pass" and
        "budget": the entries where the first pass is over, and when the budget is. Tests are not
        timed.
    """
    n = len(problem.X)
    stops = {max(1, round(n * part)) for part in STOPS}
    events, seconds = 0, 0.0
    curve: list[list[float]] = []
    found: dict[str, Any] = {"curve": curve}
    while events < n or (seconds < budget and events < most * n):
        first = events % n
        after = [at - events for at in (*stops, n * (events // n + 1)) if at > events]
        count = min(STEP, *after)
        rows = slice(first, first + count)
        began = time.process_time()
        machine.learn(first, problem.X[rows], problem.y[rows])
        seconds += time.process_time() - began
        events += count
        spent = seconds >= budget and "budget" not in found
        if spent or events in stops or events % n == 0:
            curve.append([events, round(seconds, 4), error(machine, problem)])
            if events == n:
                found["pass"] = curve[-1]
            if spent:
                found["budget"] = curve[-1]
    # The method had all the passes that there may be before the budget was spent.
    found.setdefault("budget", curve[-1])
    return found


def error(machine: Machine, problem: Problem) -> float:
    """Test error in per cent."""
    signs = np.where(machine.scores(problem.test) > 0.0, 1.0, -1.0)
    return round(100.0 * float(np.mean(signs != problem.expected)), 4)


def held_out(problem: Problem, most: int = TUNED) -> Problem:
    """Return a problem of training events alone, the last fifth of which is the test."""
    n = min(most, len(problem.X))
    cut = n * 4 // 5
    X, y = problem.X[:n], problem.y[:n]
    return dataclasses.replace(problem, X=X[:cut], y=y[:cut], test=X[cut:], expected=y[cut:])


def choose(method: Method, problem: Problem, seed: int = 0) -> dict[str, Any]:
    """Return the options of the least error on held-out training events, and all that was tried."""
    inner = held_out(problem)
    tried = []
    for options in method.candidates(len(inner.X)):
        machine = method.make(inner, seed, options)
        machine.learn(0, inner.X, inner.y)
        tried.append({**options, "error": error(machine, inner)})
    best = min(tried, key=lambda one: one["error"])
    chosen = {key: value for key, value in best.items() if key != "error"}
    return {"options": chosen, "held_out": best["error"], "tried": tried}
