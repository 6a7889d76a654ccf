"""A factorization that is renewed on the stream, against one that stays, and its pauses.

cadata in random order, beijing_pm25, elec2 and rialto in theirs; each batch of 128 events is
predicted and then learned. All learners have the Gaussian kernel of bandwidth 0.5 on scaled
columns, and else their defaults, with each of three sizes of gradient steps. A learner's score is
that of the best of these in hindsight: labels that are noisy ask for small steps, whoever learns.

StreamingMeka      `streaming-meka`
not renewed        the same learner with its first factorization alone, which its clusters' growth
                   adapts
of 4,096 events    that, but the factorization is of the first 4,096 events
doubly stochastic  `doubly-stochastic`, 2,048 random features

Pauses: elec2, predicted and learned in batches of 256, with a lag of 8,192 events, which is about
a second of such a load, and factorizations every 16,384. Full load is one batch after the other,
and its rate that of the median batch. Then batches come at half of that rate, and the longest call
is told in units of the time between two batches, of which ingest may miss two; and how many batches
came while a factorization was being made.

Goals: on each stream that drifts the score over that of the rivals, and the longest pause.
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
BATCH, LOAD_BATCH = 128, 256
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
PAUSED = "elec2"
UNHURRIED: dict[str, Any] = {"lag": 8192, "every": 16384}
MOST = 2.0
COUNTED = ("factorizations", "waits")


def measure(data: Directory, *, quick: bool, events: int = 0) -> dict[str, Any]:
    """Scores by stream and learner, pauses and goals.

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
    found["pauses"] = _pauses(load(PAUSED, data, quick=quick).first(events))
    longest = found["pauses"]["longest"]
    found["goals"].append(hot.goal("longest pause at half load", [longest], " batches", most=MOST))
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


def _made(learner: str, task: str, step: float, **more: Any) -> Learner:
    name, options = LEARNERS[learner]
    return create(name, task=task, seed=SEED, step=step, **options, **more)


def _counts(model: Learner) -> dict[str, Any]:
    inner = model.learner if isinstance(model, Scaled) else model
    if not isinstance(inner, StreamingMeka):
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
    model, sums, counted = _made(learner, task, step), 0.0, 0
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
    return {"score": float(f"{score:.5g}"), **speed, **_counts(model)}


def _goals(name: str, task: str, scores: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    goals = []
    for rival in (STAYS, LATER, RANDOM):
        ratio = scores[OURS]["score"] / scores[rival]["score"]
        ratio = 1.0 / ratio if task == "regression" else ratio
        case = f"{name.partition('_')[0]}: times as good as {rival}"
        goals.append(hot.goal(case, [ratio], "x", least=1.0))
    return goals


def _pauses(stream: Dataset) -> dict[str, Any]:
    """The longest call at half of full load, in batches' time."""
    model = _made(OURS, "classification", STEPS[-1], **UNHURRIED)
    half = len(stream) // 2 // LOAD_BATCH
    X, y = stream.X, stream.y.tolist()
    rows = [slice(b * LOAD_BATCH, (b + 1) * LOAD_BATCH) for b in range(len(stream) // LOAD_BATCH)]
    full = [_call(model, X[some], y[some]) for some in rows[:half]]
    between = 2.0 * float(np.median(full))
    before = _counts(model)
    calls, made, due = [], [], time.perf_counter()
    for some in rows[half:]:
        time.sleep(max(0.0, due - time.perf_counter()))
        working = _is_factorizing(model)
        calls.append(_call(model, X[some], y[some]))
        made.append(working or _is_factorizing(model))
        due += between
    after = _counts(model)
    return {
        "batch_ms": round(between / 2 * 1e3, 3),
        "longest_ms": round(max(calls) * 1e3, 3),
        "longest": float(f"{max(calls) / between:.4g}"),
        "batches": len(calls),
        "batches_during": sum(made),
        **{name: after[name] - before[name] for name in COUNTED},
    }


def _is_factorizing(model: Learner) -> bool:
    inner = model.learner if isinstance(model, Scaled) else model
    return isinstance(inner, StreamingMeka) and inner.is_factorizing


def _call(model: Learner, X: Any, y: list[Any]) -> float:
    def work() -> None:
        if model.n_events:
            model.predict_many(X)
        model.learn_many(X, y)

    return common.timed(work)


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Scores, then pauses and goals."""
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
    p = found["pauses"]
    text = (
        f"{PAUSED}, batches of {LOAD_BATCH}: {p['batch_ms']:.1f} ms at full load. At half of it "
        f"the longest call took {p['longest_ms']:.1f} ms, {p['longest']:.2f} times the time "
        f"between two batches ({p['batches']:,} batches, {p['batches_during']:,} of them during "
        f"one of {p['factorizations']} factorizations, {p['waits']} of which were waited for)."
    )
    return "\n\n".join([common.table(header, rows), text, hot.goals_table(found["goals"])])
