"""External experts of the default model, by the command: `streamk run --expert`.

Without the option ("default") there is a feature machine, which the experts that are named take the
place of. Each stream is written to a file of CSV and run as a user would. Accuracy is of all events
predicted before they were learned, "last tenth" that of the last tenth of the predictions written;
of numbers these are the part of the variance that is explained.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset, Directory, load

SETS = (
    "covtype_subset93k",
    "letter",
    "cadata_california_housing",
    "house_16H",
    "elec2",
    "rialto",
)
EXPERTS: dict[str, tuple[str, ...]] = {
    "none": ("--expert", "none"),
    "default": (),
    "kernel-ridge": ("--expert", "kernel-ridge"),
    "kernel-ridge, all events": ("--expert", "kernel-ridge:max_centers=131072,corrections=3"),
    "eigenpro": ("--expert", "eigenpro"),
}


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Scores and seconds by stream and expert."""
    found: dict[str, Any] = {}
    for name in SETS:
        stream = load(name, data, quick=quick)
        if stream.y.dtype.kind == "f":
            order = np.random.default_rng(0).permutation(len(stream))
            stream = Dataset(name, stream.X[order], stream.y[order], stream.columns)
        found[name] = {"events": len(stream), "experts": {}}
        for expert, options in EXPERTS.items():
            with tempfile.TemporaryDirectory() as home:
                found[name]["experts"][expert] = _run(stream, options, Path(home))
            common.note(f"  {name}: {expert}: {found[name]['experts'][expert]}")
    return found


def _run(stream: Dataset, options: tuple[str, ...], home: Path) -> dict[str, float]:
    """What the command says, and the score of the last tenth of its predictions."""
    with (home / "events.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*stream.columns, "y"])
        for row, label in zip(stream.X.tolist(), stream.y.tolist(), strict=True):
            writer.writerow([*row, label])
    numbers = stream.y.dtype.kind == "f"
    task = ("--task", "regression" if numbers else "classification")
    job = ("run", "csv:events.csv", "--label", "y", "--to", "csv:out.csv", "--json", "--quiet")
    done = subprocess.run(
        [sys.executable, "-m", "streamk", *job, *task, *options],
        cwd=home,
        env=None,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    with (home / "out.csv").open(newline="", encoding="utf-8") as file:
        said = [line["prediction"] for line in csv.DictReader(file)]
    last = slice(len(stream) - max(1, len(stream) // 10), None)
    return {
        "whole": _score(said, stream.y, slice(1, None), numbers=numbers),
        "last": _score(said, stream.y, last, numbers=numbers),
        "seconds": report["seconds"],
    }


def _score(said: list[str], y: Any, part: slice, *, numbers: bool) -> float:
    if numbers:
        errors = np.array([float(one) if one else 0.0 for one in said[part]]) - y[part]
        return float(1.0 - np.mean(errors**2) / np.var(y[part]))
    expected = [str(label) for label in y[part].tolist()]
    return float(np.mean([one == other for one, other in zip(said[part], expected, strict=True)]))


def render(found: Mapping[str, Any]) -> str:
    """A line for each stream and expert."""
    rows = []
    for name, one in found.items():
        for expert, of in one["experts"].items():
            figures = [f"{of['whole']:.4f}", f"{of['last']:.4f}", f"{of['seconds']:,.0f}"]
            rows.append([f"{name}: {expert}", *figures])
    return common.table(["--expert", "whole", "last tenth", "s"], rows)
