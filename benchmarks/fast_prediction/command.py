"""`streamk run --expert none` with and without `--serve-compiled`, where most events have no label.

Of each stream the first 30,000 events have their labels (or the first half), of the others one of
ten. The same events are read from a CSV file, as fast as the job can, and from a topic, into
which they come at 500 events/s while both jobs read it. Figures are those of the predictions of
all events without a label. "by copy" is the share of the events since the last copy that it
predicted; a file may be at its end before a copy is compiled. CPU seconds are those of the job and
of the processes that compile for it. "again" are events/s where the job that read the topic is the
start of another one (`--start-from`), which reads the events from a file without their labels, the
best of three in turn.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.engine import clients
from benchmarks.engine.broker import Broker, broker

SETS = ("covtype_subset93k", "rialto", "gmsc", "elec2", "beijing_pm25")
FIRST, SHARE = 30_000, 0.1
RATE = 500
JOBS: dict[str, tuple[str, ...]] = {"model": (), "compiled": ("--serve-compiled",)}
_LEAST, _TURNS = 1e-4, 3
Numbers = NDArray[Any]
Event = dict[str, Any]


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures by data set, way in and job."""
    found: dict[str, Any] = {}
    with broker(None) as there:
        for name in SETS:
            found[name] = _set(_labelled(load(name, data, quick=quick)), there, quick)
            common.note(f"  {name}: {found[name]}")
    return found


def _labelled(stream: Dataset) -> Dataset:
    rows = np.flatnonzero(stream.y == stream.y)
    return Dataset(stream.name, stream.X[rows], stream.y[rows], stream.columns)


def _set(stream: Dataset, there: Broker | None, quick: bool) -> dict[str, Any]:
    first = len(stream) // 2 if quick else min(FIRST, len(stream) // 2)
    known = np.random.default_rng(0).random(len(stream)) < SHARE
    known[:first] = True
    truth = (stream.y * 1).tolist()  # booleans as numbers, which a key of JSON shows alike
    events = _events(stream, truth, known)
    with tempfile.TemporaryDirectory() as room:
        here = Path(room)
        _write(here / "events.csv", events)
        _write(here / "unlabelled.csv", [event | {"label": ""} for event in events])
        found = {"events": len(stream), "labels": int(known.sum()), "file": {}, "topic": {}}
        for name, options in JOBS.items():
            job = _Job(here, "csv:events.csv", f"file-{name}", stream.task, options)
            found["file"][name] = job.figures(truth, known)
        if there is not None:
            found["topic"] = _from_topic(there, here, events, truth, known, stream.task)
            for turn in range(_TURNS):
                for name in JOBS:
                    begin = ("--start-from", f"topic-{name}")
                    again = f"again-{name}-{turn}"
                    job = _Job(here, "csv:unlabelled.csv", again, stream.task, begin)
                    rate = max(job.ended()["rate"], found["topic"][name].get("again", 0.0))
                    found["topic"][name]["again"] = rate
        return found


def _events(stream: Dataset, truth: Sequence[Any], known: Numbers) -> list[Event]:
    names = [f"c{i}" for i in range(stream.X.shape[1])]
    rows = stream.X.astype(np.float64)
    missing = np.isnan(rows)
    events = []
    for i, row in enumerate(rows.tolist()):
        event: Event = {
            name: value for name, value, no in zip(names, row, missing[i], strict=True) if not no
        }
        events.append(event | ({"label": truth[i]} if known[i] else {}))
    return events


def _write(path: Path, events: Sequence[Event]) -> None:
    names = list(dict.fromkeys(name for event in events for name in event))
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, names)
        out.writeheader()
        out.writerows(events)


class _Job:
    """A job that was started: its model and its predictions are in a directory, by its name."""

    def __init__(
        self, here: Path, source: str, name: str, task: str, options: Sequence[str]
    ) -> None:
        self._out = here / f"{name}.ndjson"
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "streamk", "run", source, "--label", "label"),
                *("--task", task, "--to", f"file:{name}.ndjson", "--checkpoint", name),
                *("--json", "--quiet", "--expert", "none", *options),
            ],
            cwd=here,
            env=os.environ | {"PYTHONPATH": str(common.ROOT)},
            stdout=subprocess.PIPE,
        )

    def ended(self) -> dict[str, Any]:
        """Wait for its end, and return its rate, CPU seconds and part by the copy."""
        assert self._process.stdout is not None
        report = json.loads(self._process.stdout.read())
        _, status, usage = os.wait4(self._process.pid, 0)
        assert status == 0
        compiled = report["compiled"] or {}
        return {
            "rate": report["events"] / report["seconds"],
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "by_copy": compiled.get("predicted_by_copy", 0.0),
            "copy_predicts": compiled.get("copy_predicts", False),
        }

    def figures(self, truth: Sequence[Any], known: Numbers) -> dict[str, Any]:
        """Wait for its end, and return that and the figures of events without a label."""
        found = self.ended()
        lines = self._out.read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(truth)
        rows = np.flatnonzero(~known)
        said = [json.loads(lines[row]) for row in rows]
        return {**found, **_scores(said, [truth[row] for row in rows])}


def _scores(said: Sequence[Mapping[str, Any]], truth: Sequence[Any]) -> dict[str, float]:
    if "probabilities" not in said[0]:
        errors = np.array([one["prediction"] for one in said]) - np.array(truth)
        return {
            "MAE": float(np.abs(errors).mean()),
            "RMSE": float(np.square(errors).mean() ** 0.5),
        }
    pairs = list(zip(said, truth, strict=True))
    given = [one["probabilities"].get(str(label), 0.0) for one, label in pairs]
    return {
        "accuracy": float(np.mean([str(one["prediction"]) == str(label) for one, label in pairs])),
        "log loss": float(-np.log(np.maximum(given, _LEAST)).mean()),
    }


def _from_topic(
    there: Broker,
    here: Path,
    events: Sequence[Event],
    truth: Sequence[Any],
    known: Numbers,
    task: str,
) -> dict[str, Any]:
    """Both jobs read one topic while events come into it."""
    topic = there.new_topic()
    source = f"kafka://{there.address}/{topic}"
    # A copy comes with a checkpoint, of which there would be one by default.
    most = ("--max-events", str(len(events)), "--checkpoint-every", "10000")
    jobs = {
        name: _Job(here, source, f"topic-{name}", task, (*options, *most))
        for name, options in JOBS.items()
    }
    values = [json.dumps(event).encode() for event in events]
    writer = clients.writer(clients.installed()[0], there.address, topic)
    began = time.monotonic()
    for number, value in enumerate(values):
        ahead = began + number / RATE - time.monotonic()
        if ahead > 0.0:
            time.sleep(ahead)
        writer.send(value, [])
    writer.close()
    return {name: job.figures(truth, known) for name, job in jobs.items()}


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set, way in and job."""
    lines = []
    for name, one in found.items():
        for way in ("file", "topic"):
            for job, figures in one[way].items():
                first, second = (
                    key for key in ("accuracy", "log loss", "MAE", "RMSE") if key in figures
                )
                lines.append(
                    [
                        f"{name}, {way}: {job}",
                        f"{figures[first]:.4f}",
                        f"{figures[second]:.4f}",
                        f"{figures['by_copy']:.0%}" if job == "compiled" else "",
                        f"{figures['cpu_s']:.0f}",
                        f"{figures['rate']:,.0f}",
                        f"{figures['again']:,.0f}" if "again" in figures else "",
                    ]
                )
    head = ["events without label", "accuracy or MAE", "log loss or RMSE", "by copy", "CPU s"]
    return common.table([*head, "events/s", "again"], lines)
