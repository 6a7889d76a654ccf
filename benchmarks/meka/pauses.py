"""How long learning pauses for a factorization that is made in the background.

rialto, predicted and learned in batches of 256, with a `swap_delay` of 32,768 events, which are
some five seconds of the load, and factorizations as often. Full load is one batch after the other,
and its rate that of the median batch. Then batches come at half of that rate, and the longest call
is told in units of the time between two batches, of which ingest may miss two; and how many came
while a factorization was being made.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.data import Directory, load
from benchmarks.meka.streaming import OURS, counts, factorizing, made
from streamk.learners import Learner

STREAM = "rialto"
BATCH, QUICK_BATCH = 256, 16
UNHURRIED: dict[str, Any] = {"swap_delay": 32768, "every": 32768}
STEP, MOST = 1.0, 2.0
COUNTED = ("factorizations", "waits")
WIDTH = 100


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """The longest call at half of full load, in batches' time."""
    stream = load(STREAM, data, quick=quick)
    model = made(OURS, "classification", STEP, **UNHURRIED)
    size = QUICK_BATCH if quick else BATCH
    half = len(stream) // 2 // size
    X, y = stream.X, stream.y.tolist()
    rows = [slice(b * size, (b + 1) * size) for b in range(len(stream) // size)]
    full = [_call(model, X[some], y[some]) for some in rows[:half]]
    between = 2.0 * float(np.median(full))
    before = counts(model)
    calls, during, due = [], [], time.perf_counter()
    for some in rows[half:]:
        time.sleep(max(0.0, due - time.perf_counter()))
        working = _is_factorizing(model)
        calls.append(_call(model, X[some], y[some]))
        during.append(working or _is_factorizing(model))
        due += between
    after = counts(model)
    longest = float(f"{max(calls) / between:.4g}")
    return {
        "batch": size,
        "batch_ms": round(between / 2 * 1e3, 3),
        "longest_ms": round(max(calls) * 1e3, 3),
        "longest": longest,
        "batches": len(calls),
        "batches_during": sum(during),
        **{name: after[name] - before[name] for name in COUNTED},
        "goals": [hot.goal("longest pause at half load", [longest], " batches", most=MOST)],
    }


def _is_factorizing(model: Learner) -> bool:
    inner = factorizing(model)
    return inner is not None and inner.is_factorizing


def _call(model: Learner, X: Any, y: list[Any]) -> float:
    def work() -> None:
        if model.n_events:
            model.predict_many(X)
        model.learn_many(X, y)

    return common.timed(work)


def render(p: Mapping[str, Any]) -> str:
    """What was measured in a sentence, then the goal."""
    text = (
        f"{STREAM}, batches of {p['batch']}: {p['batch_ms']:.1f} ms at full load. At half of it "
        f"the longest call took {p['longest_ms']:.1f} ms, {p['longest']:.2f} times the time "
        f"between two batches ({p['batches']:,} batches, {p['batches_during']:,} of them during "
        f"one of {p['factorizations']} factorizations, {p['waits']} of which were waited for)."
    )
    return f"{textwrap.fill(text, WIDTH)}\n\n{hot.goals_table(p['goals'])}"
