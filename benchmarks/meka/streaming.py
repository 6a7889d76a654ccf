"""A factorization that is renewed on the stream, against one that stays.

cadata in random order, beijing_pm25, elec2 and rialto in theirs; each batch of 128 events is
predicted and then learned. All learners have the Gaussian kernel of bandwidth 0.5 on scaled
columns, and else their defaults, with each of three sizes of gradient steps. A learner's score is
that of the best of these in hindsight: labels that are noisy ask for small steps, whoever learns.

StreamingMeka      `streaming-meka`
not renewed        the same learner with its first factorization alone, which its clusters' growth
                   adapts
of 4,096 events    that, but the factorization is of the first 4,096 events
doubly stochastic  `doubly-stochastic`, 2,048 random features

Goals: on each stream that drifts the score over that of the rivals.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.data import Dataset, Directory, load
from benchmarks.oasis.problems import SEED
from streamk.learners import Learner, Scaled, StreamingMeka, create

SETS = ("cadata_california_housing", "beijing_pm25", "elec2", "rialto")
SHUFFLED = ("cadata_california_housing",)
BATCH = 128
STEPS = (0.1, 0.3, 1.0)
OURS, STAYS, LATER = "StreamingMeka", "not renewed", "of 4,096 events"
RANDOM = "doubly stochastic"
STAYING: dict[str, Any] = {"every": None, "max_error": None, "max_shift": None}
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: (StreamingMeka.TYPE, {}),
    STAYS: (StreamingMeka.TYPE, STAYING),
    LATER: (StreamingMeka.TYPE, {**STAYING, "first": 4096}),
    RANDOM: ("doubly-stochastic", {}),
}


def measure(data: Directory, *, quick: bool, events: int = 0) -> dict[str, Any]:
    """Scores by stream and learner, and goals.

    Parameters
    ----------
    data : path, optional
    quick : bool
    events : int, default 0
        How many of each stream; 0 is all.
    """
    found: dict[str, Any] = {"streams": {}, "goals": []}
    for name in SETS:
        stream = _ordered(load(name, data, quick=quick)).first(events)
        scores = {learner: _best(stream, learner) for learner in LEARNERS}
        found["streams"][name] = {"events": len(stream), "learners": scores}
        common.note(f"  {name}: { ({k: v['score'] for k, v in scores.items()}) }")
        if name not in SHUFFLED:
            found["goals"] += _goals(name, task_of(stream), scores)
    return found


def task_of(stream: Dataset) -> str:
    """What the labels are."""
    return "regression" if stream.y.dtype.kind == "f" else "classification"


def _ordered(stream: Dataset) -> Dataset:
    """The events that have a label, in the order in which they are learned."""
    rows = np.flatnonzero(stream.y == stream.y)
    if stream.name in SHUFFLED:
        rows = np.random.default_rng(SEED).permutation(rows)
    return Dataset(stream.name, stream.X[rows], stream.y[rows], stream.columns)


def made(learner: str, task: str, step: float, **more: Any) -> Learner:
    """A learner of `LEARNERS` that has learned nothing."""
    name, options = LEARNERS[learner]
    return create(name, task=task, seed=SEED, step=step, **options, **more)


def factorizing(model: Learner) -> StreamingMeka | None:
    """The learner that factorizes, without what scales its columns."""
    inner = model.learner if isinstance(model, Scaled) else model
    return inner if isinstance(inner, StreamingMeka) else None


def counts(model: Learner) -> dict[str, Any]:
    """What it counts and measures of its factorizations."""
    inner = factorizing(model)
    if inner is None:
        return {}
    return {
        "factorizations": inner.n_factorizations,
        "waits": inner.n_waits,
        "seconds_waited": round(inner.seconds_waited, 2),
        "error": inner.error,
    }


def _best(stream: Dataset, learner: str) -> dict[str, Any]:
    """The score with the best size of steps, and those of all of them."""
    found = {step: _progressive(stream, learner, step) for step in STEPS}
    sign = 1.0 if task_of(stream) == "classification" else -1.0
    best = max(found, key=lambda step: sign * found[step]["score"])
    return {**found[best], "step": best, "scores": [one["score"] for one in found.values()]}


def _progressive(stream: Dataset, learner: str, step: float) -> dict[str, Any]:
    """Accuracy, or root mean squared error, of predictions before learning."""
    task = task_of(stream)
    model, sums, counted = made(learner, task, step), 0.0, 0
    began = time.perf_counter()
    for start in range(0, len(stream), BATCH):
        X, y = stream.X[start : start + BATCH], stream.y[start : start + BATCH]
        if start:
            predicted = model.predict_many(X)
            right = predicted == y if task == "classification" else (predicted - y) ** 2
            sums, counted = sums + float(right.sum()), counted + len(y)
        model.learn_many(X, y.tolist())
    seconds = time.perf_counter() - began
    mean = sums / max(1, counted)
    score = mean if task == "classification" else mean**0.5
    speed = {"events_per_s": round(len(stream) / seconds, 1), "features": model.n_features}
    return {"score": float(f"{score:.5g}"), **speed, **counts(model)}


def _goals(name: str, task: str, scores: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    goals = []
    for rival in (STAYS, LATER, RANDOM):
        ratio = scores[OURS]["score"] / scores[rival]["score"]
        ratio = 1.0 / ratio if task == "regression" else ratio
        case = f"{name.partition('_')[0]}: times as good as {rival}"
        goals.append(hot.goal(case, [ratio], "x", least=1.0))
    return goals


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Scores, then goals."""
    rows = []
    for name, one in found["streams"].items():
        for learner, score in one["learners"].items():
            more = [
                f"{score[key]:,}" if key in score else "" for key in ("factorizations", "waits")
            ]
            speed = f"{score['events_per_s']:,.0f}"
            short = f"{name.partition('_')[0]}, {one['events']:,}: {learner}"
            rows.append([short, f"{score['score']:,.5g}", f"{score['step']:g}", speed, *more])
    header = ["accuracy or RMSE", "score", "step", "events/s", "factorizations", "waits"]
    return "\n\n".join([common.table(header, rows), hot.goals_table(found["goals"])])
