"""Table II: MNIST, n=50,000 and 4,000 landmarks, whose matrix of 20 GB is never formed.

Errors are those of 100,000 entries drawn from all of them, the same for each method. Seconds are of
choosing the landmarks and of the factor. One run each: the paper averages none of these either.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.oasis import accuracy, paper, work
from benchmarks.oasis.methods import METHODS
from benchmarks.oasis.problems import SEED, numbers, share

POINTS, LANDMARKS, QUICK = 50_000, 4_000, 24
PART = 0.5
"""Sigma, of the largest distance."""
CONTESTANTS = ("oASIS", "uniform", "k-means", "RPCholesky, blocks")


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Error and seconds of each method."""
    count = QUICK if quick else LANDMARKS
    problem = share("MNIST", numbers("mnist", data, quick=quick)[:POINTS] / 255, PART)
    sample = accuracy.Sample(problem)
    figures = {}
    for name in CONTESTANTS:
        method = METHODS[name]
        method(problem.X[:100], problem.kernel, max_landmarks=5, seed=SEED)  # compiles
        began = time.perf_counter()
        landmarks = method(problem.X, problem.kernel, max_landmarks=count, seed=SEED)
        seconds = time.perf_counter() - began
        figures[name] = {
            "error": accuracy.short(sample.relative(landmarks.approximate)),
            "seconds": accuracy.short(seconds),
            "landmarks": len(landmarks),
        }
        del landmarks  # 1.6 GB
        common.note(f"  {name}: {figures[name]['error']:.2e} in {seconds:,.1f} s")
    counted = work.cholesky(len(problem), count)
    return {
        **problem.describe(),
        "landmarks": count,
        "entries": len(sample.entries),
        "methods": figures,
        "work": counted._asdict(),
        "columns_flops": work.columns(len(problem), count, problem.X.shape[1]),
    }


def render(found: Mapping[str, Any]) -> str:
    """Errors and seconds beside the paper's."""
    rows = []
    for name, one in found["methods"].items():
        theirs = paper.IMPLICIT.get(name)
        rows.append(
            [
                name,
                accuracy.text(one["error"]),
                accuracy.text(theirs[0]) if theirs else "",
                f"{one['seconds']:,.1f}",
                f"{theirs[1]:,.0f}" if theirs else "",
            ]
        )
    size = f"Table II, MNIST, n={found['n']:,}, {found['landmarks']:,} landmarks"
    table = common.table([size, "error", "paper's", "seconds", "paper's"], rows)
    text = (
        "Counted for each landmark reaching all rows by itself: "
        f"{found['work']['flops'] / 1e12:.2f} Tflop, {found['work']['bytes'] / 1e12:.1f} TB,\n"
        f"and {found['columns_flops'] / 1e12:.2f} Tflop of kernel values."
    )
    return f"{table}\n\n{text}"
