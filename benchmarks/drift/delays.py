"""Delays: streams of one law, then of another, several of each kind.

"delay" is the median number of events from the change to the first alarm after it, "missed" the
streams without one among the events after the change, "early" those with an alarm before it: what a
detector with many of these says later means little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.drift.detectors import Numbers, detectors

BEFORE, AFTER, STREAMS = 2000, 1500, 5
QUICK = (300, 300, 2)


def _normal(rng: np.random.Generator, n: int, d: int) -> Numbers:
    return rng.normal(size=(n, d))


def changed(kind: str, n: int, before: int, seed: int) -> Numbers:
    """Return n events whose law changes after some."""
    rng = np.random.default_rng([seed, 3])
    if kind == "errors, 10% to 25%":
        rate = np.where(np.arange(n) < before, 0.10, 0.25)
        return (rng.random(n) < rate).astype(np.float64)[:, None]
    X = _normal(rng, n, {"1": 1, "2": 2, "5": 5}[kind.split(" of ")[1][0]])
    after = X[before:]
    if kind.startswith("mean"):
        after[:, 0] += float(kind.split()[1])
    elif kind.startswith("spread"):
        after[:, 0] *= 2.0
    else:
        after[:, 1] = 0.8 * after[:, 0] + 0.6 * after[:, 1]
    return X


KINDS = (
    "errors, 10% to 25%",
    "mean +1 of 1 column",
    "mean +0.5 of 1 column",
    "spread x2 of 1 column",
    "spread x2 of 5 columns",
    "correlation 0.8 of 2 columns",
    "mean +1 of 5 columns",
)


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures by kind of change and detector."""
    del data
    before, after, streams = QUICK if quick else (BEFORE, AFTER, STREAMS)
    found: dict[str, Any] = {}
    for kind in KINDS:
        found[kind] = {}
        for name, alarms in detectors().items():
            heard = [
                alarms(changed(kind, before + after, before, seed), seed) for seed in range(streams)
            ]
            delays = [
                min((i - before for i in each if i >= before), default=None) for each in heard
            ]
            known = [delay for delay in delays if delay is not None]
            found[kind][name] = {
                "delay": float(np.median(known)) if known else None,
                "missed": delays.count(None),
                "early": sum(any(i < before for i in each) for each in heard),
            }
            common.note(f"  {kind}: {name}: {found[kind][name]}")
    return {"kinds": found, "events": [before, after], "streams": streams}


def render(found: Mapping[str, Any]) -> str:
    """A line for each kind of change and detector."""
    rows = []
    for kind, names in found["kinds"].items():
        for name, one in names.items():
            delay = "-" if one["delay"] is None else f"{one['delay']:,.0f}"
            rows.append([f"{kind}: {name}", delay, str(one["missed"]), str(one["early"])])
    before, after = found["events"]
    title = f"{found['streams']} streams of {before:,} + {after:,} events"
    return common.table([title, "delay", "missed", "early"], rows)
