"""Memory as events come: it is that of the centers, not that of the events.

MNIST's training images, Laplace's kernel with bandwidth 5, random centers that are given, and
solver "eigenpro", in a fresh process for each number of centers. Resident memory is that of the
process beyond the images themselves.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common, process
from benchmarks.data import Directory, load
from benchmarks.eigenpro.table2 import KERNEL
from streamk.learners import EigenPro

CENTERS = (10_000, 20_000)
STOPS = 6


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Bytes after each sixth of the events, and seconds of all."""
    found = []
    for p in (100,) if quick else CENTERS:
        order = {"data": None if data is None else str(data), "quick": quick, "centers": p}
        found.append({"centers": p, **process.fresh(__name__, order)})
        common.note(f"  {found[-1]}")
    return {"rows": found}


def work(order: Mapping[str, Any]) -> dict[str, Any]:
    """Learn a stream on so many centers, in this process."""
    stream = load("mnist", order["data"], quick=order["quick"])
    X = stream.X / np.float32(255)
    random = np.random.default_rng(0)
    before = process.resident("VmRSS")
    model = EigenPro(
        KERNEL, centers=X[random.permutation(len(X))[: order["centers"]]], solver="eigenpro"
    )
    stops, seconds = [], 0.0
    for rows in np.array_split(random.permutation(len(X)), STOPS):
        began = time.perf_counter()
        model.learn_many(X[rows], stream.y[rows])
        seconds += time.perf_counter() - began
        used = process.resident("VmRSS") - before
        stops.append({"events": model.n_events, "model": model.nbytes, "resident": used})
    peak = process.resident("VmHWM")
    return {"stops": stops, "seconds": seconds, "process_peak": peak}


def render(found: Mapping[str, Any]) -> str:
    """A line for each stop."""
    rows = []
    for one in found["rows"]:
        for stop in one["stops"]:
            mega = [f"{stop[key] / 1e6:,.0f}" for key in ("model", "resident")]
            rows.append([f"{one['centers']:,} centers, {stop['events']:,} events", *mega, ""])
        rows[-1][-1] = f"{one['seconds']:,.0f}"
    return common.table(["memory, MB", "model", "resident", "s"], rows)


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
