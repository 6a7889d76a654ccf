"""A factorization that is renewed on the stream, against one that stays.

cadata in random order, beijing_pm25, elec2 and rialto in theirs; each batch of 128 events is
predicted and then learned. All learners have the Gaussian kernel of bandwidth 0.5 on scaled
columns, and else their defaults, with each of three sizes of gradient steps. A learner's score is
that of the best of these in hindsight: labels that are noisy ask for small steps, whoever learns.
Scores are means over five seeds, of the learners and of cadata's order, with 95% intervals. Goals
have a ratio for each seed.

StreamingMeka      `streaming-meka`
not renewed        the same learner with its first factorization alone, which its clusters' growth
                   adapts
of 4,096 events    that, but the factorization is of the first 4,096 events
doubly stochastic  `doubly-stochastic`, 2,048 random features

Goals: on each stream that drifts the score over that of the rivals.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.data import Dataset, Directory, load
from benchmarks.intervals import cell, mean
from benchmarks.oasis.problems import SEED
from streamk.learners import Learner, Scaled, StreamingMeka, create

SETS = ("cadata_california_housing", "beijing_pm25", "elec2", "rialto")
SHUFFLED = ("cadata_california_housing",)
SEEDS = 5
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
        stream = load(name, data, quick=quick)
        runs = [_ordered(stream, seed).first(events) for seed in range(1 if quick else SEEDS)]
        scores = {}
        for learner in LEARNERS:
            scores[learner] = _best(runs, learner)
            common.note(f"  {name}: {learner} {cell(scores[learner]['score'], 5)}")
        found["streams"][name] = {"events": len(runs[0]), "learners": scores}
        if name not in SHUFFLED:
            found["goals"] += _goals(name, stream.task, scores)
    return found


def _ordered(stream: Dataset, seed: int) -> Dataset:
    """The events that have a label, in the order in which they are learned."""
    rows = np.flatnonzero(stream.y == stream.y)
    if stream.name in SHUFFLED:
        rows = np.random.default_rng(seed).permutation(rows)
    return Dataset(stream.name, stream.X[rows], stream.y[rows], stream.columns)


def made(learner: str, task: str, step: float, seed: int = SEED, **more: Any) -> Learner:
    """A learner of `LEARNERS` that has learned nothing."""
    name, options = LEARNERS[learner]
    return create(name, task=task, seed=seed, step=step, **options, **more)


def factorizing(model: Learner) -> StreamingMeka | None:
    """The learner that factorizes, without what scales its columns."""
    inner = model.learner if isinstance(model, Scaled) else model
    return inner if isinstance(inner, StreamingMeka) else None


def counts(model: Learner) -> dict[str, Any]:
    """Return the counts and measures of its factorizations."""
    inner = factorizing(model)
    if inner is None:
        return {}
    return {
        "factorizations": inner.n_factorizations,
        "waits": inner.n_waits,
        "seconds_waited": round(inner.seconds_waited, 2),
        "error": inner.error,
    }


def _best(runs: Sequence[Dataset], learner: str) -> dict[str, Any]:
    """The scores with the size of steps that is best in the mean, and the means of all sizes."""
    found = {
        step: [_progressive(stream, learner, step, seed) for seed, stream in enumerate(runs)]
        for step in STEPS
    }
    scores = {step: mean([one["score"] for one in found[step]]) for step in STEPS}
    sign = 1.0 if runs[0].task == "classification" else -1.0
    best = max(STEPS, key=lambda step: sign * scores[step]["mean"])
    first = found[best][0]
    return {
        **first,
        "score": scores[best],
        "events_per_s": statistics.median(one["events_per_s"] for one in found[best]),
        "step": best,
        "scores": [scores[step]["mean"] for step in STEPS],
    }


def _progressive(stream: Dataset, learner: str, step: float, seed: int) -> dict[str, Any]:
    """Accuracy, or root mean squared error, of predictions before learning."""
    task = stream.task
    model, sums, counted = made(learner, task, step, seed), 0.0, 0
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
    return {"score": score, **speed, **counts(model)}


def _goals(name: str, task: str, scores: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    goals = []
    for rival in (STAYS, LATER, RANDOM):
        ratios = [
            theirs / ours if task == "regression" else ours / theirs
            for ours, theirs in zip(
                *(scores[one]["score"]["values"] for one in (OURS, rival)), strict=True
            )
        ]
        case = f"{name.partition('_')[0]}: times as good as {rival}"
        goals.append(hot.goal(case, ratios, "x", least=1.0))
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
            figure = score["score"]
            if not isinstance(figure, Mapping):  # results of one seed
                figure = mean([figure])
            digits = 4 if figure["mean"] < 1.0 else 2 if figure["mean"] < 1000.0 else 0
            rows.append([short, cell(figure, digits), f"{score['step']:g}", speed, *more])
    header = ["accuracy or RMSE", "score", "step", "events/s", "factorizations", "waits"]
    return "\n\n".join([common.table(header, rows), hot.goals_table(found["goals"])])
