"""Table III: 1,000,000 Two Moons and 1,000 landmarks, the tolerance off, sigma = 0.5 sqrt(3).

The paper does not say how large its moons are. Sigma is 5% of the largest distance, as in Table I,
if that is 10 sqrt(3), and so large they are here; around moons of radius 1 the kernel's matrix has
so small a rank with that sigma that the choice ends before 1,000, where what is left may be
rounding ("radius 1" below).

Each line is a process of its own, so that its peak of memory can be told; seconds are of choosing
the landmarks and of the factor, without generating the points. oASIS-P has two shards, each in a
process of its own, which read the points they hold from files; its seconds are with starting those
processes, without starting Ray. Errors are those of 100,000 entries.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, process
from benchmarks.oasis import accuracy, paper, work
from benchmarks.oasis.accuracy import Indices
from benchmarks.oasis.problems import SEED, Matrix, Problem, share, two_moons
from streamk import landmarks

POINTS, LANDMARKS = 1_000_000, 1_000
QUICK, QUICK_LANDMARKS = 2_000, 24
SIGMA = 0.5 * math.sqrt(3)
WIDTH = 10 * math.sqrt(3)
"""Largest distance of the moons."""
SHARDS = 2
_ENTRIES = 10_000
"""Whose features are there at a time."""
LINES = {
    "oASIS": ("oasis", False),
    "uniform": ("uniform", False),
    "oASIS-P, two shards": ("oasis_parallel", False),
    "oASIS, radius 1": ("oasis", True),
    "uniform, radius 1": ("uniform", True),
}
"""Functions by the names of the lines, and whether the moons are of radius 1."""
THEIRS = {"oASIS-P, two shards": "oASIS-P", "uniform": "uniform"}


def measure(*, quick: bool) -> dict[str, Any]:
    """Error, seconds and memory of each line."""
    n, count = (QUICK, QUICK_LANDMARKS) if quick else (POINTS, LANDMARKS)
    figures = {}
    for name, (function, unit) in LINES.items():
        if function == "oasis_parallel" and importlib.util.find_spec("ray") is None:
            common.note(f"  {name}: Ray is not installed")
            continue
        order = {"function": function, "n": n, "landmarks": count, "unit": unit}
        found = process.fresh(__name__, order)
        figures[name] = found
        common.note(f"  {name}: {found['error']:.2e} in {found['seconds']:,.1f} s")
    return {
        "n": n,
        "landmarks": count,
        "sigma": SIGMA,
        "width": WIDTH,
        "lines": figures,
        "work": work.cholesky(n, count)._asdict(),
        "columns_flops": work.columns(n, count, 2),
    }


def moons(n: int, *, unit: bool) -> Problem:
    """The points; as large as the paper's, or of radius 1."""
    X = two_moons(n)
    if not unit:
        X *= WIDTH / share("", X[:: max(1, n // 10_000)], 1.0).sigma
    return Problem("Two Moons", X, SIGMA)


def _child(order: Mapping[str, Any]) -> dict[str, Any]:
    problem = moons(order["n"], unit=order["unit"])
    if order["function"] == "oasis_parallel":
        return _parallel(problem, order["landmarks"])
    method = getattr(landmarks, order["function"])
    # numba compiles on the way, and threads are started.
    method(problem.X[:3000], problem.kernel, max_landmarks=5, seed=SEED)
    found = process.peak(
        partial(method, problem.X, problem.kernel, max_landmarks=order["landmarks"], seed=SEED),
        "resident",
    )
    chosen = found.pop("found")
    return {**found, **_described(problem, chosen, chosen.approximate)}


def _parallel(problem: Problem, count: int) -> dict[str, Any]:
    """Landmarks of shards in files, which their workers read."""
    import ray

    from streamk.distributed import oasis_parallel

    ray.init(include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as directory:
        shards = [Path(directory) / f"{shard}.npy" for shard in range(SHARDS)]
        for path, X in zip(shards, np.array_split(problem.X, SHARDS), strict=True):
            np.save(path, X)
        began = time.perf_counter()
        with oasis_parallel(shards, problem.kernel, max_landmarks=count, seed=SEED) as chosen:
            seconds = time.perf_counter() - began
            approximate = partial(_by_features, problem.X, chosen.transform)
            described = _described(problem, chosen, approximate)
    ray.shutdown()
    return {"seconds": seconds, **described}


def _by_features(
    X: Matrix, transform: Callable[[Matrix], Matrix], rows: Indices, columns: Indices
) -> Matrix:
    """Entries out of the features of their points."""
    parts = (slice(first, first + _ENTRIES) for first in range(0, len(rows), _ENTRIES))
    return np.concatenate(
        [
            np.einsum("ij,ij->i", transform(X[rows[part]]), transform(X[columns[part]]))
            for part in parts
        ]
    )


def _described(problem: Problem, chosen: Any, approximate: Any) -> dict[str, Any]:
    return {
        "error": accuracy.short(accuracy.Sample(problem).relative(approximate)),
        "landmarks": len(chosen),
        "stopped": chosen.stopped,
    }


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """A line for each, with the paper's beside."""
    rows = []
    for name, one in found["lines"].items():
        theirs = paper.PARALLEL.get(THEIRS.get(name, ""))
        rows.append(
            [
                name,
                f"{one['landmarks']:,} ({one['stopped']})",
                accuracy.text(one["error"]),
                accuracy.text(theirs[0]) if theirs else "",
                f"{one['seconds']:,.1f}",
                f"{theirs[1]:,.0f}" if theirs else "",
                f"{one['process_bytes'] / 1e9:.1f}" if "process_bytes" in one else "",
            ]
        )
    size = f"Table III, Two Moons, n={found['n']:,}"
    header = [size, "landmarks", "error", "paper's", "seconds", "paper's", "GB"]
    text = (
        f"Counted for each of {found['landmarks']:,} landmarks reaching all rows by itself: "
        f"{found['work']['flops'] / 1e12:.2f} Tflop, {found['work']['bytes'] / 1e12:.1f} TB,\n"
        f"and {found['columns_flops'] / 1e9:.1f} Gflop of kernel values. "
        "The paper's seconds are those of 192 cores."
    )
    return f"{common.table(header, rows)}\n\n{text}"


if __name__ == "__main__":
    print(json.dumps(_child(json.loads(sys.argv[1]))))
