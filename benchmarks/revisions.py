"""Seconds of learners at several commits, in turn: what a change of the code did to their speed.

Each commit is checked out into a folder of its own and has a process that learns what it is asked
for, one thread, processor time, after a first run that compiles. "batch" predicts and learns
batches of 256 events, "single" one event at a time; all of the first labels are known at once. The
first commit is what the others are compared with, round by round; a ratio below 1 is faster.
Many kernels are without external experts, also at commits where they have one by default.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import load

NAME = "revisions"
SETS = "elec2", "covtype_subset93k", "rialto", "cadata_california_housing"
EVENTS = {
    "multi-kernel": {"batch": 5000, "single": 1000},
    "doubly-stochastic": {"batch": 10_000, "single": 2000},
    "online-nystrom": {"batch": 4000, "single": 800},
    "streaming-meka": {"batch": 4000, "single": 800},
}
ROUNDS = 9
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_LEARN = """
import json, sys, time
import numpy as np
from inspect import signature
from streamk.learners import MultiKernel, create
known = signature(MultiKernel).parameters.keys() & {"external_experts"}
for line in sys.stdin:
    learner, path, step, n = json.loads(line)
    found = np.load(path)
    X, y = found["X"][:n], found["y"][:n]
    task = "regression" if y.dtype.kind == "f" else "classification"
    y = y if task == "regression" else y.astype(int)
    options = dict.fromkeys(known, ()) if learner == MultiKernel.TYPE else {}
    model = create(learner, task=task, seed=1, **options)
    began = time.process_time()
    for first in range(0, n, step):
        part = slice(first, first + step)
        if first:
            model.predict_many(X[part])
        model.learn_many(X[part], y[part])
    print(time.process_time() - began, flush=True)
"""


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments(f"benchmarks.{NAME}", __doc__)
    parser.add_argument(
        "revisions", nargs="*", default=["HEAD"], help="commits, the first one first"
    )
    options = parser.parse_args(argv)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = {
            name: stack.enter_context(_process(folder / str(n), name))
            for n, name in enumerate(options.revisions)
        }
        found = _measured(processes, options, folder)
    settings = {"revisions": options.revisions, "rounds": 1 if options.quick else ROUNDS}
    common.finish(NAME, options, settings, found, render)


@contextmanager
def _process(folder: Path, revision: str) -> Iterator[subprocess.Popen[str]]:
    """A process with the code of a commit."""
    clone = ["git", "clone", "-q", "--no-checkout", str(common.ROOT), str(folder)]
    subprocess.run(clone, check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "-q", revision], check=True)
    threads = dict.fromkeys(_ONE_THREAD, "1")
    process = subprocess.Popen(
        [sys.executable, "-c", _LEARN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **threads},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _measured(
    processes: Mapping[str, subprocess.Popen[str]], options: Any, folder: Path
) -> dict[str, dict[str, list[float]]]:
    """Seconds of each learner, way and data set by commit."""
    found = {}
    for label in SETS[:1] if options.quick else SETS:
        stream = load(label, options.data, quick=options.quick)
        path = folder / f"{label}.npz"
        np.savez(path, X=stream.X, y=stream.y)
        for learner, way in itertools.product(EVENTS, ("batch", "single")):
            n = 300 if options.quick else EVENTS[learner][way]
            job = [learner, str(path), 256 if way == "batch" else 1, n]
            for process in processes.values():
                _asked(process, job)
            times: dict[str, list[float]] = {name: [] for name in processes}
            for _ in range(1 if options.quick else ROUNDS):
                for name, process in processes.items():
                    times[name].append(_asked(process, job))
            found[f"{learner}, {way}, {label}"] = times
            common.note(f"  {learner}, {way}, {label}: {times}")
    return found


def _asked(process: subprocess.Popen[str], job: list[Any]) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def render(document: Mapping[str, Any]) -> str:
    """Ratios to the first commit: median, and the range of the rounds."""
    first, *others = document["settings"]["revisions"]
    rows = []
    for name, times in document["results"].items():
        cells = []
        for other in others:
            ratios = sorted(b / a for a, b in zip(times[first], times[other], strict=True))
            cells.append(f"{median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        rows.append([name.split("_")[0], f"{min(times[first]):.3f}", *cells])
    return common.table(["learner", f"s at {first}", *others], rows)


if __name__ == "__main__":
    sys.exit(common.main(run))
