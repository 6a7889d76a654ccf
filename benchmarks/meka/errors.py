"""Table 7: errors of all methods at the memory of MEKA, medians over five seeds.

pendigits is train and test rows, its columns and covtype's scaled to [0, 1]; ijcnn1 is the training
rows as they are. covtype is the subset of 92,962 rows, the paper's has 581,012. Errors are those of
1,000 rows drawn anew for each seed, the same for all methods; the paper's of 20,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks import common, hot
from benchmarks.data import Directory
from benchmarks.meka import accuracy, paper, problems, rivals, runs

GOALS = {"pendigits": 6.5, "ijcnn1": 0.25, problems.COVTYPE: 7.0}
"""Errors in per cent, at most."""
NAMES = (runs.OURS, runs.PLAIN, *rivals.RIVALS)


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures of each method, by problem."""
    runs.warm()
    found, seeds = [], problems.SEEDS[: 1 if quick else None]
    for row in problems.TABLE:
        problem = problems.problem(row[0], data, *row[1:], quick=quick)
        common.note(f"  {problem.name}, n={len(problem):,}")
        methods = runs.by_seed(seeds, lambda seed, one=problem: runs.compared(one, seed))
        found.append({"problem": problem.name, **problem.describe(), "methods": methods})
    return {
        "seeds": seeds,
        "rows": problems.ROWS,
        "problems": found,
        "goals": [goal for one in found for goal in _goals(one)],
    }


def _goals(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    name, methods = one["problem"], one["methods"]
    errors = [100 * error for error in methods[runs.OURS]["error"]["values"]]
    best = min(
        (methods[rival]["error"]["median"], rival) for rival in rivals.RIVALS if rival in methods
    )
    ratios = [
        ours / theirs
        for ours, theirs in zip(
            methods[runs.OURS]["error"]["values"], methods[best[1]]["error"]["values"], strict=True
        )
    ]
    short = name.partition("_")[0]
    return [
        hot.goal(f"{short}: error of MEKA", errors, " %", most=GOALS[name]),
        hot.goal(f"{short}: error of MEKA / {best[1]}, the best rival", ratios, "x", most=1.0),
    ]


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Errors beside the paper's, then seconds and memory."""
    every = found["problems"]
    rows = []
    for name in NAMES:
        cells = [name]
        for one in every:
            theirs = paper.ERRORS[one["problem"]].get(name)
            cells += [
                accuracy.text(one["methods"][name]["error"]["median"]),
                "" if theirs is None else accuracy.text(theirs),
            ]
        rows.append(cells)
    header = ["Table 7, error"]
    for one in every:
        header += [_title(one), "paper's"]
    seconds = [
        [name, *(f"{one['methods'][name]['seconds']['median']:,.2f}" for one in every)]
        for name in NAMES
    ]
    sizes = []
    for one in every:
        method = one["methods"]
        sizes.append(
            f"{_title(one)}: n={one['n']:,}, k={one['rank']}, γ={one['gamma']:g}, "
            f"c={one['clusters']}, {method[runs.OURS]['nbytes']['median'] / 1e6:.1f} MB, "
            f"rivals' rank {method['Nys']['rank']['median']:.0f}"
        )
    tables = [
        common.table(header, rows),
        common.table(["Table 7, seconds", *map(_title, every)], seconds),
        "\n".join(sizes),
        hot.goals_table(found["goals"]),
    ]
    return "\n\n".join(tables)


def _title(one: Mapping[str, Any]) -> str:
    title: str = one["problem"].partition("_")[0]
    return title
