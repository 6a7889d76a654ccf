"""Intervals and prediction sets of 90% on the streams of the river battery.

The default model, without its feature machine, predicts and learns each event, labels at once or 48
events late, and `streamk.conformal` gives each prediction its interval or set. The same predictions
and delays then go through the rules of `rules.py`.

A set is never empty, so it holds at least what the predicted class alone holds: where that is right
more often than the level, coverage is the accuracy and the sets have one class. The lowest coverage
is of 1,000 successive events of those that do not overlap, of shorter streams of a third of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import DataError
from benchmarks.river_battery.streams import STREAMS, Stream, load
from benchmarks.signals.rules import LEVEL, OURS, RULES, thresholds
from streamk.conformal import AdaptiveIntervals, AdaptiveSets, Regions, Said
from streamk.learners import MultiKernel

LATE = 48
_AT_ONCE = 1000
"""Events handed over together where labels come at once."""


def measure(data: Any, *, quick: bool) -> dict[str, Any]:
    """Figures by stream, by delay and by rule."""
    found: dict[str, Any] = {}
    for name in STREAMS:
        try:
            stream = load(name, data, quick=quick, events=0)
        except DataError:
            if not quick:
                raise
            continue
        found[name] = {"events": len(stream), "task": stream.task}
        for delay in (0, LATE):
            found[name][str(delay)] = one = _figures(stream, delay)
            ours = one["rules"][OURS]
            common.note(f"  {name}, {delay} late: {ours['coverage']:.4f}, {ours['size']:.3f}")
    return found


def _figures(stream: Stream, delay: int) -> dict[str, Any]:
    said, labels = predicted(stream, delay), stream.y.tolist()
    regions: Regions = AdaptiveIntervals() if stream.task == "regression" else AdaptiveSets()
    scores, found = regions.scores(said, labels), {}
    unit = 1.0 if stream.task != "regression" else float(np.std(stream.y))
    for name, rule in RULES.items():
        given = thresholds(rule(), scores.tolist(), delay)
        measured = regions.measures(said, labels, given)
        held, sizes = measured[~np.isnan(measured[:, 0])].T
        found[name] = {
            "coverage": float(held.mean()),
            "lowest": lowest(held),
            "size": float(sizes.mean()) / unit,
        }
    right = [p == y for p, y in zip(said.predictions, labels, strict=True) if p is not None]
    return {"accuracy": None if unit != 1.0 else float(np.mean(right)), "rules": found}


def lowest(held: NDArray[np.float64]) -> float:
    """The least share of 1,000 successive events, or of a third of fewer than 3,000."""
    n = min(1000, len(held) // 3)
    whole = held[: len(held) // n * n].reshape(-1, n)
    return float(whole.mean(axis=1).min())


def predicted(stream: Stream, delay: int) -> Said:
    """Predictions of many kernels for the events of a stream."""
    task = "regression" if stream.task == "regression" else "classification"
    model = MultiKernel(task=task, seed=1, threads=1, external_experts=())
    X = np.asarray(stream.table(), np.float64)
    model.add_columns(tuple(range(X.shape[1])))
    y, parts = stream.y.tolist(), []
    if delay:
        for t in range(len(X)):
            if t >= delay:
                old = t - delay
                model.learn_held_many(X[old : old + 1], [y[old]], [old])
            parts.append(model.predict_held_many(X[t : t + 1], [t]))
    else:
        for start in range(0, len(X), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            parts.append(model.predict_then_learn_many(X[some], y[some]))
    predictions = np.concatenate([part.predictions for part in parts])
    if task == "regression":
        return Said(predictions)
    P = np.full((len(X), len(model.classes)), np.nan)
    start = 0
    for _, part in parts:
        assert part is not None
        P[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return Said(predictions, P, model.classes)


def render(found: Mapping[str, Any]) -> str:
    """A table of streams and one of rules."""
    return "\n\n".join([_streams(found), _rules(found)])


def _streams(found: Mapping[str, Any]) -> str:
    header = ["labels at once, and 48 late", "accuracies"]
    for when in ("at once", "late"):
        header += [f"{when}: held", "lowest", "size"]
    rows = []
    for name, one in found.items():
        both = [one["0"], one[str(LATE)]]
        accuracies = [
            "-" if part["accuracy"] is None else _percent(part["accuracy"]) for part in both
        ]
        row = [f"{name}, {one['events']:,} events", " ".join(dict.fromkeys(accuracies))]
        for part in both:
            ours = part["rules"][OURS]
            row += [_percent(ours["coverage"]), _percent(ours["lowest"]), f"{ours['size']:.2f}"]
        rows.append(row)
    return common.table(header, rows)


def _rules(found: Mapping[str, Any]) -> str:
    rows: list[list[str]] = []
    for delay in (0, LATE):
        parts = [one[str(delay)] for one in found.values()]
        parts = [one for one in parts if one["accuracy"] is None or one["accuracy"] <= LEVEL]
        rows += [[f"{delay} late: {name}", *_summary(parts, name)] for name in RULES]
    header = ["streams with an accuracy below 90%, and numbers", "within 1 point", "farthest"]
    return common.table([*header, "mean lowest", "size by ours"], rows)


def _summary(parts: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    each = [part["rules"][name] for part in parts]
    off = [one["coverage"] - LEVEL for one in each]
    ours = [part["rules"][OURS]["size"] for part in parts]
    ratios = [one["size"] / size for one, size in zip(each, ours, strict=True)]
    return [
        f"{sum(abs(one) <= 0.01 for one in off)} of {len(off)}",
        f"{100 * max(off, key=abs, default=0.0):+.1f}",
        _percent(float(np.mean([one["lowest"] for one in each]))),
        f"{float(np.exp(np.mean(np.log(ratios)))):.2f}",
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
