"""Progressive accuracy of a model that learns in rounds, beside the model on one shard.

Events are dealt to V shards in turns, and K events of the whole are a round. Each event is
predicted by its shard's replica before that learns it; the first one is not counted.

mean    `streamk.distributed.Rounds`: what the shards learned is merged
again   shards predict likewise, but the common model of the next round has learned all events of
        the round in their order. No way of merging knows more, so what is missing here is lost by
        predicting from a model of some events ago, and not by merging
runs    as mean, but the shards have K / V consecutive events each

One shard is the same model on the same events without rounds. Where a round takes many seconds
there are fewer events, `MOST_ROUNDS` rounds of each kind, so that figures of different K are of
different events: each is a difference to one shard on its own events. Seconds are those of 15
merges of replicas, as of 16 shards on one core, 4,096 events having been learned: 5 times those of
3. Bytes are those of one state.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.scale_out import replicas
from streamk.distributed import Rounds, ShardBatch
from streamk.learners import create
from streamk.learners.base import Learner
from streamk.learners.registry import from_state

SETS = "elec2", "covtype_subset93k", "rialto", "airlines_h2o_44k"
SHARDS = 2, 4, 16
ROUNDS = 64, 256, 1024, 4096
RULES = "mean", "again", "runs"
EVENTS = 20_000
MOST_ROUNDS = {"doubly-stochastic": 20, "multi-kernel": 3, "online-nystrom": 3, "eigenpro": 3}
_MERGED = 4096


def measure(data: Directory, *, name: str, quick: bool) -> dict[str, Any]:
    """Accuracies by data set, shards, events of a round and rule, and what a reduction takes."""
    found: dict[str, Any] = {}
    for label in SETS:
        stream = load(label, data, quick=quick).first(EVENTS)
        cells: dict[str, Any] = {}
        for size in (16, 64) if quick else ROUNDS:
            some = stream.first(min(len(stream), max(MOST_ROUNDS[name] * size, 512)))
            one = _accuracy(some, _alone(name, some))
            cells[str(size)] = {"events": len(some), "one": one}
            for shards in SHARDS[:1] if quick else SHARDS:
                for rule in RULES:
                    right = _accuracy(some, _followed(name, some, shards, size, rule))
                    cells[str(size)][f"{shards} {rule}"] = right - one
            common.note(f"  {label}: {size}: {cells[str(size)]}")
        found[label] = {"rounds": cells, **_reduction(name, stream)}
    return found


def _new(name: str, stream: Dataset) -> Learner:
    model = replicas.made(name, stream)
    model.add_columns(stream.columns)
    return model


def _alone(name: str, stream: Dataset) -> list[Any]:
    y = (stream.y * 1).tolist()
    answers = _new(name, stream).predict_then_learn_many(_values(name, stream), y)
    return answers.predictions.tolist()


def _values(name: str, stream: Dataset) -> Any:
    X = stream.X.astype(np.float64)
    return X if create(name, task=stream.task).takes_missing else np.nan_to_num(X)


def _followed(name: str, stream: Dataset, shards: int, size: int, rule: str) -> list[Any]:
    """Return the predictions of all events, in their order."""
    X, y = _values(name, stream), (stream.y * 1).tolist()
    said: list[Any] = [None] * len(y)
    model = _new(name, stream)
    rounds = Rounds(model, shards=shards)
    for first in range(0, len(y), size):
        rows = np.arange(first, min(first + size, len(y)))
        dealt = _dealt(rows, shards, in_runs=rule == "runs")
        batches = [ShardBatch(X[own], [y[n] for n in own]) for own in dealt]
        for own, answer in zip(dealt, rounds.round(batches), strict=True):
            for n, label in zip(own, answer.predictions.tolist(), strict=True):
                said[n] = label
        if rule == "again":
            model.predict_then_learn_many(X[rows], [y[n] for n in rows])
            rounds = Rounds(model, shards=shards)
    return said


def _dealt(rows: Any, shards: int, *, in_runs: bool) -> list[Any]:
    if in_runs:
        return list(np.array_split(rows, shards))
    return [rows[shard::shards] for shard in range(shards)]


def _accuracy(stream: Dataset, said: Sequence[Any]) -> float:
    labels = (stream.y * 1).tolist()
    return 100.0 * float(np.mean([a == b for a, b in zip(said[1:], labels[1:], strict=True)]))


def _reduction(name: str, stream: Dataset, shards: int = 16) -> dict[str, float]:
    """Seconds of merging replicas that learned 64 events each, and bytes of a state."""
    X, y = _values(name, stream), (stream.y * 1).tolist()
    model, most = _new(name, stream), min(_MERGED, len(y) // 2)
    model.predict_then_learn_many(X[:most], y[:most])
    state = model.state()
    replicas = [from_state(state, **model.placing) for _ in range(4)]
    some = [slice(most + 64 * s, most + 64 * s + 64) for s in range(4)]
    for replica, part in zip(replicas, some, strict=True):
        replica.predict_then_learn_many(X[part], y[part])
    from_state(state, **model.placing).merge(replicas[1], common_events=model.n_events)  # compiles
    began = time.perf_counter()
    for other in replicas[1:]:
        if other.n_events > model.n_events:
            replicas[0].merge(other, common_events=model.n_events)
    seconds = (time.perf_counter() - began) / 3 * (shards - 1)
    return {"bytes": float(state.nbytes), "seconds": seconds}


def render(found: Mapping[str, Any], *, name: str) -> str:
    """A line for each data set, events of a round and rule."""
    rows = []
    shards = SHARDS
    for label, one in found.items():
        for size, cell in one["rounds"].items():
            for rule in RULES:
                lost = [cell.get(f"{v} {rule}") for v in shards]
                said = ["" if points is None else f"{points:+.2f}" for points in lost]
                first = ["", ""]
                if rule == RULES[0]:
                    first = [f"{cell['events']:,}", f"{cell['one']:.2f}"]
                rows.append(
                    [f"{label.partition('_')[0]}, K = {int(size):,}: {rule}", *first, *said]
                )
        rows.append(
            [
                f"{label.partition('_')[0]}: a reduction of 16",
                "",
                "",
                f"{one['seconds']:.3f} s",
                f"{one['bytes'] / 1e6:.2f} MB",
                "",
            ]
        )
    header = [f"{name}, points", "events", "one", *(f"V = {v}" for v in shards)]
    return common.table(header, rows)
