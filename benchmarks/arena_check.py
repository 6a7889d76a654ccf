"""The ways to learn a stream of a file: all must give the same predictions, to the last digit."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.arena_streams import Stream


def engine(stream: Stream, seed: int, n: int | None, more: Sequence[str], to: Path) -> Any:
    """What a process of `streamk run` costs, whose predictions go to a file."""
    line = ["run", f"csv:{stream.path}", "--label", stream.names[-1], "--task", stream.task]
    line += ["--seed", str(seed), "--to", f"file:{to}", "--on-error", "raise", "--quiet", *more]
    line += [] if n is None else ["--max-events", str(n)]
    began = time.perf_counter()
    command = [sys.executable, "-m", "streamk", *line]
    with subprocess.Popen(command, cwd=common.ROOT, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {
        "wallclock_s": round(time.perf_counter() - began, 3),
        "cpu_time_s": round(used.ru_utime + used.ru_stime, 3),
        "peak_rss_mb": round(used.ru_maxrss / 1e3, 1),
    }


def said(to: Path, task: str) -> Iterator[Any]:
    """The predictions of a file: a number or the shares by class, None before any."""
    with to.open(encoding="utf-8") as file:
        for record in map(json.loads, file):
            yield (
                record["prediction"] if task == "regression" else record["probabilities"]
            ) or None


def agree(key: str, path: str, n: int | None, seed: int = 1) -> list[str]:
    """The ways to learn the first n events, or all, that gave the same predictions, bit for bit.

    Raises
    ------
    ValueError
        If one of them gave others; it names the event.
    """
    stream = Stream(key, path)
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "predictions.ndjson"
        engine(stream, seed, n, (), to)
        expected = [*said(to, stream.task)]
    names, rows = stream.names[:-1], [*stream.rows(n)]
    numbers = stream.task == "regression"
    labels: list[Any] = [float(row[-1]) if numbers else row[-1] for row in rows]
    events = [dict(zip(names, row[:-1], strict=True)) for row in rows]
    ways = {"River": _by_river, "arrays": _by_arrays, "CapyMOA": _by_capymoa}
    done = ["streamk run"]
    for way, learn in ways.items():
        found = learn(stream, events, labels, seed)
        for t, (one, other) in enumerate(zip(expected, found or (), strict=bool(found))):
            if t and one != other:
                raise ValueError(f"{key}: event {t} is {one} to streamk run, and {other} to {way}")
        done += [way] if found else []
    return done


def _by_river(stream: Stream, events: Any, labels: Any, seed: int) -> list[Any]:
    from streamk.adapters.river import KernelClassifier, KernelRegressor

    numbers, found = stream.task == "regression", []
    model: Any = (KernelRegressor if numbers else KernelClassifier)(seed=seed)
    for x, y in zip(events, labels, strict=True):
        found.append(model.predict_one(x) if numbers else model.predict_proba_one(x))
        model.learn_one(x, y)
    return found


def _by_arrays(stream: Stream, events: Any, labels: Any, seed: int) -> list[Any] | None:
    """Those of a learner that gets an array; None where a cell is no number."""
    from streamk import learners
    from streamk.encoding import ColumnTable, Schema

    table = ColumnTable(Schema())
    table.admit(table.read(events[0]))
    try:
        X = np.array([[float(x[name]) for name in table.places] for x in events])
    except (KeyError, ValueError):
        return None
    learner = learners.create("multi-kernel", task=stream.task, seed=seed)
    learner.add_columns([*table.places])
    found = learner.predict_then_learn_many(X, labels)
    if found.probabilities is None:
        return list(found.predictions.tolist())
    shares = found.probabilities.tolist()
    return [{c: p for c, p in zip(learner.classes, row, strict=True) if p == p} for row in shares]


def _by_capymoa(stream: Stream, events: Any, labels: Any, seed: int) -> list[Any] | None:
    """Those of CapyMOA's reader and loop; None without it, or where it mistakes the classes.

    It takes a class of digits for the class's number.
    """
    numbers = stream.task == "regression"
    classes = [] if numbers else stream.classes
    misread = any(label.isdigit() and label != str(i) for i, label in enumerate(classes))
    if misread or importlib.util.find_spec("capymoa") is None:
        return None
    from capymoa.stream import stream_from_file

    from streamk.adapters import capymoa

    kind = "numeric" if numbers else "categorical"
    reader, found = stream_from_file(stream.path, target_type=kind), []
    maker: Any = capymoa.KernelRegressor if numbers else capymoa.KernelClassifier
    model, met = maker(reader.get_schema(), seed), set()
    for instance, label in zip(islice(reader, len(events)), labels, strict=True):
        shares = model.predict(instance) if numbers else model.predict_proba(instance)
        if not numbers and shares is not None:
            pairs = zip(classes, shares.tolist(), strict=True)
            shares = {c: p for c, p in pairs if c in met}
        found.append(shares)
        met.add(label)
        model.train(instance)
    return found
