"""The ladder, `doubly-stochastic`'s rule of steps by default, beside each of its sizes, on streams.

The model is `doubly-stochastic` as the command makes it: 2,048 random features of the Gaussian
kernel behind the running scale of columns and labels, a step an event. Each event is predicted and
then learned, the first 20,000 of a stream; cadata, cpusmall, house_16H and letter in a random order
for each seed, the others in theirs. Sizes are in units of one over the curvature of the loss; the
ratio is to the best of them in hindsight, which differs from stream to stream and seed to seed.
"fixed" is a step of 1 for classes and of 1/2 for numbers, in their own units. "file" and "topic"
are what `streamk run --model doubly-stochastic` reports of the first seed, from a CSV file and from
Kafka. Rates are medians over the seeds.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.engine import clients
from benchmarks.engine.broker import Broker, broker
from benchmarks.intervals import cell, mean
from streamk.learners import Ladder, create

SETS = (
    "cadata_california_housing",
    "cpusmall",
    "house_16H",
    "beijing_pm25",
    "letter",
    "elec2",
    "rialto",
    "covtype_subset93k",
)
SHUFFLED = SETS[:3] + SETS[4:5]
SEEDS, EVENTS = 5, 20_000
SIZES = (1.0, 0.25, 1 / 16, 1 / 64)
CURVATURES = {"classification": 0.5, "regression": 1.0}
_LEAST = 1e-4
Numbers = NDArray[Any]


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Losses, accuracies or errors, and rates, by data set and step."""
    found: dict[str, Any] = {}
    with broker(None) as there:
        for name in SETS:
            stream = load(name, data, quick=quick)
            runs = [_ordered(stream, seed) for seed in range(2 if quick else SEEDS)]
            task = stream.task
            fixed = 1.0 if task == "classification" else 0.5
            steps = {"ladder": Ladder(), "fixed": fixed} | {
                f"{size:g}": size / CURVATURES[task] for size in SIZES
            }
            one: dict[str, Any] = {"events": len(runs[0]), "task": task, "steps": {}}
            for label, step in steps.items():
                each = [_progressive(run, task, step, seed) for seed, run in enumerate(runs)]
                one["steps"][label] = {key: mean([run[key] for run in each]) for key in each[0]}
            one["command"] = _command(runs[0], task, there)
            found[name] = one
            common.note(f"  {name}: {one['steps']['ladder']}")
    return found


def _ordered(stream: Dataset, seed: int) -> Dataset:
    """The first events that have a label, in the order in which they are learned."""
    rows = np.flatnonzero(stream.y == stream.y)
    if stream.name in SHUFFLED:
        rows = np.random.default_rng(seed).permutation(rows)
    rows = rows[:EVENTS]
    return Dataset(stream.name, stream.X[rows], stream.y[rows], stream.columns)


def _progressive(stream: Dataset, task: str, step: Any, seed: int) -> dict[str, float]:
    """Figures of predictions before learning, event by event."""
    model = create("doubly-stochastic", task=task, seed=seed, step=step)
    y = (stream.y * 1).tolist()
    began = time.perf_counter()
    answers = model.predict_then_learn_many(stream.X, y)
    seconds = time.perf_counter() - began
    rate = {"rate": len(y) / seconds}
    if answers.probabilities is None:
        errors = answers.predictions[1:] - np.array(y[1:])
        return {"RMSE": float(np.square(errors).mean() ** 0.5), **rate}
    right = [said == label for said, label in zip(answers.predictions[1:], y[1:], strict=True)]
    places = [model.classes.index(label) for label in y[1:]]
    given = np.nan_to_num(answers.probabilities[1:][np.arange(len(y) - 1), places])
    loss = float(-np.log(np.maximum(given, _LEAST)).mean())
    return {"log loss": loss, "accuracy": float(np.mean(right)), **rate}


def _command(stream: Dataset, task: str, there: Broker | None) -> dict[str, dict[str, float]]:
    """The figures that `streamk run` reports, by the way in."""
    with tempfile.TemporaryDirectory() as room:
        path = Path(room) / "events.csv"
        values = _write(path, stream)
        found = {"file": _job(f"csv:{path}", task)}
        if there is not None:
            topic = there.new_topic()
            writer = clients.writer(clients.installed()[0], there.address, topic)
            for value in values:
                writer.send(value, [])
            writer.close()
            source = f"kafka://{there.address}/{topic}"
            found["topic"] = _job(source, task, "--max-events", str(len(stream)))
        return found


def _write(path: Path, stream: Dataset) -> list[bytes]:
    """Write events to a file, and return them as messages."""
    names = [f"c{i}" for i in range(stream.X.shape[1])]
    values = []
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow([*names, "label"])
        for x, label in zip(stream.X.astype(float).tolist(), (stream.y * 1).tolist(), strict=True):
            row = ["" if value != value else value for value in x]
            out.writerow([*row, label])
            event = {name: value for name, value in zip(names, x, strict=True) if value == value}
            values.append(json.dumps(event | {"label": label}).encode())
    return values


def _job(source: str, task: str, *more: str) -> dict[str, float]:
    command = [sys.executable, "-m", "streamk", "run", source, "--label", "label", "--task", task]
    command += ["--model", "doubly-stochastic", "--json", "--quiet"]
    done = subprocess.run(
        [*command, *more],
        env=os.environ | {"PYTHONPATH": str(common.ROOT)},
        stdout=subprocess.PIPE,
        check=True,
    )
    report = json.loads(done.stdout)
    known = {"rmse": "RMSE", "log_loss": "log loss", "accuracy": "accuracy"}
    found = {known[key]: value for key, value in report["whole"].items() if key in known}
    return {**found, "rate": report["events"] / report["seconds"]}


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set and step, with the figures of the command below the ladder's."""
    rows = []
    for name, one in found.items():
        first = "RMSE" if one["task"] == "regression" else "log loss"
        best = np.min([one["steps"][f"{size:g}"][first]["values"] for size in SIZES], axis=0)
        short = name.partition("_")[0]
        for step, figures in one["steps"].items():
            values = figures[first]
            ratio = mean((np.array(values["values"]) / best).tolist())
            digits = 4 if values["mean"] < 10.0 else 2 if values["mean"] < 1000.0 else 0
            rows.append(
                [
                    f"{short}: {step}",
                    cell(values, digits),
                    cell(figures["accuracy"]) if "accuracy" in figures else "",
                    cell(ratio, 3),
                    f"{np.median(figures['rate']['values']):,.0f}",
                ]
            )
            if step == "ladder":
                for way, said in one["command"].items():
                    right = f"{said['accuracy']:.4f}" if "accuracy" in said else ""
                    figure = f"{said[first]:.{digits}f}"
                    row = [f"{short}: ladder, {way}", figure, right, "", f"{said['rate']:,.0f}"]
                    rows.append(row)
    header = ["step=", "log loss or RMSE", "accuracy", "to the best size", "events/s"]
    return common.table(header, rows)
