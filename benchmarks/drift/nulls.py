"""Nulls: independent events of one law, generated. Every alarm is a false one.

"alarms" are all of them, "streams" those with at least one. MMDDrift promises that of the latter
there are at most alpha = 1%. A million events of each law; the slow ones, which take some 150 µs
for one, have 50,000. "us" are microseconds of the processor for one event, in one batch
for MMDDrift, by one call for each in the others; alibi-detect's are with its start.

Then many short streams: how often the p-value of MMDDrift ever is at most a given level.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.drift.detectors import OURS, SLOW, Numbers, detectors
from streamk.drift import StreamingMMD

EVENTS, SLOW_EVENTS, QUICK = 1_000_000, 50_000, 2_000
SHORT, SHORT_EVENTS = 400, 2_000
LEVELS = (0.5, 0.2, 0.1, 0.05, 0.01)
LAWS: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 1)),
    "errors, 10%": lambda rng, n: (rng.random((n, 1)) < 0.1).astype(np.float64),
    "Cauchy": lambda rng, n: rng.standard_cauchy((n, 1)),
}


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Alarms by law and detector, and how often p-values are small."""
    del data
    found: dict[str, Any] = {}
    for law, draw in LAWS.items():
        found[law] = {}
        for name, alarms in detectors().items():
            n = QUICK if quick else SLOW_EVENTS if name in SLOW else EVENTS
            X = draw(np.random.default_rng(4), n)
            began = sum(os.times()[:4])
            heard = len(alarms(X, 1))
            took = 1e6 * (sum(os.times()[:4]) - began) / n
            found[law][name] = {"events": n, "alarms": heard, "us": took}
            common.note(f"  {law}: {name}: {found[law][name]}")
    return {
        "long": found,
        "short": _short(10 if quick else SHORT, QUICK if quick else SHORT_EVENTS),
    }


def _short(streams: int, events: int) -> dict[str, Any]:
    """Shares of streams whose p-value ever is at most a level."""
    smallest = []
    for seed in range(streams):
        # An alarm would begin a new run, whose p-value is another one.
        test = StreamingMMD(1, alpha=1e-12, seed=seed)
        test.update(np.random.default_rng([5, seed]).normal(size=(events, 1)))
        smallest.append(test.p_value)
    shares = {str(level): float(np.mean(np.array(smallest) <= level)) for level in LEVELS}
    return {"streams": streams, "events": events, "shares": shares}


def render(found: Mapping[str, Any]) -> str:
    """A line for each law and detector; then the levels."""
    rows = [
        [f"{law}: {name}", f"{one['events']:,}", f"{one['alarms']:,}", f"{one['us']:.1f}"]
        for law, names in found["long"].items()
        for name, one in names.items()
    ]
    short = found["short"]
    shares = [[level, f"{100 * share:.1f}%"] for level, share in short["shares"].items()]
    return "\n\n".join(
        [
            common.table(["independent events", "events", "alarms", "us"], rows),
            common.table(
                [
                    f"p-value of {OURS} ever at most",
                    f"of {short['streams']} streams of {short['events']:,} events",
                ],
                shares,
            ),
        ]
    )
