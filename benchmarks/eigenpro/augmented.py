"""Augmented MNIST: errors on the test images as copies of the training images pass by.

Each event is a training image moved by at most one pixel in each direction, another copy every
time. Centers are such copies, too, of another seed, and are given. Error is
that on the 10,000 test images, which are not moved, after so many events. With 1,000 centers there
are five seeds; larger models have one, in a process of their own: its peak of memory counts Python,
the libraries and 0.5 GB of images.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common, process
from benchmarks.copies import Copies
from benchmarks.data import Directory, load
from benchmarks.eigenpro.table2 import KERNEL
from benchmarks.intervals import cell, mean
from streamk.learners import EigenPro

SHIFT, WIDTH = 1, 28
FIRST = 10_000
"""Events before the first test; the number doubles from test to test."""
AT_ONCE = 2048
RUNS: tuple[tuple[str, int, int, int], ...] = (
    ("direct", 1000, 80_000, 5),
    ("eigenpro", 1000, 80_000, 5),
    ("direct", 4000, 80_000, 1),
    ("eigenpro", 20_000, 80_000, 1),
    ("eigenpro", 100_000, 100_000, 1),
)
"""Solver, centers, events and seeds."""
Numbers = NDArray[Any]


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors by the number of events, seconds and memory, for each solver and number of centers."""
    rows = []
    for solver, p, n, seeds in (("direct", 12, 60, 1),) if quick else RUNS:
        order = {
            "data": None if data is None else str(data),
            "quick": quick,
            "solver": solver,
            "centers": p,
            "events": n,
        }
        found = [process.fresh(__name__, {**order, "seed": seed}) for seed in range(seeds)]
        stops = [
            {
                "events": some[0]["events"],
                "error": mean([one["error"] for one in some]),
                "seconds": mean([one["seconds"] for one in some]),
            }
            for some in zip(*(one["stops"] for one in found), strict=True)
        ]
        peak = max(one["peak"] for one in found)
        rows.append({"solver": solver, "centers": p, "stops": stops, "peak": peak})
        common.note(f"  {rows[-1]}")
    return {"rows": rows}


def work(order: Mapping[str, Any]) -> dict[str, Any]:
    """Learn one model, in this process."""
    stream, quick = load("mnist", order["data"], quick=order["quick"]), order["quick"]
    assert stream.test is not None
    X, test = stream.X / np.float32(255), stream.test[0] / np.float32(255)
    n, seed = order["events"], order["seed"]
    first = 20 if quick else FIRST
    tests = {n, *(first << k for k in range(n.bit_length()))}
    centers = _different(X, stream.y, order["centers"], 1000 + seed)
    model = EigenPro(KERNEL, centers=centers, solver=order["solver"], seed=seed)
    stops, seconds = [], 0.0
    for x, y in _copies(X, stream.y, n, seed, tests):
        began = time.perf_counter()
        model.learn_many(x, y)
        seconds += time.perf_counter() - began
        if model.n_events in tests:
            model.finish()
            wrong = float(np.mean(np.asarray(model.predict_many(test)) != stream.test[1]))
            stops.append({"events": model.n_events, "error": wrong, "seconds": seconds})
    return {"stops": stops, "peak": process.resident("VmHWM")}


def _different(X: Numbers, y: Numbers, p: int, seed: int) -> Numbers:
    """Copies (p, m) that all differ: of 100,000 at random some nine thousand repeat."""
    found: dict[bytes, Numbers] = {}
    for rows, _ in _copies(X, y, 2 * p, seed):
        found.update((row.tobytes(), row) for row in rows)
        if len(found) >= p:
            break
    return np.stack(list(found.values())[:p])


def _copies(
    X: Numbers, y: Numbers, n: int, seed: int, ends: set[int] | None = None
) -> Iterator[tuple[Numbers, Any]]:
    """Copies in batches, float32 (m, d) and labels, that end where a test is due."""
    shift = SHIFT if X.shape[1] % WIDTH == 0 else 0
    copies = Copies(X, y, shift=shift, width=WIDTH, seed=seed)
    at = 0
    while at < n:
        end = min([end for end in (ends or {n}) if end > at], default=n)
        rows, labels = copies.take(min(AT_ONCE, end - at))
        at += len(rows)
        yield rows.astype(np.float32), labels


def render(found: Mapping[str, Any]) -> str:
    """A line for each test."""
    rows = []
    for one in found["rows"]:
        for stop in one["stops"]:
            name = f"{one['centers']:,} centers, {one['solver']}, {stop['events']:,} events"
            rows.append([name, cell(_percent(stop["error"]), 2), cell(stop["seconds"], 0), ""])
        rows[-1][-1] = f"{one['peak'] / 1e6:,.0f}"
    return common.table(["augmented MNIST", "error, %", "s", "peak, MB"], rows)


def _percent(figure: Mapping[str, Any]) -> dict[str, Any]:
    return {**figure, "mean": 100.0 * figure["mean"], "half": 100.0 * figure["half"]}


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
