"""Table 5: the seconds of MEKA's steps.

TC is finding clusters, TL links, TW all else: bases and what they make of the points. They are
those of one call of `meka`, whose functions for clusters and links are timed on the way.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.meka import accuracy, paper, problems, runs
from benchmarks.meka.problems import Problem

STEPS = ("TC", "TW", "TL")
# The package has a function of that name.
_MODULE = importlib.import_module("streamk.factorization.meka")


class _Timed:
    """Calls of a function, and the seconds they took."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return self._function(*arguments, **options)
        finally:
            self.seconds += time.perf_counter() - began

    def __get__(self, owner: Any, _: Any = None) -> Callable[..., Any]:
        return lambda *arguments, **options: self(owner, *arguments, **options)


def timed(problem: Problem, seed: int, **options: Any) -> dict[str, float]:
    """Seconds of each step, and the error."""
    clusters, links = _Timed(_MODULE.clustered), _Timed(_MODULE._Plan.links)
    with (
        mock.patch.object(_MODULE, "clustered", clusters),
        mock.patch.object(_MODULE._Plan, "links", links),
    ):
        began = time.perf_counter()
        found = runs.factorize(problem, seed, **options)
        total = time.perf_counter() - began
    TC, TL = clusters.seconds, links.seconds
    seconds = {"TC": TC, "TW": total - TC - TL, "TL": TL}
    return {name: accuracy.short(one) for name, one in seconds.items()} | {
        "error": accuracy.short(found.error(seed=seed))
    }


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Seconds of the steps on the problems of Table 7."""
    runs.warm(())
    found = []
    for row in problems.TABLE:
        problem = problems.problem(row[0], data, *row[1:], quick=quick)
        steps = runs.spreads(
            timed(problem, seed) for seed in problems.SEEDS[: 1 if quick else None]
        )
        found.append({"problem": problem.name, **problem.describe(), "steps": steps})
        common.note(f"  {problem.name}: " + ", ".join(f"{s} {steps[s]['median']}" for s in STEPS))
    return {"problems": found}


def render(found: Mapping[str, Any]) -> str:
    """Seconds beside the paper's."""
    header = ["Table 5, seconds"]
    for step in STEPS:
        header += [step, "paper's"]
    rows = []
    for one in found["problems"]:
        cells = [f"{one['problem'].partition('_')[0]}, n={one['n']:,}"]
        for step, theirs in zip(STEPS, paper.STAGES[one["problem"]], strict=True):
            cells += [f"{one['steps'][step]['median']:,.2f}", f"{theirs:,.2f}"]
        rows.append(cells)
    return common.table(header, rows)
