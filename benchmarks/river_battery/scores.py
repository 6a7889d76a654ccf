"""What the answers of a run are worth.

Events count from the first one that was answered, and before which a label was known; later ones
count as misses if there is no answer. The log loss takes probabilities as at least 1e-15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.river_battery.loop import Outcome
from benchmarks.river_battery.streams import Stream

Numbers = NDArray[np.float64]
_LEAST = 1e-15


def counted(outcome: Outcome, delay: int) -> slice:
    """The events that count."""
    guess = outcome.guess
    answered = ~np.isnan(guess) if guess.dtype.kind == "f" else guess >= 0
    first = int(np.argmax(answered)) if answered.any() else len(guess)
    return slice(max(first, delay, 1), len(guess))


def losses(outcome: Outcome, stream: Stream) -> Numbers:
    """Of every event that was reached: 1 for a miss, or the distance from the number."""
    y = stream.y[: len(outcome.guess)]
    if stream.task != "regression":
        return (outcome.guess != y).astype(np.float64)
    distance: Numbers = np.abs(outcome.guess - y)
    return np.where(np.isnan(distance), np.inf, distance)


def both(theirs: Outcome, ours: Outcome, stream: Stream, delay: int) -> tuple[Numbers, Numbers]:
    """Losses of the events that count for both; of numbers in units of the mean of theirs."""
    parts = [counted(outcome, delay) for outcome in (ours, theirs)]
    some = slice(max(part.start for part in parts), min(part.stop for part in parts))
    a, b = (losses(outcome, stream)[some] for outcome in (theirs, ours))
    scale = 1.0 if stream.task != "regression" else float(a.mean()) or 1.0
    return a / scale, b / scale


def figures(outcome: Outcome, stream: Stream, delay: int) -> Mapping[str, Any]:
    """The scores of a run that are numbers; its length, its speed, why it ended before the end."""
    found: dict[str, Any] = {
        "events": len(outcome.guess),
        "seconds": round(outcome.seconds, 3),
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        "events_per_s": round(len(outcome.guess) / outcome.seconds, 1),
        "events_per_cpu_s": round(len(outcome.guess) / max(outcome.cpu_seconds, 1e-9), 1),
    }
    if outcome.ended:
        found["ended"] = outcome.ended
    some = counted(outcome, delay)
    if some.start >= some.stop:
        return found
    score = _numbers if stream.task == "regression" else _classes
    values = score(outcome, stream, some).items()
    return {k: float(f"{v:.7g}") for k, v in values if np.isfinite(v)} | found


def _numbers(outcome: Outcome, stream: Stream, some: slice) -> dict[str, float]:
    distance = losses(outcome, stream)[some]
    with np.errstate(over="ignore"):
        return {"mae": distance.mean(), "rmse": np.sqrt(np.square(distance).mean())}


def _classes(outcome: Outcome, stream: Stream, some: slice) -> dict[str, float]:
    right = 1 - losses(outcome, stream)[some]
    y, p = stream.y[some], np.asarray(outcome.p[some], dtype=np.float64)
    recalls = [right[y == label].mean() for label in np.unique(y)]
    found = {
        "accuracy": right.mean(),
        "balanced_accuracy": float(np.mean(recalls)),
        "log_loss": -np.log(np.clip(p, _LEAST, 1)).mean(),
    }
    if stream.task == "binary" and 0 < y.sum() < len(y):
        found["auc"] = auc(y, np.where(y, p, 1 - p))
    return found


def auc(y: NDArray[np.bool_], score: Numbers) -> float:
    """The share of pairs, one of each class, that the score puts in order; equal ones are half."""
    positive = int(y.sum())
    ranks = rankdata(score)[y].sum() - positive * (positive + 1) / 2
    return float(ranks / (positive * (len(y) - positive)))
