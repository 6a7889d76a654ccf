"""Accuracy of `streamk.learners.Sharded` with many shards: where averaging stops to pay.

Progressive, with the defaults, in one process. A stream has as many shards as its length allows:
there is no round before 2,048 events for each shard. The second stream is generated as River's
RandomRBF is, with constant classes: 50 clusters in 10 columns, each with a class, a weight and a
width of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.scale_out import replicas
from benchmarks.scale_out.cost_model import first_events
from benchmarks.scale_out.growing import MODELS, accuracy
from streamk.learners import Sharded

SHARDS = 2, 4, 8, 16, 64, 256
EVENTS, _COLUMNS, _CLUSTERS, _CLASSES = 1_000_000, 10, 50, 5
_ROUNDS = 2
"""Rounds that a stream must have room for, of as many events as the first one, at least."""


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Accuracy of one, and points gained by shards, by stream and model."""
    found: dict[str, Any] = {}
    covtype = load("covtype_subset93k", data, quick=quick)
    for stream in (covtype, clusters(6_000 if quick else EVENTS)):
        for name in MODELS:
            one, _ = accuracy(replicas.made(name, stream), stream)
            row: dict[str, Any] = {"events": len(stream), "one": one}
            for shards in SHARDS:
                first = first_events(shards)
                if len(stream) < first + _ROUNDS * first // 8 or (quick and shards > SHARDS[0]):
                    continue
                model = Sharded(replicas.made(name, stream), shards=shards)
                right, rounds = accuracy(model, stream)
                row[str(shards)] = {"points": right - one, "rounds": rounds}
            common.note(f"  {stream.name}, {name}: {row}")
            found[f"{stream.name}: {name}"] = row
    return found


def clusters(events: int) -> Dataset:
    """Events of clusters, each of one class."""
    rng = np.random.default_rng(1)
    centers = rng.random((_CLUSTERS, _COLUMNS))
    classes = rng.integers(0, _CLASSES, _CLUSTERS)
    weights, widths = rng.random(_CLUSTERS), rng.random(_CLUSTERS)
    of = rng.choice(_CLUSTERS, events, p=weights / weights.sum())
    directions = rng.uniform(-1.0, 1.0, (events, _COLUMNS))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    away = directions * (rng.standard_normal(events) * widths[of])[:, None]
    X = (centers[of] + away).astype(np.float32)
    return Dataset("clusters", X, classes[of], tuple(f"x{j}" for j in range(_COLUMNS)))


def render(found: Mapping[str, Any]) -> str:
    """A line for each model, under the name of its stream."""
    rows: list[list[str]] = []
    streams: list[str] = []
    for name, row in found.items():
        stream, _, model = name.partition(": ")
        if stream not in streams:
            streams.append(stream)
            rows.append([stream.removesuffix("_subset93k"), *[""] * (1 + len(SHARDS))])
        cells = [
            f"{row[str(s)]['points']:+.2f} ({row[str(s)]['rounds']})" if str(s) in row else ""
            for s in SHARDS
        ]
        rows.append([f"  {model}", f"{row['one']:.2f}", *cells])
    return common.table(["points (rounds)", "one", *(f"V = {s}" for s in SHARDS)], rows)
