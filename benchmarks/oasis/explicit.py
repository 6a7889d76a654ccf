"""Table I: matrices that fit into memory, so that all methods can be run and errors are exact.

Seconds are those of choosing the landmarks and of the factor that approximates the matrix, from the
points; the paper's are of choosing alone, from the matrix. Methods that need the matrix form it in
that time. Errors and seconds of what draws at random are means over the seeds, oASIS's among them,
whose first landmark is drawn. The oracle is the paper's update as plainly as it can be written, on
the matrix, from oASIS's first landmark; "alike" says how many landmarks agree with oASIS's before
the first that does not. A matrix whose Schur complements tie is chosen from by rounding.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.oasis import accuracy, paper
from benchmarks.oasis.methods import DETERMINISTIC, METHODS
from benchmarks.oasis.problems import EXPLICIT, KERNELS, Matrix, Problem
from streamk.landmarks import oasis

LANDMARKS, QUICK = 450, 24
REPEATS = 10
ORACLE = "the oracle"


def oracle() -> ModuleType:
    """`tests/reference/landmarks.py`."""
    directory = str(common.ROOT / "tests")
    if directory not in sys.path:
        sys.path.append(directory)
    return importlib.import_module("naive_landmarks")


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures of each method, by problem and kernel."""
    count, repeats = (QUICK, 2) if quick else (LANDMARKS, REPEATS)
    found = []
    for name, make in EXPLICIT.items():
        gaussian = make(data, quick)
        for kind in KERNELS:
            problem = Problem(name, gaussian.X, gaussian.sigma, kind)
            common.note(f"  {name}, {kind}")
            found.append(_measured(problem, count, repeats))
    return {"landmarks": count, "repeats": repeats, "problems": found}


def _measured(problem: Problem, count: int, repeats: int) -> dict[str, Any]:
    G = problem.matrix()
    figures = {name: _method(name, problem, G, count, repeats) for name in METHODS}
    start = oasis(problem.X, problem.kernel, max_landmarks=count, seed=0)
    figures[ORACLE] = _plain(G, count, start.indices)
    return {"problem": problem.name, **problem.describe(), "methods": figures}


def _method(name: str, problem: Problem, G: Matrix, count: int, repeats: int) -> dict[str, Any]:
    method = METHODS[name]
    # numba compiles on the way, and threads are started.
    method(problem.X[:100], problem.kernel, max_landmarks=5, seed=0)
    seconds, errors, taken = [], [], []
    for seed in range(1 if name in DETERMINISTIC else repeats):
        began = time.perf_counter()
        landmarks = method(problem.X, problem.kernel, max_landmarks=count, seed=seed)
        seconds.append(time.perf_counter() - began)
        errors.append(accuracy.relative(G, landmarks.factor))
        taken.append(len(landmarks))
    common.note(f"    {name}: {statistics.mean(errors):.2e}, {statistics.mean(seconds):.3g} s")
    return {
        "error": accuracy.short(statistics.mean(errors)),
        "errors": [accuracy.short(error) for error in errors],
        "seconds": common.spread(seconds),
        "landmarks": min(taken),
    }


def _plain(G: Matrix, count: int, indices: Any) -> dict[str, Any]:
    """The oracle's error, its time, and how far it agrees with other indices."""
    naive = oracle()
    began = time.perf_counter()
    found = naive.oasis(G, count, [int(indices[0])])
    seconds = time.perf_counter() - began
    same = np.asarray(found.indices[: len(indices)]) == indices[: len(found.indices)]
    values, V = np.linalg.eigh(found.W_inverse)
    F = found.C @ (V * np.sqrt(np.maximum(values, 0.0)))
    return {
        "error": accuracy.short(accuracy.relative(G, F)),
        "seconds": common.spread([seconds]),
        "landmarks": len(found.indices),
        "alike": int(np.argmin([*same, False])),
        "decided": naive.decided(found, float(np.diag(G).max())),
    }


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Errors and seconds, a table for each kernel, with the paper's beside."""
    tables = []
    for kind in KERNELS:
        problems = [one for one in found["problems"] if one["kernel"] == kind]
        tables += [_table(problems, kind, 0), _table(problems, kind, 1)]
    alike = ", ".join(
        f"{one['problem']} {one['methods'][ORACLE]['alike']}"
        for one in found["problems"]
        if one["kernel"] == KERNELS[0]
    )
    sizes = ", ".join(
        f"{one['problem']} {one['n']:,} points"
        for one in found["problems"]
        if one["kernel"] == KERNELS[0]
    )
    text = (
        f"{sizes}; {found['landmarks']} landmarks, {found['repeats']} seeds.\n"
        f"Landmarks alike with the oracle's, Gaussian kernel: {alike}."
    )
    return "\n\n".join([*tables, text])


def _table(problems: list[Mapping[str, Any]], kind: str, which: int) -> str:
    what = ("error", "seconds")[which]
    header = [f"Table I, {kind}: {what}"]
    for one in problems:
        header += [one["problem"], "paper's"]
    rows = []
    for name in problems[0]["methods"]:
        row = [name]
        for one in problems:
            theirs = paper.EXPLICIT.get((one["problem"], kind, name))
            row.append(_cell(one["methods"][name], which))
            row.append(_text(theirs[which], which) if theirs else "")
        rows.append(row)
    return common.table(header, rows)


def _cell(figures: Mapping[str, Any], which: int) -> str:
    value = statistics.mean(figures["seconds"]["values"]) if which else figures["error"]
    return _text(value, which)


def _text(value: float, which: int) -> str:
    if not which:
        return accuracy.text(value)
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
