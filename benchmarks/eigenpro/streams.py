"""Streams, each event predicted before it is learned, beside other learners on chosen points.

Every learner has its defaults behind the same online scaling, and the events in the same order:
those of covtype and letter as in the file, those of numbers in a random order of each seed. Scores
are accuracy, and the part of the variance that is explained for numbers; "last tenth" is that of
the last tenth of the stream. Nothing is fitted to a stream. Covtype is of three seeds, the others
are of five; the slowest rival is of one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common, pool_alone
from benchmarks.data import Dataset, Directory, load
from benchmarks.intervals import cell, mean
from streamk.learners import create

SETS = ("covtype_subset93k", "letter", "cadata_california_housing", "house_16H")
SEEDS = {"covtype_subset93k": 3}
MANY = 5
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "eigenpro, 500 centers": ("eigenpro", {"n_centers": 500}),
    "eigenpro, 1,000": ("eigenpro", {"n_centers": 1000}),
    "eigenpro, 2,000 (default)": ("eigenpro", {}),
    "eigenpro, 2,000, solver=eigenpro": ("eigenpro", {"solver": "eigenpro"}),
    "kernel-ridge (default)": ("kernel-ridge", {}),
    "online-nystrom (default)": ("online-nystrom", {}),
    "online-nystrom, newton": ("online-nystrom", {"optimizer": "newton"}),
    "streaming-meka (default)": ("streaming-meka", {}),
    "streaming-meka, newton": ("streaming-meka", {"optimizer": "newton"}),
}
SLOW = ("streaming-meka, newton",)
OURS = tuple(name for name in LEARNERS if name.startswith("eigenpro"))
RIVALS = tuple(name for name in LEARNERS if name.startswith(("online", "streaming")))


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Scores and seconds by stream and learner."""
    found: dict[str, Any] = {}
    for learner in LEARNERS:  # loops are compiled before
        for name in ("letter", "house_16H"):
            _run(load(name, data, quick=quick).first(2000), learner, 0)
    for name in SETS:
        stream, of = load(name, data, quick=quick), {}
        for learner in LEARNERS:
            seeds = 1 if learner in SLOW else SEEDS.get(name, MANY)
            runs = [_run(stream, learner, seed) for seed in range(1 if quick else seeds)]
            of[learner] = {key: mean([run[key] for run in runs]) for key in runs[0]}
            common.note(f"  {name}: {learner}: { {k: cell(v) for k, v in of[learner].items()} }")
        found[name] = {"events": len(stream), "learners": of}
    return found


def _run(stream: Dataset, learner: str, seed: int) -> dict[str, float]:
    rows, numbers = np.arange(len(stream)), stream.y.dtype.kind == "f"
    if numbers:
        rows = np.random.default_rng(seed).permutation(rows)
    X, y = stream.X[rows], stream.y[rows]
    name, options = LEARNERS[learner]
    task = "regression" if numbers else "classification"
    model: Any = create(name, task=task, seed=seed, **pool_alone.options(name), **options)
    began = time.perf_counter()
    found = model.predict_then_learn_many(X, y.tolist()).predictions
    seconds = time.perf_counter() - began
    last = slice(len(y) - max(1, len(y) // 10), None)
    scores = {
        key: _score(found[part], y[part], numbers=numbers)
        for key, part in (("whole", slice(1, None)), ("last", last))
    }
    return {**scores, "seconds": seconds}


def _score(found: Any, y: Any, *, numbers: bool) -> float:
    if numbers:
        return float(1.0 - np.mean((np.asarray(found, float) - y) ** 2) / np.var(y))
    return float(np.mean(np.asarray(found) == y))


def render(found: Mapping[str, Any]) -> str:
    """A table a stream, and a line on the rivals' times."""
    texts = []
    for name, one in found.items():
        rows = [
            [learner, cell(of["whole"]), cell(of["last"]), cell(of["seconds"], 1)]
            for learner, of in one["learners"].items()
        ]
        header = [f"{name}, {one['events']:,}", "whole", "last tenth", "s"]
        texts.append(common.table(header, rows))
        texts += [_at_equal_time(one["learners"], rival) for rival in RIVALS]
    return "\n\n".join(texts)


def _at_equal_time(learners: Mapping[str, Any], rival: str) -> str:
    """The best of ours that takes no more time than a rival, beside it."""
    limit, theirs = learners[rival]["seconds"]["mean"], learners[rival]["last"]["mean"]
    within = [name for name in OURS if learners[name]["seconds"]["mean"] <= limit]
    if not within:
        return f"within the time of {rival}: none of eigenpro"
    best = max(within, key=lambda name: learners[name]["last"]["mean"])
    ours = learners[best]["last"]["mean"]
    return f"within the time of {rival}, last tenth: {best} {ours:.4f}, {rival} {theirs:.4f}"
