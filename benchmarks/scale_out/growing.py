"""A learner in shards, `streamk.learners.Sharded`, beside the same without shards.

Accuracy is progressive, of whole streams, with the defaults: up to 4,096 events of a shard in a
round, and no more than an eighth of the events before it in a round. It does not depend on workers.
Seconds are those of `streamk.distributed.Processes` for a model that is slow enough for them to
matter, in turn with the model without shards: wall time of learning all events that come in calls
of as many as a round has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.intervals import mean
from benchmarks.scale_out.costs import SETS, SHARDS
from streamk.distributed import Processes, TaskDivision
from streamk.learners import Sharded, create

MODELS = "multi-kernel", "doubly-stochastic"
SLOW: dict[str, Any] = {"max_features": 1 << 14, "block_size": 1 << 14}
"""Random features of the model whose seconds are measured, all moved by each event."""
TIMED, ROUNDS = "covtype_subset93k", 3


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Points of accuracy gained by shards, and seconds with workers."""
    found: dict[str, Any] = {}
    for label in SETS:
        stream = load(label, data, quick=quick)
        for name in MODELS:
            one, _ = _accuracy(create(name, task=stream.task, seed=1), stream)
            row: dict[str, Any] = {"events": len(stream), "one": one}
            for shards in SHARDS[:1] if quick else SHARDS:
                model = Sharded(create(name, task=stream.task, seed=1), shards=shards)
                right, rounds = _accuracy(model, stream)
                row[str(shards)] = {"points": right - one, "rounds": rounds}
            common.note(f"  {label}, {name}: {row}")
            found[f"{label}: {name}"] = row
    return {"streams": found, "seconds": _seconds(load(TIMED, data, quick=quick), quick)}


def _accuracy(model: Any, stream: Dataset) -> tuple[float, int]:
    """Return progressive accuracy in per cent, and the rounds that it took."""
    y = (stream.y * 1).tolist()
    model.add_columns(stream.columns)
    X = stream.X.astype(np.float64)
    X = X if model.takes_missing else np.nan_to_num(X)
    right = 0
    for first in range(0, len(y), 4096):
        part = slice(first, first + 4096)
        said = model.predict_then_learn_many(X[part], y[part]).predictions.tolist()
        right += sum(a == b for a, b in zip(said, y[part], strict=True))
    return 100.0 * right / len(y), getattr(model, "rounds", 0)


def _seconds(stream: Dataset, quick: bool) -> dict[str, Any]:
    """Return events, and seconds without shards, and with 1 and 2 workers, of each turn."""
    sizes = {"max_features": 64, "block_size": 64} if quick else SLOW

    def plain() -> Any:
        return create("doubly-stochastic", task=stream.task, seed=1, threads=1, **sizes)

    found: dict[str, list[float]] = {"no shards": [], "1": [], "2": []}
    for _ in range(1 if quick else ROUNDS):
        found["no shards"].append(_timed(plain(), stream))
        for count in (1, 2):
            with TaskDivision(Processes(count)) as workers:
                model = Sharded(plain(), workers=workers)
                _timed(Sharded(plain(), workers=workers), stream.first(12_000))  # they start
                found[str(count)].append(_timed(model, stream))
    return {"events": len(stream), **sizes, **found}


def _timed(model: Any, stream: Dataset) -> float:
    y, X = (stream.y * 1).tolist(), np.nan_to_num(stream.X.astype(np.float64))
    model.add_columns(stream.columns)
    began = time.perf_counter()
    first = 0
    while first < len(y):
        part = slice(first, first + (getattr(model, "events_left", 0) or 4096))
        model.predict_then_learn_many(X[part], y[part])
        first = part.stop
    return time.perf_counter() - began


def render(found: Mapping[str, Any]) -> str:
    """The points by shards, and the seconds by workers."""
    rows = []
    for name, row in found["streams"].items():
        cells = [
            f"{row[str(s)]['points']:+.2f} ({row[str(s)]['rounds']})" if str(s) in row else ""
            for s in SHARDS
        ]
        rows.append([name, f"{row['events']:,}", f"{row['one']:.2f}", *cells])
    header = ["Sharded, points (rounds)", "events", "one", *(f"V = {s}" for s in SHARDS)]
    seconds = found["seconds"]
    base = seconds["no shards"]
    times = []
    for name in ("no shards", "1", "2"):
        ratio = mean([a / b for a, b in zip(base, seconds[name], strict=True)])
        label = name if name == "no shards" else f"4 shards, workers: {name}"
        times.append([label, f"{np.mean(seconds[name]):.1f}", f"{ratio['mean']:.2f}"])
    about = f"{TIMED}, {seconds['events']:,} events, {seconds['max_features']:,} features"
    return f"{common.table(header, rows)}\n\n{common.table([about, 's', 'times as fast'], times)}"
