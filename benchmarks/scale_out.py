"""The cost of learning in shards, `streamk.distributed.Sharded`, beside the same without them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import Part, mean
from benchmarks.data import Dataset, Directory, load
from streamk.distributed import Processes, Sharded, TaskDivision
from streamk.learners import MultiKernel, create
from streamk.learners.common.base import Learner

# --- replicas -------------------------------------------------------------------------------------
#
# Models, events and replicas whose costs are measured.


def made(name: str, stream: Dataset, **options: Any) -> Learner:
    """A model; one of many kernels has no external expert, as in shards by default."""
    if name == MultiKernel.TYPE:
        options["external_experts"] = ()
    return create(name, task=stream.task, seed=1, **options)


# --- growing --------------------------------------------------------------------------------------
#
# A learner in shards, `streamk.distributed.Sharded`, beside the same without shards.
#
# Accuracy is progressive, of whole streams, with the defaults: up to 4,096 events of a shard in a
# round, and no more than an eighth of the events before it in a round. It does not depend on
# workers. Seconds are those of `streamk.distributed.Processes` for a model that is slow enough for
# them to matter, in turn with the model without shards: wall time of learning all events that come
# in calls of as many as a round has.

SETS = "elec2", "covtype_subset93k", "rialto", "airlines_h2o_44k"
SHARDS = 2, 4, 16
MODELS = "multi-kernel", "doubly-stochastic"
TIMES = {"no shards": (0, 0), "1": (1, 0), "2": (2, 0), "2, stale 1": (2, 1)}
"""Workers and staleness, by what the page calls them."""
SLOW: dict[str, Any] = {"max_features": 1 << 14, "block_size": 1 << 14}
"""Random features of the model whose seconds are measured, all moved by each event."""
TIMED, OVER, ROUNDS = "covtype_subset93k", 2, 3
"""The stream whose seconds are measured, how often it comes, and turns."""
STALE, STALE_SHARDS = (1, 3), 4
"""Rounds that the replicas of a round do not know, and the shards of such rounds."""


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Points of accuracy gained by shards, and seconds with workers."""
    found: dict[str, Any] = {}
    for label in SETS:
        stream = load(label, data, quick=quick)
        for name in MODELS:
            one, _ = accuracy(made(name, stream), stream)
            row: dict[str, Any] = {"events": len(stream), "one": one}
            for shards in SHARDS[:1] if quick else SHARDS:
                row[str(shards)] = _points(name, stream, one, shards=shards)
            for staleness in STALE[:1] if quick else STALE:
                options = {"shards": STALE_SHARDS, "staleness": staleness}
                row[f"stale {staleness}"] = _points(name, stream, one, **options)
            common.note(f"  {label}, {name}: {row}")
            found[f"{label}: {name}"] = row
    stream = load(TIMED, data, quick=quick)
    X, y = np.concatenate([stream.X] * OVER), np.concatenate([stream.y] * OVER)
    return {"streams": found, "seconds": _seconds(replace(stream, X=X, y=y), quick)}


def _points(name: str, stream: Dataset, one: float, **options: int) -> dict[str, Any]:
    """Return points gained by shards, and the rounds that it took."""
    model = Sharded(made(name, stream), **options)
    right, rounds = accuracy(model, stream)
    return {"points": right - one, "rounds": rounds}


def accuracy(model: Any, stream: Dataset) -> tuple[float, int]:
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

    found: dict[str, list[float]] = {name: [] for name in TIMES}
    for _ in range(1 if quick else ROUNDS):
        found["no shards"].append(_timed(plain(), stream))
        for name, (count, staleness) in TIMES.items():
            if not count:
                continue
            with TaskDivision(Processes(count)) as workers:
                options: dict[str, Any] = {"workers": workers, "staleness": staleness}
                _timed(Sharded(plain(), **options), stream.first(12_000))  # they start
                found[name].append(_timed(Sharded(plain(), **options), stream))
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


def render_sharded(found: Mapping[str, Any]) -> str:
    """The points by shards, and the seconds by workers."""
    rows = []
    for name, row in found["streams"].items():
        cells = [
            f"{row[str(s)]['points']:+.2f} ({row[str(s)]['rounds']})" if str(s) in row else ""
            for s in SHARDS
        ]
        stale = [row.get(f"stale {s}") for s in STALE]
        cells += ["" if one is None else f"{one['points']:+.2f}" for one in stale]
        rows.append([name, f"{row['events']:,}", f"{row['one']:.2f}", *cells])
    header = ["Sharded, points (rounds)", "events", "one", *(f"V = {s}" for s in SHARDS)]
    header += [f"stale {s}" for s in STALE]
    seconds = found["seconds"]
    base = seconds["no shards"]
    times = []
    for name in TIMES:
        ratio = mean([a / b for a, b in zip(base, seconds[name], strict=True)])
        label = name if name == "no shards" else f"4 shards, workers: {name}"
        times.append([label, f"{np.mean(seconds[name]):.1f}", f"{ratio['mean']:.2f}"])
    about = (
        f"{TIMED}, twice over, {seconds['events']:,} events, {seconds['max_features']:,} features"
    )
    return f"{common.table(header, rows)}\n\n{common.table([about, 's', 'times as fast'], times)}"


# --- the parts ------------------------------------------------------------------------------------

NAME = "scale_out"
PARTS = {"sharded": Part(lambda o: measure(o.data, quick=o.quick), render_sharded)}

render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
