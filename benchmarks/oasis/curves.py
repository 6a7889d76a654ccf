"""Figures 5, 6 and 7: errors by the number of landmarks, seconds by n, and errors by seconds.

Figure 5: a Gram matrix of rank 3, of points in a plane and a few around (0, 0, 1): error and rank
of the approximation, oASIS against five uniform draws. Figure 6: errors of Table I's Gaussian
matrices by the number of landmarks, and the seconds of choosing by the number of points (Two
Moons). Figure 7: for the adaptive methods the same errors, and the number of landmarks, by the
seconds that choosing so many takes: from the points, with the factor, the fastest of three runs to
so many landmarks (one if it takes more than 2 s), not one run looked at on its way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.oasis import accuracy, plots
from benchmarks.oasis.methods import METHODS
from benchmarks.oasis.problems import EXPLICIT, SEED, Matrix, Problem, share, two_moons
from streamk.kernels import Linear
from streamk.landmarks import oasis, uniform

COUNTS, QUICK_COUNTS = (10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450), (5, 10, 20)
SIZES, QUICK_SIZES = (1000, 2000, 4000, 8000, 16_000), (150, 300)
LARGEST = 8000
"""Points of the methods that need the whole matrix."""
WHOLE = ("leverage scores", "Farahat")
LONG = 2.0
PLANE, APART, STEPS, TRIALS = 190, 10, 10, 5


def measure(data: Directory, figures: Path | None, *, quick: bool) -> dict[str, Any]:
    """All curves, drawn where `figures` is a directory."""
    found = {
        "recovery": recovery(),
        "errors": {
            name: _errors(make(data, quick), QUICK_COUNTS if quick else COUNTS)
            for name, make in EXPLICIT.items()
        },
        "times": _times(QUICK_SIZES if quick else SIZES, (QUICK_COUNTS if quick else COUNTS)[-1]),
    }
    if figures is not None:
        plots.draw(found, figures)
    return found


def gram_points(seed: int = SEED) -> Matrix:
    """Most in a plane through the origin, some around (0, 0, 1)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((PLANE + APART, 3))
    X[:PLANE, 2] = 0.0
    X[PLANE:, 2] += 1.0
    return X


def recovery() -> dict[str, Any]:
    """Errors and ranks after each column, of oASIS and of uniform draws."""
    X = gram_points()
    G = X @ X.T
    greedy = oasis(X, Linear(), max_landmarks=STEPS, seed=SEED)
    drawn = [uniform(X, Linear(), max_landmarks=STEPS, seed=seed) for seed in range(TRIALS)]
    return {
        "rank": int(np.linalg.matrix_rank(G)),
        "stopped": greedy.stopped,
        "oASIS": _growing(G, greedy),
        "uniform": [_growing(G, one) for one in drawn],
    }


def _growing(G: Matrix, landmarks: Any) -> dict[str, list[float]]:
    firsts = [landmarks.first(k) for k in range(1, len(landmarks) + 1)]
    return {
        "errors": [1.0, *(accuracy.short(accuracy.relative(G, one.factor)) for one in firsts)],
        "ranks": [0, *(one.rank for one in firsts)],
    }


def _errors(problem: Problem, counts: tuple[int, ...]) -> dict[str, Any]:
    """Error and seconds of each method, run to each count."""
    G = problem.matrix()
    found: dict[str, Any] = {}
    for name, method in METHODS.items():
        method(problem.X[:100], problem.kernel, max_landmarks=5, seed=SEED)  # compiles
        curve: dict[str, list[float]] = {"errors": [], "seconds": []}
        for count in counts:
            landmarks, seconds = _timed(method, problem, count)
            curve["errors"].append(accuracy.short(accuracy.relative(G, landmarks.factor)))
            curve["seconds"].append(accuracy.short(seconds))
        found[name] = curve
        common.note(f"  {problem.name}, {name}: {sum(curve['seconds']):,.1f} s")
    return {**problem.describe(), "landmarks": list(counts), "methods": found}


def _times(sizes: tuple[int, ...], count: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for n in sizes:
        problem = share("Two Moons", two_moons(n), 0.05)
        for name, method in METHODS.items():
            if n <= LARGEST or name not in WHOLE:
                found[name].append(accuracy.short(_timed(method, problem, count)[1]))
        common.note(f"  n={n:,}")
    return {"n": list(sizes), "landmarks": count, "seconds": found}


def _timed(method: Any, problem: Problem, count: int) -> tuple[Any, float]:
    """Landmarks, and the least of the seconds of three runs, or of one that takes long."""
    least = math.inf
    for _ in range(3):
        began = time.perf_counter()
        landmarks = method(problem.X, problem.kernel, max_landmarks=count, seed=SEED)
        least = min(least, time.perf_counter() - began)
        if least > LONG:
            break
    return landmarks, least


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Seconds by n, and what became of the rank-3 matrix; the rest are figures."""
    times = found["times"]
    header = [f"seconds for {times['landmarks']} landmarks, n", *(f"{n:,}" for n in times["n"])]
    rows = [
        [name, *(f"{s:,.3g}" for s in seconds), *["-"] * (len(times["n"]) - len(seconds))]
        for name, seconds in times["seconds"].items()
    ]
    exact = found["recovery"]
    worst = [len(one["ranks"]) - 1 for one in exact["uniform"] if one["ranks"][-1] < exact["rank"]]
    needed = [
        one["ranks"].index(exact["rank"])
        for one in exact["uniform"]
        if exact["rank"] in one["ranks"]
    ]
    short = f", {len(worst)} draws not after {worst[0]}" if worst else ""
    text = (
        f"Rank {exact['rank']}: oASIS ends after {len(exact['oASIS']['ranks']) - 1} columns "
        f"({exact['stopped']}), error {accuracy.text(exact['oASIS']['errors'][-1])};\n"
        f"uniform draws reach the rank after {', '.join(map(str, needed)) or 'none'}{short}."
    )
    return f"{common.table(header, rows)}\n\n{text}"
