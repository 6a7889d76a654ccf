"""The first use on a machine: seconds to the first prediction, and where they go.

numba's cache is an empty directory for each "empty" row, and full for the "warm" ones. A row is a
process of its own from its start to its end: `streamk run river:Phishing --label label` with all of
its 1,250 events, or a `KernelClassifier` that learns one event and predicts the next. Wall and
processor seconds are of all its processes; what else runs on the machine adds to both. The tables
of functions are of a process on one core: what numba compiles, by its passes and by the function,
without what that has compiled for itself.

--before DIR measures a checkout of an earlier version beside this one.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common

NAME = "first_use"
ROUNDS = 3
COMMAND = ("-m", "streamk", "run", "river:Phishing", "--label", "label", "--json")
_RIVER = """
from streamk.adapters.river import KernelClassifier
model, x = KernelClassifier(), {"a": 0.5, "b": -1.0}
model.predict_proba_one(x)
model.learn_one(x, True)
model.predict_proba_one(x)
"""
RIVER = ("-c", _RIVER)
ROWS: dict[str, tuple[tuple[str, ...], int, bool]] = {
    "command, empty cache, 1 core": (COMMAND, 1, False),
    "command, empty cache, 2 cores": (COMMAND, 2, False),
    "command, warm cache, 2 cores": (COMMAND, 2, True),
    "River's learn_one, empty cache, 2 cores": (RIVER, 2, False),
    "River's learn_one, warm cache, 2 cores": (RIVER, 2, True),
    "import streamk.adapters.river": (("-c", "import streamk.adapters.river"), 2, True),
    "streamk --help": (("-m", "streamk", "--help"), 2, True),
}
"""What is run, on how many cores, and whether its cache is warm."""

_COUNT = (
    """
import collections, json, sys, time
from numba.core import event

def name_of(e):
    if e.kind == "numba:run_pass":
        return e.data["name"]
    function = e.data["dispatcher"].py_func
    return function.__module__.split(".")[-1] + "." + function.__qualname__

class Own(event.Listener):
    def __init__(self):
        self.open, self.seconds, self.times = [], collections.Counter(), 0
    def on_start(self, e):
        self.open.append([time.perf_counter(), 0.0])
    def on_end(self, e):
        began, inside = self.open.pop()
        seconds = time.perf_counter() - began
        if self.open:
            self.open[-1][1] += seconds
        self.seconds[name_of(e)] += seconds - inside
        self.times += 1

functions, passes = Own(), Own()
event.register("numba:compile", functions)
event.register("numba:run_pass", passes)
"""
    + _RIVER
    + """
print(json.dumps({"functions": functions.times, "by_function": functions.seconds.most_common(12),
    "by_pass": passes.seconds.most_common(4), "seconds": sum(passes.seconds.values())}))
"""
)


def _environment(root: Path, cache: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(cache)}


def timed(root: Path, cache: Path, arguments: Sequence[str], cores: int) -> dict[str, Any]:
    """Wall and processor seconds of a process, and what it printed last."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, range(cores))), sys.executable, *arguments],
        cwd=root,
        env=_environment(root, cache),
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": seconds, "cpu": cpu, "printed": done.stdout.splitlines()[-1:]}


def measure(roots: Mapping[str, Path], rounds: int, rows: Sequence[str]) -> dict[str, Any]:
    """Wall and processor seconds of each row and version, in turn, and what is compiled."""
    found: dict[str, Any] = {name: {row: [] for row in rows} for name in roots}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(rounds):
            for row in rows:
                arguments, cores, warm = ROWS[row]
                for name, root in roots.items():
                    cache = Path(directory, name if warm else f"{name}-{turn}-{len(row)}")
                    if warm and not found[name][row]:
                        timed(root, cache, arguments, cores)
                    took = timed(root, cache, arguments, cores)
                    took.pop("printed")
                    found[name][row].append(took)
        for name, root in roots.items():
            counted = timed(root, Path(directory, f"{name}-counted"), ("-c", _COUNT), 1)
            found[name]["compiled"] = json.loads(counted["printed"][0])
    return found


def start_bytes() -> int:
    """Bytes of the default model when it has learned one event of two columns."""
    from streamk.learners import MultiKernel

    model = MultiKernel(external_experts=())
    model.learn_many([[0.5, -1.0]], [True])
    return int(model.nbytes)


def render(document: Mapping[str, Any]) -> str:
    """The tables."""
    results = document["results"]
    names = list(results["versions"])
    header, lines = ["seconds", *(f"{name}, {of}" for name in names for of in ("wall", "cpu"))], []
    for row in ROWS:
        if row not in results["versions"][names[0]]:
            continue
        cells = []
        for name in names:
            took = results["versions"][name][row]
            cells += [f"{statistics.median(t[of] for t in took):.1f}" for of in ("wall", "cpu")]
        lines.append([row, *cells])
    parts = [common.table(header, lines)]
    for name in names:
        counted = results["versions"][name]["compiled"]
        title = f"{name}: {counted['functions']} functions, {counted['seconds']:.0f} s, by pass"
        for header, which in ((title, "by_pass"), (f"{name}: by function", "by_function")):
            rows = [[of, f"{seconds:.1f}"] for of, seconds in counted[which][:8]]
            parts.append(common.table([header, "seconds"], rows))
    parts.append(f"model at its start: {results['start_bytes']:,} bytes")
    return "\n\n".join([*parts, common.origin(document)])


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments(f"benchmarks.{NAME}", __doc__)
    parser.add_argument("--before", metavar="DIR", type=Path, help="an earlier version's checkout")
    parser.add_argument("--rounds", metavar="N", type=int, default=ROUNDS)
    options = parser.parse_args(argv)
    roots = {} if options.before is None else {"before": options.before.resolve()}
    roots["now"] = common.ROOT
    rows = [row for row in ROWS if "--help" in row] if options.quick else list(ROWS)
    rounds = 1 if options.quick else options.rounds
    results = {"versions": measure(roots, rounds, rows), "start_bytes": start_bytes()}
    common.finish(NAME, options, {"rounds": rounds}, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
